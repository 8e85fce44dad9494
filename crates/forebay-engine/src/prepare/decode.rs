//! Decode: a file's bytes become a picture of red, green and blue.
//!
//! The format is told by the first bytes, never by the name. Every format comes out as Pillow's
//! `convert("RGB")` gives it: alpha is dropped, palettes are looked up, grey is repeated.

use std::fmt;
use std::io::Cursor;

use forebay_store::{Error, Kind, Result};

use super::image::{Image, Pixel, Rect, Scaling, Scratch};
use super::webp;

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
            Format::Gif => self.gif(bytes, scratch)?,
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
        Image::decoded(width, height, scratch, |pixels| {
            for (pixel, samples) in pixels.iter_mut().zip(data.chunks_exact(channels * wide)) {
                // Of all 16-bit files but grey ones Pillow keeps the high byte.
                *pixel = match channels {
                    1 if wide == 2 => clipped_grey(u16::from_be_bytes([samples[0], samples[1]])),
                    1 | 2 => grey(samples[0]),
                    _ => [samples[0], samples[wide], samples[2 * wide], 255],
                };
            }
            Ok(())
        })
    }

    fn webp<'a>(&self, bytes: &[u8], scratch: &'a mut Scratch) -> Result<Image<'a>> {
        let bad = || Error::corrupt("the WebP is damaged").remedy(RESTORE);
        let header = webp::header(bytes).ok_or_else(bad)?;
        self.check(header.width, header.height)?;
        Image::decoded(header.width, header.height, scratch, |pixels| {
            webp::decode(bytes, header, pixels).ok_or_else(bad)
        })
    }

    /// The first frame of a GIF. Around a frame that is smaller than the whole, the whole shows what Pillow
    /// shows there: the colour that stands for transparent, or the first one.
    fn gif<'a>(&self, bytes: &[u8], scratch: &'a mut Scratch) -> Result<Image<'a>> {
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::Indexed);
        // The sizes of the whole and of the frame are checked here, before there is memory for either.
        options.set_memory_limit(gif::MemoryLimit::Unlimited);
        let mut decoder = options.read_info(Cursor::new(bytes)).map_err(|e| damaged("GIF", e))?;
        let (mut width, mut height) = (u32::from(decoder.width()), u32::from(decoder.height()));
        let frame = decoder.next_frame_info().map_err(|e| damaged("GIF", e))?;
        let frame = frame.ok_or_else(|| Error::corrupt("the GIF has no picture").remedy(RESTORE))?;
        let inner =
            Rect { x: frame.left.into(), y: frame.top.into(), width: frame.width.into(), height: frame.height.into() };
        let around = usize::from(frame.transparent.unwrap_or(0));
        (width, height) = (width.max(inner.x + inner.width), height.max(inner.y + inner.height));
        self.check(width, height)?;
        let mut indices = vec![0; decoder.buffer_size()];
        decoder.read_into_buffer(&mut indices).map_err(|e| damaged("GIF", e))?;
        let palette = decoder.palette().map_err(|e| damaged("GIF", e))?.as_chunks::<3>().0;
        // Beyond the end of the palette there is black.
        let colour = |index: usize| palette.get(index).map_or(grey(0), |&[r, g, b]| [r, g, b, 255]);
        Image::decoded(width, height, scratch, |pixels| {
            pixels.fill(colour(around));
            let rows = pixels.chunks_exact_mut(width as usize).skip(inner.y as usize);
            for (row, indices) in rows.zip(indices.chunks_exact(inner.width.max(1) as usize)) {
                let row = &mut row[inner.x as usize..];
                row.iter_mut().zip(indices).for_each(|(pixel, index)| *pixel = colour((*index).into()));
            }
            Ok(())
        })
    }

    fn other<'a>(&self, bytes: &[u8], format: ::image::ImageFormat, scratch: &'a mut Scratch) -> Result<Image<'a>> {
        use ::image::{DynamicImage, ImageDecoder, ImageReader};
        let name = if format == ::image::ImageFormat::Bmp { "BMP" } else { "PNM" };
        let reader = ImageReader::with_format(Cursor::new(bytes), format);
        let decoder = reader.into_decoder().map_err(|e| damaged(name, e))?;
        let (width, height) = decoder.dimensions();
        self.check(width, height)?;
        let picture = DynamicImage::from_decoder(decoder).map_err(|e| damaged(name, e))?;
        if let DynamicImage::ImageLuma16(wide) = picture {
            return Image::decoded(width, height, scratch, |pixels| {
                pixels.iter_mut().zip(wide.pixels()).for_each(|(pixel, p)| *pixel = clipped_grey(p[0]));
                Ok(())
            });
        }
        let picture = picture.into_rgba8();
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

/// Pillow keeps 16-bit grey as it is, and clips it when it becomes RGB.
fn clipped_grey(level: u16) -> Pixel {
    grey(level.min(255) as u8)
}

enum Format {
    Jpeg,
    Png,
    WebP,
    Gif,
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
            [b'G', b'I', b'F', b'8', ..] => Ok(Format::Gif),
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

#[cfg(test)]
mod tests {
    use super::super::Pipeline;
    use super::super::tests::{Grid, jpeg, ppm};
    use super::*;

    fn open(decode: &Decode, bytes: &[u8]) -> Result<Grid> {
        let mut scratch = Scratch::default();
        let image = decode.open(bytes, &mut scratch)?;
        Ok(Grid::of(image))
    }

    fn refusal(bytes: &[u8]) -> Error {
        let mut scratch = Scratch::default();
        let Ok(mut image) = Decode::default().open(bytes, &mut scratch) else {
            return Decode::default().open(bytes, &mut Scratch::default()).map(drop).unwrap_err();
        };
        image.finish().map(drop).unwrap_err()
    }

    #[test]
    fn it_is_written_as_promised() {
        let plain = Decode::default;
        for (decode, text, fingerprint) in [
            (plain(), "decode()", 0xa0a1_37d9_a23f_6130),
            (
                Decode { orientation: Orientation::Upright, ..plain() },
                "decode(orientation=True)",
                0x08ff_ec76_b095_878e,
            ),
            (Decode { max_pixels: 9, ..plain() }, "decode(max_pixels=9)", 0xfc55_41e3_757a_cf8c),
            (Decode { scaling: Scaling::Fast, ..plain() }, "decode(scaling=\"fast\")", 0x4e6f_b22f_52fb_75eb),
        ] {
            let pipeline = Pipeline::new(decode);
            assert_eq!(pipeline.steps(), [text]);
            assert_eq!(pipeline.fingerprints(), [fingerprint], "{text} has {:#018x}", pipeline.fingerprints()[0]);
        }
    }

    #[test]
    fn an_empty_file_is_said_to_be_empty() {
        let error = refusal(b"");
        assert_eq!(error.kind(), Kind::Corrupt);
        assert_eq!(error.to_string(), "the file is empty; restore the file, or drop it with on_error=\"skip\"");
    }

    #[test]
    fn what_is_no_image_is_said_to_be_none() {
        for bytes in [&b"hello"[..], &[0; 1000], b"<html>", b"P7\n", b"II", b"RIFF1234WAVE"] {
            let error = refusal(bytes);
            assert_eq!(error.kind(), Kind::Corrupt);
            assert!(error.to_string().starts_with("the file is no image of a known kind (JPEG, PNG,"), "{error}");
        }
        assert!(refusal(b"II*\0....").to_string().starts_with("TIFF files are not read; convert"));
    }

    #[test]
    fn a_file_cut_short_anywhere_is_an_error_and_never_a_panic() {
        let grid = Grid::noise(40, 30, 0);
        let mut gif = Vec::new();
        let mut encoder = gif::Encoder::new(&mut gif, 40, 30, &[0, 0, 0, 255, 255, 255]).unwrap();
        let indices: Vec<u8> = grid.pixels.iter().map(|p| p[0] & 1).collect();
        encoder
            .write_frame(&gif::Frame { width: 40, height: 30, buffer: indices.into(), ..gif::Frame::default() })
            .unwrap();
        drop(encoder);
        let mut png = Vec::new();
        let mut encoder = png::Encoder::new(&mut png, 40, 30);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header().unwrap().write_image_data(grid.pixels.as_flattened()).unwrap();
        let files = [jpeg(&grid, turbojpeg_sys::TJSAMP_TJSAMP_420, 90, false), png, gif, ppm(&grid)];
        for (file, last) in files.iter().zip([1, 30, 10, 1]) {
            assert!(open(&Decode::default(), file).is_ok());
            for end in (0..file.len() - last).step_by(7) {
                assert_eq!(refusal(&file[..end]).kind(), Kind::Corrupt, "{:?} at {end}", &file[..2]);
            }
        }
    }

    #[test]
    fn a_picture_beyond_the_limit_is_refused_before_there_is_memory_for_it() {
        let decode = Decode { max_pixels: 1199, ..Decode::default() };
        let grid = Grid::noise(40, 30, 0);
        for file in [ppm(&grid), jpeg(&grid, turbojpeg_sys::TJSAMP_TJSAMP_444, 90, false)] {
            let error = open(&decode, &file).unwrap_err();
            assert_eq!(error.kind(), Kind::OverBudget);
            assert_eq!(
                error.to_string(),
                "the picture is 40 x 30, more than the limit of 1199 pixels; \
                 raise decode(max_pixels=...) if the file can be trusted"
            );
            assert!(open(&Decode { max_pixels: 1200, ..Decode::default() }, &file).is_ok());
        }
        // A few bytes that claim 4 gigapixels.
        let gif = b"GIF89a\xff\xff\xff\xff\x80\0\0black!,\0\0\0\0\xff\xff\xff\xff\0\x02\x01\x44\0;";
        for claim in [&b"P6 65000 65000 255\n"[..], gif] {
            let error = refusal(claim);
            assert_eq!(error.kind(), Kind::OverBudget, "{error}");
        }
    }

    #[test]
    fn a_gif_that_is_smaller_than_its_canvas_shows_the_transparent_colour_around() {
        let mut file = Vec::new();
        let palette = [10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42];
        let mut encoder = gif::Encoder::new(&mut file, 5, 4, &palette).unwrap();
        let frame =
            gif::Frame { left: 1, top: 2, width: 2, height: 1, buffer: vec![1, 3].into(), ..gif::Frame::default() };
        encoder.write_frame(&gif::Frame { transparent: Some(2), ..frame }).unwrap();
        drop(encoder);
        let expected = Grid::new(5, 4, |x, y| match (x, y) {
            (1, 2) => [20, 21, 22],
            (2, 2) => [40, 41, 42],
            _ => [30, 31, 32],
        });
        assert_eq!(open(&Decode::default(), &file).unwrap(), expected);
    }

    #[test]
    fn the_eight_marks_turn_a_picture_eight_ways() {
        let grid = Grid::noise(3, 2, 0);
        let turned = |mark| grid.show(|image| turn_upright(image, mark));
        let expected = [
            grid.clone(),
            grid.mirror(),
            grid.mirror().flip(),
            grid.flip(),
            grid.transpose(),
            grid.transpose().mirror(),
            grid.transpose().mirror().flip(),
            grid.transpose().flip(),
        ];
        for (mark, expected) in (1..).zip(expected) {
            assert_eq!(turned(mark), expected, "mark {mark}");
        }
        assert_eq!((turned(0), turned(9)), (grid.clone(), grid.clone()), "unknown marks leave it as it is");
    }
}
