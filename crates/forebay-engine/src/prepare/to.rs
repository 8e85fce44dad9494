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

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_written, decoded, normalized, refusal};
    use super::*;

    #[test]
    fn it_is_written_as_promised() {
        let to = |dtype, layout| To { dtype, layout };
        assert_written(&decoded(), to(None, None), "to()", 0xdf7d_839b_6b75_6e71);
        assert_written(&decoded(), to(Some(Dtype::U8), None), "to(\"u8\")", 0x630c_90ec_36c0_afce);
        assert_written(&decoded(), to(Some(Dtype::F32), None), "to(\"f32\")", 0x361b_8c4f_464a_d1e5);
        assert_written(&decoded(), to(Some(Dtype::F16), None), "to(\"f16\")", 0x4291_ba15_fde7_a077);
        assert_written(&decoded(), to(None, Some(Layout::Nchw)), "to(layout=\"NCHW\")", 0x6798_0702_24d1_b242);
        assert_written(
            &decoded(),
            to(Some(Dtype::Bf16), Some(Layout::Nhwc)),
            "to(\"bf16\", layout=\"NHWC\")",
            0x26bc_8045_fbf5_6613,
        );
    }

    #[test]
    fn a_float_type_makes_values_and_there_is_no_way_back() {
        let to = |dtype| To { dtype: Some(dtype), layout: None };
        let text = "to(\"u8\") comes after the pictures became real numbers; leave out normalize()";
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
            let pipeline = decoded().then(to(dtype)).unwrap();
            assert_eq!((pipeline.form().dtype, pipeline.form().stage), (dtype, Stage::Values));
            assert_eq!(refusal(&pipeline, to(Dtype::U8)), text);
        }
        assert_eq!(refusal(&normalized(), to(Dtype::U8)), text);
        assert_eq!(decoded().then(to(Dtype::U8)).unwrap().form().stage, Stage::Levels);
    }

    #[test]
    fn what_is_not_named_stays() {
        let first = decoded().then(To { dtype: Some(Dtype::F16), layout: Some(Layout::Nhwc) }).unwrap();
        let then = first.then(To { dtype: None, layout: None }).unwrap();
        assert_eq!(first.form(), then.form());
    }
}
