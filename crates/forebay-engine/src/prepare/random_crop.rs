//! Random crop, with padding where asked for.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::{Image, Padding, Rect, Sides};
use super::{Form, Operation, check_size, size_text};

/// torchvision's `RandomCrop`.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomCrop {
    /// Rows and columns.
    pub size: (u32, u32),
    /// Pixels added on each side before cropping.
    pub padding: Sides,
    /// Whether a picture smaller than the crop is padded to it; otherwise it is an error.
    pub pad_if_needed: bool,
    /// The colour of constant padding.
    pub fill: [u8; 3],
    /// What the padding shows.
    pub mode: PaddingMode,
}

/// What padding shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaddingMode {
    /// One colour.
    Constant,
    /// The outermost pixel, repeated.
    Edge,
    /// The picture mirrored, without its outermost pixel: `cb|abc|ba`.
    Reflect,
    /// The picture mirrored with its outermost pixel: `ba|abc|cb`.
    Symmetric,
}

impl PaddingMode {
    /// The index within `0..len` that stands at `i`, or `None` for the fill colour.
    fn index(self, i: i64, len: u32) -> Option<u32> {
        let len = i64::from(len);
        if (0..len).contains(&i) {
            return Some(i as u32);
        }
        let index = match self {
            PaddingMode::Constant => return None,
            PaddingMode::Edge => i.clamp(0, len - 1),
            PaddingMode::Symmetric => {
                let i = i.rem_euclid(2 * len);
                if i < len { i } else { 2 * len - 1 - i }
            }
            PaddingMode::Reflect if len == 1 => 0,
            PaddingMode::Reflect => {
                let i = i.rem_euclid(2 * (len - 1));
                if i < len { i } else { 2 * (len - 1) - i }
            }
        };
        Some(index as u32)
    }

    fn name(self) -> &'static str {
        match self {
            PaddingMode::Constant => "constant",
            PaddingMode::Edge => "edge",
            PaddingMode::Reflect => "reflect",
            PaddingMode::Symmetric => "symmetric",
        }
    }
}

impl RandomCrop {
    fn pad(&self, image: &mut Image<'_>, sides: Sides) -> Result<()> {
        if sides == Sides::default() {
            return Ok(());
        }
        let (width, height, [r, g, b]) = (image.width(), image.height(), self.fill);
        image.pad(sides, |x, y| match (self.mode.index(x, width), self.mode.index(y, height)) {
            (Some(x), Some(y)) => Padding::Of(x, y),
            _ => Padding::Colour([r, g, b, 255]),
        })
    }
}

impl Operation for RandomCrop {
    fn form(&self, form: &mut Form) -> Result<()> {
        form.needs_levels("random_crop()")?;
        check_size("random_crop()", self.size)?;
        if let Some((height, width)) = form.size {
            let (rows, columns) =
                (height + self.padding.top + self.padding.bottom, width + self.padding.left + self.padding.right);
            if !self.pad_if_needed && (rows < self.size.0 || columns < self.size.1) {
                return Err(self.too_small(rows, columns));
            }
        }
        form.size = Some(self.size);
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()> {
        self.pad(image, self.padding)?;
        let (height, width) = self.size;
        let (missing_rows, missing_columns) =
            (height.saturating_sub(image.height()), width.saturating_sub(image.width()));
        if missing_rows > 0 || missing_columns > 0 {
            if !self.pad_if_needed {
                return Err(self.too_small(image.height(), image.width()));
            }
            // Both sides get all that is missing, as torchvision does, so that the crop still moves.
            self.pad(
                image,
                Sides { left: missing_columns, right: missing_columns, top: missing_rows, bottom: missing_rows },
            )?;
        }
        let y = rng.below(u64::from(image.height() - height + 1)) as u32;
        let x = rng.below(u64::from(image.width() - width + 1)) as u32;
        image.crop(Rect { x, y, width, height });
        Ok(())
    }
}

impl RandomCrop {
    fn too_small(&self, height: u32, width: u32) -> Error {
        Error::config(format!("random_crop({}) is larger than the picture, {height} x {width}", size_text(self.size)))
            .remedy("resize first, or pass pad_if_needed=True")
    }
}

impl fmt::Display for RandomCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "random_crop({}", size_text(self.size))?;
        let Sides { left, top, right, bottom } = self.padding;
        if self.padding != Sides::default() {
            write!(f, ", padding=({left}, {top}, {right}, {bottom})")?;
        }
        if self.pad_if_needed {
            write!(f, ", pad_if_needed=True")?;
        }
        if self.fill != [0; 3] {
            let [r, g, b] = self.fill;
            write!(f, ", fill=({r}, {g}, {b})")?;
        }
        if self.mode != PaddingMode::Constant {
            write!(f, ", padding_mode=\"{}\"", self.mode.name())?;
        }
        f.write_str(")")
    }
}
