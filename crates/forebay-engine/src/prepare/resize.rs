//! Resize: to a size, or so that the shorter side has a length.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::{Image, Interpolation};
use super::{Form, Operation, check_size};

/// torchvision's `Resize`, antialiased.
#[derive(Debug, Clone, PartialEq)]
pub struct Resize {
    /// What to resize to.
    pub target: Target,
    /// How pixels are weighed.
    pub interpolation: Interpolation,
}

/// What a [`Resize`] aims at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Rows and columns, whatever that does to the proportions.
    Size(u32, u32),
    /// The length of the shorter side; the longer follows, but not beyond `most`.
    Shorter {
        /// Its length.
        side: u32,
        /// The most the longer side may have.
        most: Option<u32>,
    },
}

impl Target {
    /// The rows and columns for a picture; torchvision's rounding.
    fn size(self, height: u32, width: u32) -> (u32, u32) {
        let (side, most) = match self {
            Target::Size(height, width) => return (height, width),
            Target::Shorter { side, most } => (side, most),
        };
        let (short, long) = (f64::from(height.min(width)), f64::from(height.max(width)));
        let (mut new_short, mut new_long) = (side, (f64::from(side) * long / short) as u32);
        if let Some(most) = most.filter(|&most| new_long > most) {
            new_short = (f64::from(most) * f64::from(new_short) / f64::from(new_long)) as u32;
            new_long = most;
        }
        if height < width { (new_short.max(1), new_long) } else { (new_long, new_short.max(1)) }
    }
}

impl Operation for Resize {
    fn form(&self, form: &mut Form) -> Result<()> {
        form.needs_levels("resize()")?;
        match self.target {
            Target::Size(height, width) => check_size("resize()", (height, width))?,
            Target::Shorter { side, most } => {
                check_size("resize()", (side, side))?;
                if most.is_some_and(|most| most <= side) {
                    return Err(Error::config(format!(
                        "resize(): max_size must be larger than the shorter side, {side}"
                    )));
                }
            }
        }
        form.size = match (self.target, form.size) {
            (Target::Size(height, width), _) => Some((height, width)),
            (target, Some((height, width))) => Some(target.size(height, width)),
            (_, None) => None,
        };
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, _: &mut Rng) -> Result<()> {
        let (height, width) = self.target.size(image.height(), image.width());
        image.resize(width, height, self.interpolation)
    }
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target {
            Target::Size(height, width) => write!(f, "resize(({height}, {width})")?,
            Target::Shorter { side, most: None } => write!(f, "resize({side}")?,
            Target::Shorter { side, most: Some(most) } => write!(f, "resize({side}, max_size={most}")?,
        }
        write!(f, "{})", self.interpolation)
    }
}
