//! Random resized crop: a random part of random proportions, resized to one size.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::{Image, Interpolation, Rect};
use super::{Form, Operation, check_size, size_text};

/// torchvision's `RandomResizedCrop`, antialiased.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomResizedCrop {
    /// Rows and columns of the result.
    pub size: (u32, u32),
    /// The part's share of the picture's area, from and to.
    pub scale: (f64, f64),
    /// The part's width over its height, from and to.
    pub ratio: (f64, f64),
    /// How pixels are weighed.
    pub interpolation: Interpolation,
}

impl RandomResizedCrop {
    /// torchvision's defaults.
    pub fn new(size: (u32, u32)) -> Self {
        RandomResizedCrop {
            size,
            scale: (0.08, 1.0),
            ratio: (3.0 / 4.0, 4.0 / 3.0),
            interpolation: Interpolation::Bilinear,
        }
    }

    /// The part to keep: ten tries at random, then the largest middle part of allowed proportions.
    pub fn part(&self, width: u32, height: u32, rng: &mut Rng) -> Rect {
        let (columns, rows) = (f64::from(width), f64::from(height));
        let (low, high) = (self.ratio.0.ln(), self.ratio.1.ln());
        for _ in 0..10 {
            let area = columns * rows * rng.range(self.scale.0, self.scale.1);
            let ratio = rng.range(low, high).exp();
            let w = (area * ratio).sqrt().round_ties_even() as u32;
            let h = (area / ratio).sqrt().round_ties_even() as u32;
            if (1..=width).contains(&w) && (1..=height).contains(&h) {
                let y = rng.below(u64::from(height - h + 1)) as u32;
                let x = rng.below(u64::from(width - w + 1)) as u32;
                return Rect { x, y, width: w, height: h };
            }
        }
        let ratio = columns / rows;
        let (w, h) = if ratio < self.ratio.0 {
            (width, (columns / self.ratio.0).round_ties_even() as u32)
        } else if ratio > self.ratio.1 {
            ((rows * self.ratio.1).round_ties_even() as u32, height)
        } else {
            (width, height)
        };
        let (w, h) = (w.clamp(1, width), h.clamp(1, height));
        Rect { x: (width - w) / 2, y: (height - h) / 2, width: w, height: h }
    }
}

impl Operation for RandomResizedCrop {
    fn form(&self, form: &mut Form) -> Result<()> {
        form.needs_levels("random_resized_crop()")?;
        check_size("random_resized_crop()", self.size)?;
        for (name, (low, high)) in [("scale", self.scale), ("ratio", self.ratio)] {
            if !(low > 0.0 && low <= high && high.is_finite()) {
                return Err(Error::config(format!(
                    "random_resized_crop(): {name}=({low}, {high}) is not a range of positive numbers"
                ))
                .remedy(format!("give {name} as (smallest, largest)")));
            }
        }
        form.size = Some(self.size);
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()> {
        image.crop(self.part(image.width(), image.height(), rng));
        image.resize(self.size.1, self.size.0, self.interpolation)
    }
}

impl fmt::Display for RandomResizedCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "random_resized_crop({}", size_text(self.size))?;
        let plain = Self::new(self.size);
        if self.scale != plain.scale {
            write!(f, ", scale={:?}", self.scale)?;
        }
        if self.ratio != plain.ratio {
            write!(f, ", ratio={:?}", self.ratio)?;
        }
        write!(f, "{})", self.interpolation)
    }
}

#[cfg(test)]
mod tests {
    use forebay_policy::sample::Key;

    use super::super::tests::{Grid, assert_written, decoded, normalized, refusal};
    use super::*;

    #[test]
    fn it_is_written_as_promised() {
        assert_written(
            &decoded(),
            RandomResizedCrop::new((224, 224)),
            "random_resized_crop(224)",
            0xa3b3_7e2a_34ad_78d4,
        );
        let full = RandomResizedCrop {
            size: (96, 128),
            scale: (0.2, 0.9),
            ratio: (0.5, 2.0),
            interpolation: Interpolation::Bicubic,
        };
        let text = "random_resized_crop((96, 128), scale=(0.2, 0.9), ratio=(0.5, 2.0), interpolation=\"bicubic\")";
        assert_written(&decoded(), full, text, 0x7c9e_1d31_0554_9405);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let plain = || RandomResizedCrop::new((4, 4));
        for range in [(0.0, 1.0), (1.0, 0.5), (-1.0, 1.0), (0.5, f64::INFINITY), (f64::NAN, 1.0)] {
            let (low, high) = range;
            for (name, crop) in [
                ("scale", RandomResizedCrop { scale: range, ..plain() }),
                ("ratio", RandomResizedCrop { ratio: range, ..plain() }),
            ] {
                assert_eq!(
                    refusal(&decoded(), crop),
                    format!(
                        "random_resized_crop(): {name}=({low}, {high}) is not a range of positive numbers; \
                         give {name} as (smallest, largest)"
                    )
                );
            }
        }
        assert!(refusal(&normalized(), plain()).starts_with("random_resized_crop() works on 8-bit levels"));
        assert!(refusal(&decoded(), RandomResizedCrop::new((0, 4))).contains("to 0 x 4 is impossible"));
    }

    /// The parts drawn for many samples of a picture.
    fn parts(crop: &RandomResizedCrop, width: u32, height: u32) -> impl Iterator<Item = Rect> {
        (0..20_000).map(move |sample| {
            let part = crop.part(width, height, &mut Key::new(0, 0, sample).rng(0));
            assert!(part.width >= 1 && part.height >= 1);
            assert!(part.x + part.width <= width && part.y + part.height <= height);
            part
        })
    }

    #[test]
    fn parts_keep_to_their_ranges_and_fill_them() {
        let crop = RandomResizedCrop::new((224, 224));
        let (width, height) = (1000, 1000);
        let (mut shares, mut ratios) = (Vec::new(), Vec::new());
        for part in parts(&crop, width, height) {
            shares.push(f64::from(part.width * part.height) / f64::from(width * height));
            ratios.push((f64::from(part.width) / f64::from(part.height)).ln());
        }
        let ends = |values: &[f64]| values.iter().fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
        let (low, high) = ends(&shares);
        assert!((0.0795..0.0805).contains(&low) && (0.99..=1.0).contains(&high), "{low} to {high}");
        let (low, high) = ends(&ratios);
        let widest = (4.0_f64 / 3.0).ln();
        assert!((low + widest).abs() < 0.005 && (high - widest).abs() < 0.005, "{low} to {high}");
        // The logarithm of the ratio is uniform wherever a part of any ratio fits, which is below three quarters.
        let small: Vec<_> = shares.iter().zip(&ratios).filter(|(share, _)| **share < 0.7).map(|(_, r)| *r).collect();
        let mean = small.iter().sum::<f64>() / small.len() as f64;
        let variance = small.iter().map(|r| r * r).sum::<f64>() / small.len() as f64;
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((variance / (widest * widest / 3.0) - 1.0).abs() < 0.05, "{variance}");
        // So is the share: half of those below 0.7 lie below the middle between 0.08 and 0.7.
        let below = shares.iter().filter(|share| **share < 0.39).count() as f64;
        assert!((below / small.len() as f64 - 0.5).abs() < 0.02, "{below} of {}", small.len());
    }

    #[test]
    fn a_part_lies_anywhere_it_fits() {
        let crop = RandomResizedCrop { scale: (0.25, 0.25), ratio: (1.0, 1.0), ..RandomResizedCrop::new((8, 8)) };
        let mut places = [[0_u32; 2]; 6];
        for part in parts(&crop, 10, 10) {
            assert_eq!((part.width, part.height), (5, 5));
            places[part.x as usize][0] += 1;
            places[part.y as usize][1] += 1;
        }
        // 3333 expected of each, five standard deviations.
        assert!(places.as_flattened().iter().all(|count| count.abs_diff(3333) < 264), "{places:?}");
    }

    #[test]
    fn a_picture_too_long_for_any_part_gives_its_middle() {
        let crop = RandomResizedCrop { scale: (0.9, 1.0), ..RandomResizedCrop::new((8, 8)) };
        // Ten times as long as it is wide: no part of 90 % has less than 9 to 1.
        assert!(parts(&crop, 1000, 100).all(|part| part == Rect { x: 433, y: 0, width: 133, height: 100 }));
        assert!(parts(&crop, 100, 1000).all(|part| part == Rect { x: 0, y: 433, width: 100, height: 133 }));
        // Allowed proportions, but no room for the area: the whole.
        let beyond = RandomResizedCrop { scale: (2.0, 2.0), ..crop };
        assert!(parts(&beyond, 100, 90).all(|part| part == Rect { x: 0, y: 0, width: 100, height: 90 }));
    }

    #[test]
    fn a_picture_of_one_pixel_has_one_part() {
        let crop = RandomResizedCrop::new((8, 8));
        assert!(parts(&crop, 1, 1).all(|part| part == Rect { x: 0, y: 0, width: 1, height: 1 }));
        assert_eq!(Grid::noise(1, 1, 0).after(&crop, 0).pixels.len(), 64);
    }
}
