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
