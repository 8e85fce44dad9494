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

#[cfg(test)]
mod tests {
    use super::super::tests::{Grid, assert_written, decoded, normalized};
    use super::*;

    #[test]
    fn it_is_written_as_promised() {
        assert_written(&decoded(), VerticalFlip { p: 0.5 }, "vertical_flip()", 0x35f2_7ad4_503c_664f);
        assert_written(&decoded(), VerticalFlip { p: 0.25 }, "vertical_flip(0.25)", 0x597a_0ba6_758b_8ac8);
        assert_written(&normalized(), VerticalFlip { p: 1.0 }, "vertical_flip(1.0)", 0x8849_73b3_3411_885a);
    }

    #[test]
    fn it_swaps_top_and_bottom_as_often_as_asked() {
        let grid = Grid::noise(5, 3, 0);
        let count = |p| {
            (0..1000)
                .filter(|&seed| {
                    let got = grid.after(&VerticalFlip { p }, seed);
                    assert!(got == grid || got == grid.flip());
                    got != grid
                })
                .count()
        };
        assert_eq!((count(0.0), count(1.0)), (0, 1000));
        // Five standard deviations.
        assert!(count(0.3).abs_diff(300) < 73);
    }
}
