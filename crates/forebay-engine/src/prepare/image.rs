//! A picture on its way through the operations, as lazy as they allow.
//!
//! A crop only moves the view, a flip only sets a flag, and a JPEG stays undecoded until an operation
//! needs pixels. By then the view says which part is wanted, so only that part is decoded; and the flags
//! are settled when the picture is written into its slot, where mirroring costs next to nothing.
//!
//! Pixels are four bytes, red, green, blue and one unused: decoding, resizing and writing are faster on
//! whole words than on triples.

use fast_image_resize as fir;
use forebay_store::{Error, Kind, Result};

use super::jpeg::{self, Decompressor};
use super::write::Rows;

/// Red, green, blue, unused.
pub type Pixel = [u8; 4];

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rect {
    /// Columns left of it.
    pub x: u32,
    /// Rows above it.
    pub y: u32,
    /// Its columns.
    pub width: u32,
    /// Its rows.
    pub height: u32,
}

/// How pixels are weighed when a picture changes size. All but `Nearest` are antialiased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the definitions
pub enum Interpolation {
    Nearest,
    Box,
    Bilinear,
    Hamming,
    Bicubic,
    Lanczos,
}

/// What a worker keeps from sample to sample, so that a sample allocates nothing.
pub struct Scratch {
    pub(super) jpeg: Decompressor,
    resizer: fir::Resizer,
    front: Vec<Pixel>,
    back: Vec<Pixel>,
    middle: Vec<Pixel>,
    pub(super) patches: Vec<Patch>,
    pub(super) row: Rows,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch {
            jpeg: Decompressor::new(),
            resizer: fir::Resizer::new(),
            front: Vec::new(),
            back: Vec::new(),
            middle: Vec::new(),
            patches: Vec::new(),
            row: Rows::default(),
        }
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scratch({} + {} pixels)", self.front.len(), self.back.len())
    }
}

/// A rectangle of the finished picture that is painted over after normalisation.
#[derive(Debug, Clone)]
pub(super) struct Patch {
    pub area: Rect,
    pub fill: Fill,
    /// What was painted before `normalize` is normalised with the rest of the picture.
    pub is_normalized: bool,
}

/// What a patch is painted with, in values.
#[derive(Debug, Clone)]
pub(super) enum Fill {
    Values([f32; 3]),
    Noise(forebay_policy::sample::Rng),
}

/// A picture between two operations.
pub struct Image<'a> {
    scratch: &'a mut Scratch,
    /// The file, while no operation has needed pixels.
    undecoded: Option<Undecoded<'a>>,
    /// Pixels in a row of `scratch.front`, and its rows.
    stride: u32,
    rows: u32,
    view: Rect,
    is_mirrored: bool,
    is_flipped: bool,
    is_in_values: bool,
    is_normalized: bool,
}

/// A part of `front`, in fractions of pixels where a JPEG was scaled while decoding.
struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

struct Undecoded<'a> {
    bytes: &'a [u8],
    header: jpeg::Header,
    scaling: Scaling,
}

/// Whether a JPEG may be decoded at a fraction of its size when it will be shrunk anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// Decode at full size: results are those of Pillow.
    Exact,
    /// Decode at 1/2, 1/4 or 1/8 where the result stays larger than wanted: faster on large
    /// photographs, by a hair softer.
    Fast,
}

impl<'a> Image<'a> {
    /// A JPEG that is decoded when, and where, its pixels are needed.
    pub(super) fn undecoded(bytes: &'a [u8], header: jpeg::Header, scaling: Scaling, scratch: &'a mut Scratch) -> Self {
        let (width, height) = (header.width, header.height);
        let mut image = Self::blank(width, height, scratch);
        image.undecoded = Some(Undecoded { bytes, header, scaling });
        image
    }

    /// A picture whose pixels `fill` writes, row by row without gaps.
    pub(super) fn decoded(
        width: u32,
        height: u32,
        scratch: &'a mut Scratch,
        fill: impl FnOnce(&mut [Pixel]) -> Result<()>,
    ) -> Result<Self> {
        fill(grow(&mut scratch.front, width, height))?;
        Ok(Self::blank(width, height, scratch))
    }

    fn blank(width: u32, height: u32, scratch: &'a mut Scratch) -> Self {
        scratch.patches.clear();
        let view = Rect { x: 0, y: 0, width, height };
        Image {
            scratch,
            undecoded: None,
            stride: width,
            rows: height,
            view,
            is_mirrored: false,
            is_flipped: false,
            is_in_values: false,
            is_normalized: false,
        }
    }

    /// Columns.
    pub fn width(&self) -> u32 {
        self.view.width
    }

    /// Rows.
    pub fn height(&self) -> u32 {
        self.view.height
    }

    /// Keeps only `area`. Costs nothing: the view moves.
    ///
    /// # Panics
    /// If the area does not lie within the picture.
    pub fn crop(&mut self, area: Rect) {
        assert!(
            area.x + area.width <= self.width() && area.y + area.height <= self.height(),
            "a crop lies within the picture"
        );
        let x = if self.is_mirrored { self.view.width - area.x - area.width } else { area.x };
        let y = if self.is_flipped { self.view.height - area.y - area.height } else { area.y };
        self.view = Rect { x: self.view.x + x, y: self.view.y + y, width: area.width, height: area.height };
    }

    /// Swaps left and right. Costs nothing: the picture is written mirrored.
    pub fn mirror(&mut self) {
        self.is_mirrored = !self.is_mirrored;
        let width = self.width();
        for patch in &mut self.scratch.patches {
            patch.area.x = width - patch.area.x - patch.area.width;
        }
    }

    /// Swaps top and bottom. Costs nothing: the rows are written in reverse.
    pub fn flip(&mut self) {
        self.is_flipped = !self.is_flipped;
        let height = self.height();
        for patch in &mut self.scratch.patches {
            patch.area.y = height - patch.area.y - patch.area.height;
        }
    }

    /// Swaps rows and columns.
    pub fn transpose(&mut self) -> Result<()> {
        self.decode()?;
        let (width, height) = (self.view.width as usize, self.view.height as usize);
        grow(&mut self.scratch.back, height as u32, width as u32);
        for y in 0..height {
            let start = (self.view.y as usize + y) * self.stride as usize + self.view.x as usize;
            for (x, pixel) in self.scratch.front[start..start + width].iter().enumerate() {
                self.scratch.back[x * height + y] = *pixel;
            }
        }
        self.turn_over(height as u32, width as u32);
        std::mem::swap(&mut self.is_mirrored, &mut self.is_flipped);
        Ok(())
    }

    /// Changes the size. This decodes just the view.
    pub fn resize(&mut self, width: u32, height: u32, interpolation: Interpolation) -> Result<()> {
        if (width, height) == (self.view.width, self.view.height) {
            return Ok(());
        }
        check_room(width, height)?;
        if interpolation == Interpolation::Nearest {
            return self.resize_nearest(width, height);
        }
        let denominator = self.denominator(width, height);
        let Area { left, top, width: columns, height: rows } = self.decode_at(denominator)?;
        let scratch = &mut *self.scratch;
        let source = scratch.front[..self.stride as usize * self.rows as usize].as_flattened();
        let source =
            fir::images::ImageRef::new(self.stride, self.rows, source, fir::PixelType::U8x4).map_err(broken)?;
        let target = grow(&mut scratch.back, width, height).as_flattened_mut();
        let mut target =
            fir::images::Image::from_slice_u8(width, height, target, fir::PixelType::U8x4).map_err(broken)?;
        let options = fir::ResizeOptions::new().use_alpha(false).resize_alg(interpolation.algorithm());
        if denominator == 1 {
            // A cropped image, not a crop option: the option would let pixels outside the view bleed in.
            let Rect { x, y, width, height } = self.view;
            let source = fir::images::CroppedImage::new(&source, x, y, width, height).map_err(broken)?;
            if target.width() != width && target.height() != height {
                // Levels are rounded and cut off between the two directions, so their order shows. Left to
                // itself the resizer goes down first; Pillow goes across first.
                check_room(target.width(), height)?;
                let middle = grow(&mut scratch.middle, target.width(), height).as_flattened_mut();
                let mut middle =
                    fir::images::Image::from_slice_u8(target.width(), height, middle, fir::PixelType::U8x4)
                        .map_err(broken)?;
                scratch.resizer.resize(&source, &mut middle, Some(&options)).map_err(broken)?;
                scratch.resizer.resize(&middle, &mut target, Some(&options)).map_err(broken)?;
            } else {
                scratch.resizer.resize(&source, &mut target, Some(&options)).map_err(broken)?;
            }
        } else {
            let options = options.crop(left, top, columns, rows);
            scratch.resizer.resize(&source, &mut target, Some(&options)).map_err(broken)?;
        }
        self.turn_over(width, height);
        Ok(())
    }

    /// Picks the nearest pixels, those that Pillow picks where two are equally near.
    fn resize_nearest(&mut self, width: u32, height: u32) -> Result<()> {
        self.decode()?;
        let picked = |from: u32, to: u32| {
            let step = f64::from(from) / f64::from(to);
            // The step is added up, not multiplied: the rounding errors that decide ties are then Pillow's too.
            std::iter::successors(Some(step * 0.5), move |place| Some(place + step))
                .map(move |place| (place as u32).min(from - 1))
                .take(to as usize)
        };
        let columns: Vec<u32> = picked(self.view.width, width).collect();
        let mut back = std::mem::take(&mut self.scratch.back);
        let rows = grow(&mut back, width, height).chunks_exact_mut(width as usize);
        for (row, y) in rows.zip(picked(self.view.height, height)) {
            row.iter_mut().zip(&columns).for_each(|(pixel, x)| *pixel = self.pixel(*x, y));
        }
        self.scratch.back = back;
        self.turn_over(width, height);
        self.settle_flags();
        Ok(())
    }

    /// Surrounds the picture with what `pad` says of each place: a pixel of the picture or a colour.
    pub(super) fn pad(&mut self, sides: Sides, fill: impl Fn(i64, i64) -> Padding) -> Result<()> {
        self.decode()?;
        let (width, height) = (self.width() + sides.left + sides.right, self.height() + sides.top + sides.bottom);
        check_room(width, height)?;
        grow(&mut self.scratch.back, width, height);
        for y in 0..height {
            for x in 0..width {
                let (inner_x, inner_y) = (i64::from(x) - i64::from(sides.left), i64::from(y) - i64::from(sides.top));
                let pixel = match fill(inner_x, inner_y) {
                    Padding::Colour(pixel) => pixel,
                    Padding::Of(x, y) => self.pixel(x, y),
                };
                self.scratch.back[y as usize * width as usize + x as usize] = pixel;
            }
        }
        self.turn_over(width, height);
        self.settle_flags();
        Ok(())
    }

    /// Drops the flags, after a copy was read through them.
    fn settle_flags(&mut self) {
        (self.is_mirrored, self.is_flipped) = (false, false);
    }

    /// The pixel that column `x` and row `y` show, flags considered.
    fn pixel(&self, x: u32, y: u32) -> Pixel {
        let x = if self.is_mirrored { self.view.width - 1 - x } else { x };
        let y = if self.is_flipped { self.view.height - 1 - y } else { y };
        self.scratch.front[(self.view.y + y) as usize * self.stride as usize + (self.view.x + x) as usize]
    }

    /// The rows of the picture for changing colours, in no promised order: a row may show mirrored.
    pub fn rows_mut(&mut self) -> Result<impl Iterator<Item = &mut [Pixel]>> {
        self.decode()?;
        let (x, width) = (self.view.x as usize, self.view.width as usize);
        let rows = self.scratch.front.chunks_exact_mut((self.stride as usize).max(1));
        Ok(rows.skip(self.view.y as usize).take(self.view.height as usize).map(move |row| &mut row[x..x + width]))
    }

    /// Paints an area, in levels, before normalisation.
    pub(super) fn paint(&mut self, area: Rect, colour: Pixel) -> Result<()> {
        let (whole, mirrored, flipped) = (self.view, self.is_mirrored, self.is_flipped);
        self.decode()?;
        let x = if mirrored { whole.width - area.x - area.width } else { area.x } as usize;
        let y = if flipped { whole.height - area.y - area.height } else { area.y } as usize;
        for row in self.rows_mut()?.skip(y).take(area.height as usize) {
            row[x..x + area.width as usize].fill(colour);
        }
        Ok(())
    }

    /// Remembers to paint an area, in values, when the picture is written.
    pub(super) fn paint_values(&mut self, area: Rect, fill: Fill) {
        self.scratch.patches.push(Patch { area, fill, is_normalized: self.is_normalized });
    }

    /// From here on the operations speak of values, not of levels 0 to 255.
    pub(super) fn enter_values(&mut self) {
        self.is_in_values = true;
    }

    /// From here on the operations speak of normalised values.
    pub(super) fn enter_normalized(&mut self) {
        (self.is_in_values, self.is_normalized) = (true, true);
    }

    /// Whether the picture is past its levels.
    pub(super) fn is_in_values(&self) -> bool {
        self.is_in_values
    }

    /// Everything the writer needs; decodes what is still undecoded.
    pub(super) fn finish(&mut self) -> Result<Finished<'_>> {
        self.decode()?;
        let Image { scratch, stride, view, is_mirrored, is_flipped, .. } = self;
        let Scratch { front, patches, row, .. } = &mut **scratch;
        Ok(Finished {
            pixels: front,
            stride: *stride as usize,
            view: *view,
            is_mirrored: *is_mirrored,
            is_flipped: *is_flipped,
            patches,
            row,
        })
    }

    /// Brings the view's pixels into `front`.
    fn decode(&mut self) -> Result<()> {
        self.decode_at(1).map(drop)
    }

    /// Brings the view's pixels into `front` at 1/`denominator` of their size, and says where in `front`
    /// the view then lies. Unless the denominator is 1, only a resize may follow.
    fn decode_at(&mut self, denominator: u32) -> Result<Area> {
        if let Some(Undecoded { bytes, header, .. }) = self.undecoded.take() {
            let decoded = self.scratch.jpeg.decode(bytes, header, self.view, denominator, &mut self.scratch.front)?;
            (self.stride, self.rows) = (decoded.width, decoded.height);
            if denominator > 1 {
                let scaled = |full: u32| f64::from(full) / f64::from(denominator);
                let left = scaled(self.view.x) - f64::from(decoded.x);
                let top = scaled(self.view.y) - f64::from(decoded.y);
                let width = scaled(self.view.width).min(f64::from(decoded.width) - left);
                let height = scaled(self.view.height).min(f64::from(decoded.height) - top);
                return Ok(Area { left, top, width, height });
            }
            self.view.x -= decoded.x;
            self.view.y -= decoded.y;
        }
        let Rect { x, y, width, height } = self.view;
        Ok(Area { left: x.into(), top: y.into(), width: width.into(), height: height.into() })
    }

    /// By how much a JPEG may shrink while decoding: the result keeps at least twice the wanted size, so
    /// that the filter of the resize decides how it looks.
    fn denominator(&self, width: u32, height: u32) -> u32 {
        match &self.undecoded {
            Some(Undecoded { scaling: Scaling::Fast, .. }) => [8, 4, 2]
                .into_iter()
                .find(|d| self.view.width >= 2 * d * width && self.view.height >= 2 * d * height)
                .unwrap_or(1),
            _ => 1,
        }
    }

    /// The back becomes the front, all of it in view.
    fn turn_over(&mut self, width: u32, height: u32) {
        std::mem::swap(&mut self.scratch.front, &mut self.scratch.back);
        (self.stride, self.rows) = (width, height);
        self.view = Rect { x: 0, y: 0, width, height };
    }
}

/// Columns and rows added around a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sides {
    /// Columns before the first.
    pub left: u32,
    /// Rows above the first.
    pub top: u32,
    /// Columns after the last.
    pub right: u32,
    /// Rows below the last.
    pub bottom: u32,
}

/// What stands at a place around a picture.
pub(super) enum Padding {
    Colour(Pixel),
    Of(u32, u32),
}

/// A picture ready to be written into its slot.
pub(super) struct Finished<'a> {
    pub pixels: &'a [Pixel],
    pub stride: usize,
    pub view: Rect,
    pub is_mirrored: bool,
    pub is_flipped: bool,
    pub patches: &'a mut Vec<Patch>,
    pub row: &'a mut Rows,
}

impl Interpolation {
    fn algorithm(self) -> fir::ResizeAlg {
        use fir::{FilterType, ResizeAlg};
        match self {
            Interpolation::Nearest => ResizeAlg::Nearest,
            Interpolation::Box => ResizeAlg::Convolution(FilterType::Box),
            Interpolation::Bilinear => ResizeAlg::Convolution(FilterType::Bilinear),
            Interpolation::Hamming => ResizeAlg::Convolution(FilterType::Hamming),
            Interpolation::Bicubic => ResizeAlg::Convolution(FilterType::CatmullRom),
            Interpolation::Lanczos => ResizeAlg::Convolution(FilterType::Lanczos3),
        }
    }
}

/// A gigabyte of pixels: what a picture may become on its way.
const MOST_PIXELS: u64 = 1 << 28;

/// Fails on a size that a worker has no room for: a strip one pixel wide, resized by its shorter side,
/// grows by the square.
fn check_room(width: u32, height: u32) -> Result<()> {
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(Error::new(Kind::OverBudget, format!("the picture would become {height} x {width}"))
            .remedy("give resize() a max_size, or drop the file with on_error=\"skip\""));
    }
    Ok(())
}

/// The first `width` x `height` pixels of a buffer, which never shrinks.
pub(super) fn grow(buffer: &mut Vec<Pixel>, width: u32, height: u32) -> &mut [Pixel] {
    let count = width as usize * height as usize;
    if buffer.len() < count {
        buffer.resize(count, Pixel::default());
    }
    &mut buffer[..count]
}

/// As a parameter: nothing for the default, bilinear.
impl std::fmt::Display for Interpolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Interpolation::Nearest => "nearest",
            Interpolation::Box => "box",
            Interpolation::Bilinear => return Ok(()),
            Interpolation::Hamming => "hamming",
            Interpolation::Bicubic => "bicubic",
            Interpolation::Lanczos => "lanczos",
        };
        write!(f, ", interpolation=\"{name}\"")
    }
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Kind::Internal, format!("the resize refused its own buffers: {error}")).because(error)
}

#[cfg(test)]
mod tests;
