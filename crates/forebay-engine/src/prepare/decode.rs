//! Decode: a file's bytes become a picture of red, green and blue.
//!
//! The format is told by the first bytes, never by the name. Every format comes out as Pillow's
//! `convert("RGB")` gives it: alpha is dropped, palettes are looked up, grey is repeated.

use std::fmt;
use std::io::Cursor;

use forebay_store::{Error, Kind, Result};

use super::image::{Image, Pixel, Scaling, Scratch};

/// How files are decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct Decode {
    /// Whether the camera's orientation mark is obeyed.
    pub orientation: Orientation,
    /// Pictures of more pixels are refused: a few kilobytes can claim gigabytes.
    pub max_pixels: u64,
    /// Whether large JPEGs may be decoded at a fraction of their size.
    pub scaling: Scaling,
}

/// What becomes of the camera's orientation mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orientation {
    /// Pixels stay as stored, as torchvision's loader leaves them.
    AsStored,
    /// Pictures are turned upright.
    Upright,
}

/// Pillow's limit.
const MAX_PIXELS: u64 = 178_956_970;

impl Default for Decode {
    fn default() -> Self {
        Decode { orientation: Orientation::AsStored, max_pixels: MAX_PIXELS, scaling: Scaling::Exact }
    }
}

impl Decode {
    /// Opens a file: reads its header if it is a JPEG, decodes it otherwise.
    pub(super) fn open<'a>(&self, bytes: &'a [u8], scratch: &'a mut Scratch) -> Result<Image<'a>> {
        let mut image = match Format::of(bytes)? {
            Format::Jpeg => {
                let header = scratch.jpeg.header(bytes)?;
                self.check(header.width, header.height)?;
                Image::undecoded(bytes, header, self.scaling, scratch)
            }
            Format::Png => self.png(bytes, scratch)?,
            Format::WebP => self.webp(bytes, scratch)?,
            Format::Other(format) => self.other(bytes, format, scratch)?,
        };
        if self.orientation == Orientation::Upright {
            turn_upright(&mut image, orientation_mark(bytes))?;
        }
        Ok(image)
    }

    fn check(&self, width: u32, height: u32) -> Result<()> {
        let pixels = u64::from(width) * u64::from(height);
        if pixels == 0 {
            return Err(Error::corrupt(format!("the picture is {width} x {height}")));
        }
        if pixels > self.max_pixels {
            return Err(Error::new(
                Kind::OverBudget,
                format!("the picture is {width} x {height}, more than the limit of {} pixels", self.max_pixels),
            )
            .remedy("raise decode(max_pixels=...) if the file can be trusted"));
        }
        Ok(())
    }

    fn png<'a>(&self, bytes: &[u8], scratch: &'a mut Scratch) -> Result<Image<'a>> {
        let mut decoder = png::Decoder::new(Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().map_err(|e| damaged("PNG", e))?;
        let (width, height) = (reader.info().width, reader.info().height);
        self.check(width, height)?;
        let size = reader
            .output_buffer_size()
            .ok_or_else(|| Error::new(Kind::OverBudget, "the PNG does not fit into memory"))?;
        let mut data = vec![0; size];
        let frame = reader.next_frame(&mut data).map_err(|e| damaged("PNG", e))?;
        let wide = usize::from(frame.bit_depth == png::BitDepth::Sixteen) + 1;
        let channels = frame.color_type.samples();
        // Pillow keeps 16-bit grey as it is and clips it when it becomes RGB; of other 16-bit files it keeps the high byte.
        let is_wide_grey = wide == 2 && channels == 1;
        let level = |sample: &[u8]| {
            if is_wide_grey && sample[0] > 0 {
                255
            } else if is_wide_grey {
                sample[1]
            } else {
                sample[0]
            }
        };
        Image::decoded(width, height, scratch, |pixels| {
            for (pixel, samples) in pixels.iter_mut().zip(data.chunks_exact(channels * wide)) {
                *pixel = match channels {
                    1 | 2 => grey(level(samples)),
                    _ => [samples[0], samples[wide], samples[2 * wide], 255],
                };
            }
            Ok(())
        })
    }

    fn webp<'a>(&self, bytes: &[u8], scratch: &'a mut Scratch) -> Result<Image<'a>> {
        let bad = || Error::corrupt("the WebP is damaged").remedy(RESTORE);
        let features = webp::BitstreamFeatures::new(bytes).ok_or_else(bad)?;
        self.check(features.width(), features.height())?;
        let copy = |width, height, data: &[u8], channels: usize, scratch: &'a mut Scratch| {
            Image::decoded(width, height, scratch, |pixels| {
                pixels
                    .iter_mut()
                    .zip(data.chunks_exact(channels))
                    .for_each(|(pixel, d)| *pixel = [d[0], d[1], d[2], 255]);
                Ok(())
            })
        };
        if features.has_animation() {
            let frames = webp::AnimDecoder::new(bytes).decode().map_err(|_| bad())?;
            let frame = frames.get_frame(0).ok_or_else(bad)?;
            let channels = if frame.get_layout().is_alpha() { 4 } else { 3 };
            copy(frame.width(), frame.height(), frame.get_image(), channels, scratch)
        } else {
            let picture = webp::Decoder::new(bytes).decode().ok_or_else(bad)?;
            let channels = if picture.is_alpha() { 4 } else { 3 };
            copy(picture.width(), picture.height(), &picture, channels, scratch)
        }
    }

    fn other<'a>(&self, bytes: &[u8], format: ::image::ImageFormat, scratch: &'a mut Scratch) -> Result<Image<'a>> {
        use ::image::{DynamicImage, ImageDecoder, ImageReader};
        let name = format.extensions_str()[0].to_uppercase();
        let reader = ImageReader::with_format(Cursor::new(bytes), format);
        let decoder = reader.into_decoder().map_err(|e| damaged(&name, e))?;
        let (width, height) = decoder.dimensions();
        self.check(width, height)?;
        let picture = DynamicImage::from_decoder(decoder).map_err(|e| damaged(&name, e))?.into_rgba8();
        Image::decoded(width, height, scratch, |pixels| {
            pixels.iter_mut().zip(picture.pixels()).for_each(|(pixel, p)| *pixel = [p[0], p[1], p[2], 255]);
            Ok(())
        })
    }
}

const RESTORE: &str = "restore the file, or drop it with on_error=\"skip\"";

fn damaged(format: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::corrupt(format!("the {format} is damaged: {}", error.to_string().to_lowercase()))
        .remedy(RESTORE)
        .because(error)
}

fn grey(level: u8) -> Pixel {
    [level, level, level, 255]
}

enum Format {
    Jpeg,
    Png,
    WebP,
    Other(::image::ImageFormat),
}

impl Format {
    fn of(bytes: &[u8]) -> Result<Self> {
        use ::image::ImageFormat;
        match bytes {
            [] => Err(Error::corrupt("the file is empty").remedy(RESTORE)),
            [0xff, 0xd8, 0xff, ..] => Ok(Format::Jpeg),
            [0x89, b'P', b'N', b'G', ..] => Ok(Format::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(Format::WebP),
            [b'G', b'I', b'F', b'8', ..] => Ok(Format::Other(ImageFormat::Gif)),
            [b'B', b'M', ..] => Ok(Format::Other(ImageFormat::Bmp)),
            [b'P', b'1'..=b'6', ..] => Ok(Format::Other(ImageFormat::Pnm)),
            [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => Err(Error::corrupt("TIFF files are not read")
                .remedy("convert the file to PNG, or drop it with on_error=\"skip\"")),
            _ => {
                Err(Error::corrupt("the file is no image of a known kind (JPEG, PNG, WebP, GIF, BMP, PNM)")
                    .remedy(RESTORE))
            }
        }
    }
}

/// The orientation mark, 1 to 8; 1, upright, where there is none.
fn orientation_mark(bytes: &[u8]) -> u32 {
    let Ok(marks) = exif::Reader::new().read_from_container(&mut Cursor::new(bytes)) else { return 1 };
    let mark = marks.get_field(exif::Tag::Orientation, exif::In::PRIMARY);
    mark.and_then(|field| field.value.get_uint(0)).unwrap_or(1)
}

fn turn_upright(image: &mut Image<'_>, mark: u32) -> Result<()> {
    if matches!(mark, 5..=8) {
        image.transpose()?;
    }
    if matches!(mark, 2 | 3 | 6 | 7) {
        image.mirror();
    }
    if matches!(mark, 3 | 4 | 7 | 8) {
        image.flip();
    }
    Ok(())
}

impl fmt::Display for Decode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.orientation == Orientation::Upright {
            parts.push("orientation=True".to_owned());
        }
        if self.max_pixels != MAX_PIXELS {
            parts.push(format!("max_pixels={}", self.max_pixels));
        }
        if self.scaling == Scaling::Fast {
            parts.push("scaling=\"fast\"".to_owned());
        }
        write!(f, "decode({})", parts.join(", "))
    }
}
