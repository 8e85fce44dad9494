//! Normalize: subtract a mean and divide by a standard deviation, by channel.
//!
//! Nothing is computed here: the picture is normalised while it is written into its slot.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::Image;
use super::{Dtype, Form, Operation, Stage};

/// torchvision's `Normalize` on values between 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalize {
    /// One number a channel.
    pub mean: Vec<f32>,
    /// One number a channel.
    pub std: Vec<f32>,
}

impl Default for Normalize {
    /// ImageNet's.
    fn default() -> Self {
        Normalize { mean: vec![0.485, 0.456, 0.406], std: vec![0.229, 0.224, 0.225] }
    }
}

impl Operation for Normalize {
    fn form(&self, form: &mut Form) -> Result<()> {
        if form.normal.is_some() {
            return Err(Error::config("normalize() comes twice").remedy("keep one of them"));
        }
        let by_channel = |name: &str, numbers: &[f32]| -> Result<[f32; 3]> {
            match (numbers, form.channels) {
                (&[r, g, b], 3) => Ok([r, g, b]),
                (&[v], _) => Ok([v; 3]),
                _ => Err(Error::config(format!(
                    "normalize(): {name} has {} numbers, the pictures have {} channels",
                    numbers.len(),
                    form.channels
                ))
                .remedy("give one number a channel")),
            }
        };
        let (mean, std) = (by_channel("mean", &self.mean)?, by_channel("std", &self.std)?);
        if std.iter().any(|s| !(s.is_normal() && *s > 0.0)) || mean.iter().any(|m| !m.is_finite()) {
            return Err(Error::config("normalize(): std must be positive, and mean and std finite"));
        }
        form.normal = Some((mean, std));
        form.stage = Stage::Values;
        if form.dtype == Dtype::U8 {
            form.dtype = Dtype::F32;
        }
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, _: &mut Rng) -> Result<()> {
        image.enter_normalized();
        Ok(())
    }
}

impl fmt::Display for Normalize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            f.write_str("normalize()")
        } else {
            write!(f, "normalize({:?}, {:?})", self.mean, self.std)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_written, decoded, normalized, refusal};
    use super::super::{Grayscale, To};
    use super::*;

    #[test]
    fn it_is_written_as_promised() {
        assert_written(&decoded(), Normalize::default(), "normalize()", 0xa520_174a_461e_e110);
        let other = Normalize { mean: vec![0.5, 0.25, 0.1], std: vec![1.0, 2.0, 0.3] };
        assert_written(&decoded(), other, "normalize([0.5, 0.25, 0.1], [1.0, 2.0, 0.3])", 0x00c3_e2a2_ddbf_b3c7);
    }

    #[test]
    fn levels_become_f32_and_a_chosen_type_stays() {
        assert_eq!(normalized().form().dtype, Dtype::F32);
        assert_eq!(normalized().form().stage, Stage::Values);
        let half = To { dtype: Some(Dtype::F16), layout: None };
        assert_eq!(decoded().then(half).unwrap().then(Normalize::default()).unwrap().form().dtype, Dtype::F16);
    }

    #[test]
    fn one_number_serves_every_channel() {
        let grey = decoded().then(Grayscale { channels: 1, p: 1.0 }).unwrap();
        let one = || Normalize { mean: vec![0.5], std: vec![0.25] };
        for pipeline in [decoded(), grey] {
            assert_eq!(pipeline.then(one()).unwrap().form().normal, Some(([0.5; 3], [0.25; 3])));
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let with = |mean: &[f32], std: &[f32]| Normalize { mean: mean.to_vec(), std: std.to_vec() };
        assert_eq!(refusal(&normalized(), Normalize::default()), "normalize() comes twice; keep one of them");
        assert_eq!(
            refusal(&decoded(), with(&[0.5, 0.5], &[1.0])),
            "normalize(): mean has 2 numbers, the pictures have 3 channels; give one number a channel"
        );
        let grey = decoded().then(Grayscale { channels: 1, p: 1.0 }).unwrap();
        assert_eq!(
            refusal(&grey, Normalize::default()),
            "normalize(): mean has 3 numbers, the pictures have 1 channels; give one number a channel"
        );
        for (mean, std) in [(0.0, 0.0), (0.0, -1.0), (0.0, f32::NAN), (f32::INFINITY, 1.0), (0.0, f32::INFINITY)] {
            let text = refusal(&decoded(), with(&[mean], &[std]));
            assert_eq!(text, "normalize(): std must be positive, and mean and std finite");
        }
    }
}
