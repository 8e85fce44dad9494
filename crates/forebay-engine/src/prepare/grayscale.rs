//! Grayscale: colours become their lightness, as Pillow weighs it.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::{Image, Pixel};
use super::{Form, Operation, check_probability};

/// torchvision's `Grayscale`, and `RandomGrayscale` where `p` is below 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Grayscale {
    /// 1, or 3 equal ones.
    pub channels: u32,
    /// How likely it is.
    pub p: f64,
}

/// Pillow's lightness of a colour: ITU-R 601, in 16 bits.
pub(super) fn lightness([r, g, b, _]: Pixel) -> u8 {
    ((u32::from(r) * 19595 + u32::from(g) * 38470 + u32::from(b) * 7471 + 0x8000) >> 16) as u8
}

impl Operation for Grayscale {
    fn form(&self, form: &mut Form) -> Result<()> {
        form.needs_levels("grayscale()")?;
        check_probability("grayscale()", self.p)?;
        match self.channels {
            1 | 3 => {}
            n => return Err(Error::config(format!("grayscale() to {n} channels is impossible")).remedy("give 1 or 3")),
        }
        if self.p < 1.0 && self.channels != form.channels {
            return Err(Error::config("grayscale() of some pictures cannot change the channels of all")
                .remedy("pass num_output_channels=3"));
        }
        form.channels = self.channels;
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()> {
        if self.p < 1.0 && !rng.chance(self.p) {
            return Ok(());
        }
        for pixel in image.rows_mut()?.flatten() {
            let level = lightness(*pixel);
            *pixel = [level, level, level, 255];
        }
        Ok(())
    }
}

impl fmt::Display for Grayscale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grayscale({}", self.channels)?;
        if self.p < 1.0 {
            write!(f, ", p={:?}", self.p)?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Grid, assert_written, decoded, normalized, refusal};
    use super::*;

    #[test]
    fn it_is_written_as_promised() {
        assert_written(&decoded(), Grayscale { channels: 1, p: 1.0 }, "grayscale(1)", 0x8f1a_2542_2ebf_185d);
        assert_written(&decoded(), Grayscale { channels: 3, p: 1.0 }, "grayscale(3)", 0x1dde_fcf2_aa45_ee9c);
        assert_written(&decoded(), Grayscale { channels: 3, p: 0.1 }, "grayscale(3, p=0.1)", 0x28b8_2713_785a_e46e);
    }

    #[test]
    fn channels_are_one_or_three_and_the_same_for_all() {
        assert_eq!(
            refusal(&decoded(), Grayscale { channels: 2, p: 1.0 }),
            "grayscale() to 2 channels is impossible; give 1 or 3"
        );
        assert_eq!(
            refusal(&decoded(), Grayscale { channels: 1, p: 0.5 }),
            "grayscale() of some pictures cannot change the channels of all; pass num_output_channels=3"
        );
        assert!(refusal(&normalized(), Grayscale { channels: 1, p: 1.0 }).starts_with("grayscale() works on 8-bit"));
        assert_eq!(decoded().then(Grayscale { channels: 1, p: 1.0 }).unwrap().form().channels, 1);
    }

    #[test]
    fn lightness_keeps_greys_and_weighs_colours_as_itu_r_601_does() {
        for level in 0..=255 {
            assert_eq!(lightness([level, level, level, 0]), level);
        }
        assert_eq!([[255, 0, 0, 0], [0, 255, 0, 0], [0, 0, 255, 0]].map(lightness), [76, 150, 29]);
    }

    #[test]
    fn every_channel_gets_the_lightness() {
        let grid = Grid::noise(7, 5, 0);
        let got = grid.after(&Grayscale { channels: 3, p: 1.0 }, 0);
        let expected = Grid::new(7, 5, |x, y| {
            let [r, g, b] = grid.at(x, y);
            [lightness([r, g, b, 0]); 3]
        });
        assert_eq!(got, expected);
    }
}
