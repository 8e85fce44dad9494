//! Normalize: subtract a mean and divide by a standard deviation, by channel.
//!
//! Nothing is computed here: the picture is normalised while it is written into its slot.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::Image;
use super::{Dtype, Form, Operation, Stage};

/// torchvision's `Normalize` on values between 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalize {
    /// One number a channel.
    pub mean: Vec<f32>,
    /// One number a channel.
    pub std: Vec<f32>,
}

impl Default for Normalize {
    /// ImageNet's.
    fn default() -> Self {
        Normalize { mean: vec![0.485, 0.456, 0.406], std: vec![0.229, 0.224, 0.225] }
    }
}

impl Operation for Normalize {
    fn form(&self, form: &mut Form) -> Result<()> {
        if form.normal.is_some() {
            return Err(Error::config("normalize() comes twice").remedy("keep one of them"));
        }
        let by_channel = |name: &str, numbers: &[f32]| -> Result<[f32; 3]> {
            match (numbers, form.channels) {
                (&[r, g, b], 3) => Ok([r, g, b]),
                (&[v], _) => Ok([v; 3]),
                _ => Err(Error::config(format!(
                    "normalize(): {name} has {} numbers, the pictures have {} channels",
                    numbers.len(),
                    form.channels
                ))
                .remedy("give one number a channel")),
            }
        };
        let (mean, std) = (by_channel("mean", &self.mean)?, by_channel("std", &self.std)?);
        if std.iter().any(|s| !(s.is_normal() && *s > 0.0)) || mean.iter().any(|m| !m.is_finite()) {
            return Err(Error::config("normalize(): std must be positive, and mean and std finite"));
        }
        form.normal = Some((mean, std));
        form.stage = Stage::Values;
        if form.dtype == Dtype::U8 {
            form.dtype = Dtype::F32;
        }
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, _: &mut Rng) -> Result<()> {
        image.enter_values();
        Ok(())
    }
}

impl fmt::Display for Normalize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            f.write_str("normalize()")
        } else {
            write!(f, "normalize({:?}, {:?})", self.mean, self.std)
        }
    }
}
