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

#[cfg(test)]
mod tests {
    use super::super::tests::{Grid, assert_written, decoded, normalized};
    use super::*;

    #[test]
    fn it_is_written_as_promised() {
        assert_written(&decoded(), HorizontalFlip { p: 0.5 }, "horizontal_flip()", 0xdcce_1e76_a182_5d3e);
        assert_written(&decoded(), HorizontalFlip { p: 0.25 }, "horizontal_flip(0.25)", 0xe6b6_2efc_07bb_bf22);
        assert_written(&normalized(), HorizontalFlip { p: 1.0 }, "horizontal_flip(1.0)", 0x6659_e0d9_09fe_14c5);
    }

    #[test]
    fn it_swaps_left_and_right_as_often_as_asked() {
        let grid = Grid::noise(5, 3, 0);
        let count = |p| {
            (0..1000)
                .filter(|&seed| {
                    let got = grid.after(&HorizontalFlip { p }, seed);
                    assert!(got == grid || got == grid.mirror());
                    got != grid
                })
                .count()
        };
        assert_eq!((count(0.0), count(1.0)), (0, 1000));
        // Five standard deviations.
        assert!(count(0.3).abs_diff(300) < 73);
    }
}
