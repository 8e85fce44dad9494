//! Vertical flip: swaps top and bottom, with a probability.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::Result;

use super::image::Image;
use super::{Form, Operation, check_probability};

/// torchvision's `RandomVerticalFlip`.
#[derive(Debug, Clone, PartialEq)]
pub struct VerticalFlip {
    /// How likely it is.
    pub p: f64,
}

impl Operation for VerticalFlip {
    fn form(&self, _: &mut Form) -> Result<()> {
        check_probability("vertical_flip()", self.p)
    }

    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()> {
        if rng.chance(self.p) {
            image.flip();
        }
        Ok(())
    }
}

impl fmt::Display for VerticalFlip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.p == 0.5 { f.write_str("vertical_flip()") } else { write!(f, "vertical_flip({:?})", self.p) }
    }
}
