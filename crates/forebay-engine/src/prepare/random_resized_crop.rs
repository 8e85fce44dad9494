//! Random resized crop: a random part of random proportions, resized to one size.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::{Image, Interpolation, Rect};
use super::{Form, Operation, check_size, size_text};

/// torchvision's `RandomResizedCrop`, antialiased.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomResizedCrop {
    /// Rows and columns of the result.
    pub size: (u32, u32),
    /// The part's share of the picture's area, from and to.
    pub scale: (f64, f64),
    /// The part's width over its height, from and to.
    pub ratio: (f64, f64),
    /// How pixels are weighed.
    pub interpolation: Interpolation,
}

impl RandomResizedCrop {
    /// torchvision's defaults.
    pub fn new(size: (u32, u32)) -> Self {
        RandomResizedCrop {
            size,
            scale: (0.08, 1.0),
            ratio: (3.0 / 4.0, 4.0 / 3.0),
            interpolation: Interpolation::Bilinear,
        }
    }

    /// The part to keep: ten tries at random, then the largest middle part of allowed proportions.
    pub fn part(&self, width: u32, height: u32, rng: &mut Rng) -> Rect {
        let (columns, rows) = (f64::from(width), f64::from(height));
        let (low, high) = (self.ratio.0.ln(), self.ratio.1.ln());
        for _ in 0..10 {
            let area = columns * rows * rng.range(self.scale.0, self.scale.1);
            let ratio = rng.range(low, high).exp();
            let w = (area * ratio).sqrt().round_ties_even() as u32;
            let h = (area / ratio).sqrt().round_ties_even() as u32;
            if (1..=width).contains(&w) && (1..=height).contains(&h) {
                let y = rng.below(u64::from(height - h + 1)) as u32;
                let x = rng.below(u64::from(width - w + 1)) as u32;
                return Rect { x, y, width: w, height: h };
            }
        }
        let ratio = columns / rows;
        let (w, h) = if ratio < self.ratio.0 {
            (width, (columns / self.ratio.0).round_ties_even() as u32)
        } else if ratio > self.ratio.1 {
            ((rows * self.ratio.1).round_ties_even() as u32, height)
        } else {
            (width, height)
        };
        let (w, h) = (w.clamp(1, width), h.clamp(1, height));
        Rect { x: (width - w) / 2, y: (height - h) / 2, width: w, height: h }
    }
}

impl Operation for RandomResizedCrop {
    fn form(&self, form: &mut Form) -> Result<()> {
        form.needs_levels("random_resized_crop()")?;
        check_size("random_resized_crop()", self.size)?;
        for (name, (low, high)) in [("scale", self.scale), ("ratio", self.ratio)] {
            if !(low > 0.0 && low <= high && high.is_finite()) {
                return Err(Error::config(format!(
                    "random_resized_crop(): {name}=({low}, {high}) is not a range of positive numbers"
                ))
                .remedy(format!("give {name} as (smallest, largest)")));
            }
        }
        form.size = Some(self.size);
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()> {
        image.crop(self.part(image.width(), image.height(), rng));
        image.resize(self.size.1, self.size.0, self.interpolation)
    }
}

impl fmt::Display for RandomResizedCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "random_resized_crop({}", size_text(self.size))?;
        let plain = Self::new(self.size);
        if self.scale != plain.scale {
            write!(f, ", scale={:?}", self.scale)?;
        }
        if self.ratio != plain.ratio {
            write!(f, ", ratio={:?}", self.ratio)?;
        }
        write!(f, "{})", self.interpolation)
    }
}
