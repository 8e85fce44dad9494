//! Horizontal flip: swaps left and right, with a probability.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::Result;

use super::image::Image;
use super::{Form, Operation, check_probability};

/// torchvision's `RandomHorizontalFlip`.
#[derive(Debug, Clone, PartialEq)]
pub struct HorizontalFlip {
    /// How likely it is.
    pub p: f64,
}

impl Operation for HorizontalFlip {
    fn form(&self, _: &mut Form) -> Result<()> {
        check_probability("horizontal_flip()", self.p)
    }

    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()> {
        if rng.chance(self.p) {
            image.mirror();
        }
        Ok(())
    }
}

impl fmt::Display for HorizontalFlip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.p == 0.5 { f.write_str("horizontal_flip()") } else { write!(f, "horizontal_flip({:?})", self.p) }
    }
}
