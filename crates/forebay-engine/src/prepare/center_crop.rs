//! Center crop: the middle of the picture; black around it where the picture is smaller.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::Result;

use super::image::{Image, Padding, Rect, Sides};
use super::{Form, Operation, check_size, size_text};

/// torchvision's `CenterCrop`.
#[derive(Debug, Clone, PartialEq)]
pub struct CenterCrop {
    /// Rows and columns.
    pub size: (u32, u32),
}

impl Operation for CenterCrop {
    fn form(&self, form: &mut Form) -> Result<()> {
        form.needs_levels("center_crop()")?;
        check_size("center_crop()", self.size)?;
        form.size = Some(self.size);
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, _: &mut Rng) -> Result<()> {
        let (height, width) = self.size;
        let (missing_rows, missing_columns) =
            (height.saturating_sub(image.height()), width.saturating_sub(image.width()));
        if missing_rows > 0 || missing_columns > 0 {
            let sides = Sides {
                left: missing_columns / 2,
                top: missing_rows / 2,
                right: missing_columns.div_ceil(2),
                bottom: missing_rows.div_ceil(2),
            };
            let (inner_width, inner_height) = (i64::from(image.width()), i64::from(image.height()));
            image.pad(sides, |x, y| {
                if (0..inner_width).contains(&x) && (0..inner_height).contains(&y) {
                    Padding::Of(x as u32, y as u32)
                } else {
                    Padding::Colour([0, 0, 0, 255])
                }
            })?;
        }
        let x = half_to_even(image.width() - width);
        let y = half_to_even(image.height() - height);
        image.crop(Rect { x, y, width, height });
        Ok(())
    }
}

/// Python's `round(n / 2)`.
fn half_to_even(n: u32) -> u32 {
    (f64::from(n) / 2.0).round_ties_even() as u32
}

impl fmt::Display for CenterCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "center_crop({})", size_text(self.size))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Grid, assert_written, decoded, normalized, refusal};
    use super::*;

    #[test]
    fn it_is_written_as_promised() {
        assert_written(&decoded(), CenterCrop { size: (224, 224) }, "center_crop(224)", 0xed6c_b77f_d33c_c842);
        assert_written(&decoded(), CenterCrop { size: (7, 9) }, "center_crop((7, 9))", 0xa399_1dc0_d6cf_8778);
    }

    #[test]
    fn it_needs_levels_and_promises_its_size() {
        let text = refusal(&normalized(), CenterCrop { size: (4, 4) });
        assert_eq!(
            text,
            "center_crop() works on 8-bit levels but comes after normalize() or to(); move center_crop() before them"
        );
        assert_eq!(decoded().then(CenterCrop { size: (4, 6) }).unwrap().form().size, Some((4, 6)));
    }

    #[test]
    fn the_middle_is_rounded_as_python_rounds() {
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(half_to_even), [0, 0, 1, 2, 2, 2, 3, 4]);
        let grid = Grid::noise(9, 6, 0);
        let got = grid.after(&CenterCrop { size: (3, 4) }, 0);
        assert_eq!(got, grid.crop(Rect { x: 2, y: 2, width: 4, height: 3 }));
    }

    #[test]
    fn beyond_the_picture_there_is_black_most_of_it_after() {
        let grid = Grid::noise(3, 8, 0);
        let got = grid.after(&CenterCrop { size: (4, 6) }, 0);
        let expected = Grid::new(6, 4, |x, y| if (1..4).contains(&x) { grid.at(x - 1, y + 2) } else { [0; 3] });
        assert_eq!(got, expected);
    }
}
