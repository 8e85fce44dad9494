//! Resize: to a size, or so that the shorter side has a length.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::{Image, Interpolation};
use super::{Form, Operation, check_size};

/// torchvision's `Resize`, antialiased.
#[derive(Debug, Clone, PartialEq)]
pub struct Resize {
    /// What to resize to.
    pub target: Target,
    /// How pixels are weighed.
    pub interpolation: Interpolation,
}

/// What a [`Resize`] aims at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Rows and columns, whatever that does to the proportions.
    Size(u32, u32),
    /// The length of the shorter side; the longer follows, but not beyond `most`.
    Shorter {
        /// Its length.
        side: u32,
        /// The most the longer side may have.
        most: Option<u32>,
    },
}

impl Target {
    /// The rows and columns for a picture; torchvision's rounding.
    fn size(self, height: u32, width: u32) -> (u32, u32) {
        let (side, most) = match self {
            Target::Size(height, width) => return (height, width),
            Target::Shorter { side, most } => (side, most),
        };
        let (short, long) = (f64::from(height.min(width)), f64::from(height.max(width)));
        let (mut new_short, mut new_long) = (side, (f64::from(side) * long / short) as u32);
        if let Some(most) = most.filter(|&most| new_long > most) {
            new_short = (f64::from(most) * f64::from(new_short) / f64::from(new_long)) as u32;
            new_long = most;
        }
        if height < width { (new_short.max(1), new_long) } else { (new_long, new_short.max(1)) }
    }
}

impl Operation for Resize {
    fn form(&self, form: &mut Form) -> Result<()> {
        form.needs_levels("resize()")?;
        match self.target {
            Target::Size(height, width) => check_size("resize()", (height, width))?,
            Target::Shorter { side, most } => {
                check_size("resize()", (side, side))?;
                if most.is_some_and(|most| most <= side) {
                    return Err(Error::config(format!(
                        "resize(): max_size must be larger than the shorter side, {side}"
                    )));
                }
            }
        }
        form.size = match (self.target, form.size) {
            (Target::Size(height, width), _) => Some((height, width)),
            (target, Some((height, width))) => Some(target.size(height, width)),
            (_, None) => None,
        };
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, _: &mut Rng) -> Result<()> {
        let (height, width) = self.target.size(image.height(), image.width());
        image.resize(width, height, self.interpolation)
    }
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target {
            Target::Size(height, width) => write!(f, "resize(({height}, {width})")?,
            Target::Shorter { side, most: None } => write!(f, "resize({side}")?,
            Target::Shorter { side, most: Some(most) } => write!(f, "resize({side}, max_size={most}")?,
        }
        write!(f, "{})", self.interpolation)
    }
}

#[cfg(test)]
mod tests {
    use forebay_store::Kind;

    use super::super::Scratch;
    use super::super::tests::{Grid, assert_written, decoded, normalized, ppm, refusal};
    use super::*;
    use forebay_policy::sample::Key;

    fn shorter(side: u32, most: Option<u32>) -> Resize {
        Resize { target: Target::Shorter { side, most }, interpolation: Interpolation::Bilinear }
    }

    fn to(height: u32, width: u32, interpolation: Interpolation) -> Resize {
        Resize { target: Target::Size(height, width), interpolation }
    }

    #[test]
    fn it_is_written_as_promised() {
        assert_written(&decoded(), shorter(256, None), "resize(256)", 0xa4d4_5457_56f7_edc5);
        assert_written(&decoded(), shorter(256, Some(512)), "resize(256, max_size=512)", 0xe7c4_db25_5282_dd85);
        assert_written(&decoded(), to(224, 224, Interpolation::Bilinear), "resize((224, 224))", 0xdb4a_c5a9_c8da_9f12);
        for (interpolation, text, fingerprint) in [
            (Interpolation::Nearest, "resize((4, 6), interpolation=\"nearest\")", 0xfe5a_457a_9e9c_e1a6),
            (Interpolation::Box, "resize((4, 6), interpolation=\"box\")", 0xec37_0d7d_10df_62d1),
            (Interpolation::Hamming, "resize((4, 6), interpolation=\"hamming\")", 0xdf70_d406_66cc_c3ad),
            (Interpolation::Bicubic, "resize((4, 6), interpolation=\"bicubic\")", 0xaaf4_b6b1_23cd_5142),
            (Interpolation::Lanczos, "resize((4, 6), interpolation=\"lanczos\")", 0x1050_fe3a_2b3c_70fc),
        ] {
            assert_written(&decoded(), to(4, 6, interpolation), text, fingerprint);
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(refusal(&normalized(), shorter(4, None)).starts_with("resize() works on 8-bit levels"));
        assert!(refusal(&decoded(), shorter(0, None)).starts_with("resize() to 0 x 0 is impossible"));
        for most in [255, 256] {
            assert_eq!(
                refusal(&decoded(), shorter(256, Some(most))),
                "resize(): max_size must be larger than the shorter side, 256"
            );
        }
    }

    #[test]
    fn the_size_is_known_as_soon_as_it_can_be() {
        let size = |pipeline: super::super::Pipeline| pipeline.form().size;
        assert_eq!(size(decoded().then(shorter(8, None)).unwrap()), None);
        let sized = decoded().then(to(10, 30, Interpolation::Box)).unwrap();
        assert_eq!(size(sized.then(shorter(8, None)).unwrap()), Some((8, 24)));
        assert_eq!(size(sized.then(shorter(8, Some(20))).unwrap()), Some((6, 20)));
    }

    #[test]
    fn the_longer_side_is_rounded_down_and_capped() {
        let size = |side, most, height, width| Target::Shorter { side, most }.size(height, width);
        assert_eq!(size(256, None, 427, 640), (256, 383));
        assert_eq!(size(256, None, 640, 427), (383, 256));
        assert_eq!(size(256, None, 50, 50), (256, 256));
        assert_eq!(size(256, Some(300), 427, 640), (200, 300));
        assert_eq!(size(32, Some(33), 400, 3), (33, 1), "no side vanishes");
    }

    #[test]
    fn a_strip_that_would_grow_beyond_memory_is_an_error_of_its_sample() {
        let strip = ppm(&Grid::new(20_000, 1, |_, _| [1, 2, 3]));
        let pipeline = decoded().then(shorter(224, None)).unwrap();
        let error = pipeline.prepare_alone(&strip, Key::new(0, 0, 0), &mut Scratch::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::OverBudget);
        assert_eq!(
            error.to_string(),
            "the picture would become 224 x 4480000; give resize() a max_size, or drop the file with on_error=\"skip\""
        );
        // Either direction may be the one that has no room, also half-way through.
        let across = decoded().then(to(1, 65_500, Interpolation::Bilinear)).unwrap();
        let tall = ppm(&Grid::new(1, 20_000, |_, _| [1, 2, 3]));
        let error = across.prepare_alone(&tall, Key::new(0, 0, 0), &mut Scratch::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::OverBudget);
    }

    #[test]
    fn nearest_picks_the_pixels_that_pillow_picks() {
        // From Pillow: Image.fromarray(np.arange(n)).resize((m, 1), Image.NEAREST).
        for (n, m, picked) in [
            (4, 8, &[0, 0, 1, 1, 2, 2, 3, 3][..]),
            (8, 4, &[1, 3, 5, 7]),
            (10, 4, &[1, 3, 6, 8]),
            (7, 5, &[0, 2, 3, 4, 6]),
            (6, 9, &[0, 1, 1, 2, 2, 3, 4, 5, 5]),
        ] {
            let grid = Grid::new(n, 1, |x, _| [x as u8; 3]);
            let got = grid.after(&to(1, m, Interpolation::Nearest), 0);
            assert_eq!(got.pixels.iter().map(|p| p[0]).collect::<Vec<_>>(), picked, "{n} to {m}");
        }
    }

    #[test]
    fn a_flat_picture_stays_flat_by_every_interpolation() {
        use Interpolation::{Bicubic, Bilinear, Box, Hamming, Lanczos, Nearest};
        let grid = Grid::new(31, 17, |_, _| [3, 140, 252]);
        for interpolation in [Nearest, Box, Bilinear, Hamming, Bicubic, Lanczos] {
            for (height, width) in [(5, 7), (40, 64), (17, 9), (33, 31)] {
                let got = grid.after(&to(height, width, interpolation), 0);
                assert_eq!(got, Grid::new(width, height, |_, _| [3, 140, 252]), "{interpolation:?}");
            }
        }
    }
}
