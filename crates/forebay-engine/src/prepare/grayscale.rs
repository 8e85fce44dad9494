//! Grayscale: colours become their lightness, as Pillow weighs it.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::{Image, Pixel};
use super::{Form, Operation, check_probability};

/// torchvision's `Grayscale`, and `RandomGrayscale` where `p` is below 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Grayscale {
    /// 1, or 3 equal ones.
    pub channels: u32,
    /// How likely it is.
    pub p: f64,
}

/// Pillow's lightness of a colour: ITU-R 601, in 16 bits.
pub(super) fn lightness([r, g, b, _]: Pixel) -> u8 {
    ((u32::from(r) * 19595 + u32::from(g) * 38470 + u32::from(b) * 7471 + 0x8000) >> 16) as u8
}

impl Operation for Grayscale {
    fn form(&self, form: &mut Form) -> Result<()> {
        form.needs_levels("grayscale()")?;
        check_probability("grayscale()", self.p)?;
        match self.channels {
            1 | 3 => {}
            n => return Err(Error::config(format!("grayscale() to {n} channels is impossible")).remedy("give 1 or 3")),
        }
        if self.p < 1.0 && self.channels != form.channels {
            return Err(Error::config("grayscale() of some pictures cannot change the channels of all")
                .remedy("pass num_output_channels=3"));
        }
        form.channels = self.channels;
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()> {
        if self.p < 1.0 && !rng.chance(self.p) {
            return Ok(());
        }
        for pixel in image.rows_mut()?.flatten() {
            let level = lightness(*pixel);
            *pixel = [level, level, level, 255];
        }
        Ok(())
    }
}

impl fmt::Display for Grayscale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grayscale({}", self.channels)?;
        if self.p < 1.0 {
            write!(f, ", p={:?}", self.p)?;
        }
        f.write_str(")")
    }
}
