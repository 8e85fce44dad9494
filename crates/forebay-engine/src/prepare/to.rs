//! To: the element type and the axes of the batch.
//!
//! A float type turns levels into values between 0 and 1, as torchvision's `ToDtype(scale=True)` does.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::Image;
use super::{Dtype, Form, Layout, Operation, Stage};

/// Element type and axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct To {
    /// The element type; as it is where `None`.
    pub dtype: Option<Dtype>,
    /// The order of the axes; as it is where `None`.
    pub layout: Option<Layout>,
}

impl Operation for To {
    fn form(&self, form: &mut Form) -> Result<()> {
        if let Some(dtype) = self.dtype {
            if dtype == Dtype::U8 && form.stage == Stage::Values {
                return Err(Error::config("to(\"u8\") comes after the pictures became real numbers")
                    .remedy("leave out normalize()"));
            }
            form.dtype = dtype;
            if dtype != Dtype::U8 {
                form.stage = Stage::Values;
            }
        }
        form.layout = self.layout.unwrap_or(form.layout);
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, _: &mut Rng) -> Result<()> {
        if self.dtype.is_some_and(|dtype| dtype != Dtype::U8) {
            image.enter_values();
        }
        Ok(())
    }
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = self.dtype.map(|d| format!("\"{}\"", d.name()));
        let layout = self.layout.map(|l| match l {
            Layout::Nchw => "layout=\"NCHW\"".to_owned(),
            Layout::Nhwc => "layout=\"NHWC\"".to_owned(),
        });
        write!(f, "to({})", dtype.into_iter().chain(layout).collect::<Vec<_>>().join(", "))
    }
}
