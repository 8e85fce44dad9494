//! Random erasing: paints over a random rectangle, with a probability.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::{Fill, Image, Rect};
use super::{Form, Operation, Stage, check_probability};

/// torchvision's `RandomErasing`. Before `normalize` it paints levels, after it values.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomErasing {
    /// How likely it is.
    pub p: f64,
    /// The rectangle's share of the area, from and to.
    pub scale: (f64, f64),
    /// Its height over its width, from and to.
    pub ratio: (f64, f64),
    /// What it is painted with.
    pub value: Erase,
}

/// What an erased rectangle shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Erase {
    /// One number for all channels, or one each.
    Values(Vec<f32>),
    /// Normal noise; only after `normalize`.
    Noise,
}

impl Default for RandomErasing {
    fn default() -> Self {
        RandomErasing { p: 0.5, scale: (0.02, 0.33), ratio: (0.3, 3.3), value: Erase::Values(vec![0.0]) }
    }
}

impl RandomErasing {
    /// The rectangle, unless ten tries find none that fits.
    fn area(&self, width: u32, height: u32, rng: &mut Rng) -> Option<Rect> {
        let whole = f64::from(width) * f64::from(height);
        let (low, high) = (self.ratio.0.ln(), self.ratio.1.ln());
        for _ in 0..10 {
            let area = whole * rng.range(self.scale.0, self.scale.1);
            let ratio = rng.range(low, high).exp();
            let h = (area * ratio).sqrt().round_ties_even() as u32;
            let w = (area / ratio).sqrt().round_ties_even() as u32;
            if h < height && w < width {
                let y = rng.below(u64::from(height - h + 1)) as u32;
                let x = rng.below(u64::from(width - w + 1)) as u32;
                return Some(Rect { x, y, width: w, height: h });
            }
        }
        None
    }
}

impl Operation for RandomErasing {
    fn form(&self, form: &mut Form) -> Result<()> {
        check_probability("random_erasing()", self.p)?;
        for (name, (low, high)) in [("scale", self.scale), ("ratio", self.ratio)] {
            if !(low > 0.0 && low <= high && high.is_finite()) || name == "scale" && high > 1.0 {
                return Err(Error::config(format!(
                    "random_erasing(): {name}=({low}, {high}) is not a range it can draw from"
                )));
            }
        }
        match &self.value {
            Erase::Noise if form.stage == Stage::Levels => {
                Err(Error::config("random_erasing(value=\"random\") paints real numbers but comes before normalize()")
                    .remedy("move it after normalize()"))
            }
            Erase::Values(values) if !matches!(values.len(), 1 | 3) => {
                Err(Error::config(format!("random_erasing(): value has {} numbers", values.len()))
                    .remedy("give one, or one a channel"))
            }
            _ => Ok(()),
        }
    }

    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()> {
        if !rng.chance(self.p) {
            return Ok(());
        }
        let Some(area) = self.area(image.width(), image.height(), rng) else { return Ok(()) };
        let by_channel = |values: &[f32]| if let &[r, g, b] = values { [r, g, b] } else { [values[0]; 3] };
        match &self.value {
            Erase::Values(values) if image.is_in_values() => image.paint_values(area, Fill::Values(by_channel(values))),
            Erase::Values(values) => {
                let [r, g, b] = by_channel(values).map(|v| v as u8);
                image.paint(area, [r, g, b, 255])?;
            }
            Erase::Noise => image.paint_values(area, Fill::Noise(rng.clone())),
        }
        Ok(())
    }
}

impl fmt::Display for RandomErasing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::default();
        let mut parts = Vec::new();
        if self.p != plain.p {
            parts.push(format!("p={:?}", self.p));
        }
        if self.scale != plain.scale {
            parts.push(format!("scale={:?}", self.scale));
        }
        if self.ratio != plain.ratio {
            parts.push(format!("ratio={:?}", self.ratio));
        }
        match &self.value {
            Erase::Noise => parts.push("value=\"random\"".to_owned()),
            value if *value == plain.value => {}
            Erase::Values(values) => parts.push(format!("value={values:?}")),
        }
        write!(f, "random_erasing({})", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use forebay_policy::sample::Key;

    use super::super::tests::{Grid, assert_written, decoded, normalized, refusal};
    use super::*;

    #[test]
    fn it_is_written_as_promised() {
        let plain = RandomErasing::default;
        assert_written(&decoded(), plain(), "random_erasing()", 0x51d2_1f4f_474e_212a);
        let full =
            RandomErasing { p: 0.25, scale: (0.1, 0.2), ratio: (0.5, 2.0), value: Erase::Values(vec![1.0, 2.5, 3.0]) };
        let text = "random_erasing(p=0.25, scale=(0.1, 0.2), ratio=(0.5, 2.0), value=[1.0, 2.5, 3.0])";
        assert_written(&decoded(), full, text, 0xcaf6_d757_d0b3_cbe4);
        let noise = RandomErasing { value: Erase::Noise, ..plain() };
        assert_written(&normalized(), noise, "random_erasing(value=\"random\")", 0xa2e7_b1ce_def5_7e1b);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let plain = RandomErasing::default;
        for range in [(0.0, 0.5), (0.5, 0.2), (0.5, 1.5), (f64::NAN, 1.0)] {
            let text = refusal(&decoded(), RandomErasing { scale: range, ..plain() });
            assert_eq!(
                text,
                format!("random_erasing(): scale=({}, {}) is not a range it can draw from", range.0, range.1)
            );
        }
        let text = refusal(&decoded(), RandomErasing { ratio: (1.0, f64::INFINITY), ..plain() });
        assert_eq!(text, "random_erasing(): ratio=(1, inf) is not a range it can draw from");
        assert_eq!(
            refusal(&decoded(), RandomErasing { value: Erase::Noise, ..plain() }),
            "random_erasing(value=\"random\") paints real numbers but comes before normalize(); \
             move it after normalize()"
        );
        for values in [vec![], vec![0.0, 1.0]] {
            let text = format!("random_erasing(): value has {} numbers; give one, or one a channel", values.len());
            assert_eq!(refusal(&decoded(), RandomErasing { value: Erase::Values(values), ..plain() }), text);
        }
    }

    #[test]
    fn rectangles_keep_to_their_ranges_and_reach_every_corner() {
        let erasing = RandomErasing::default();
        let (width, height) = (400, 300);
        let (mut areas, mut ratios, mut edges) = ([f64::MAX, 0.0_f64], [f64::MAX, 0.0_f64], [false; 4]);
        for sample in 0..20_000 {
            let area = erasing.area(width, height, &mut Key::new(0, 0, sample).rng(0)).expect("one of ten tries fits");
            assert!(area.x + area.width <= width && area.y + area.height <= height);
            let (share, ratio) = (
                f64::from(area.width * area.height) / f64::from(width * height),
                f64::from(area.height) / f64::from(area.width),
            );
            areas = [areas[0].min(share), areas[1].max(share)];
            ratios = [ratios[0].min(ratio), ratios[1].max(ratio)];
            edges[0] |= area.x == 0;
            edges[1] |= area.y == 0;
            edges[2] |= area.x + area.width == width;
            edges[3] |= area.y + area.height == height;
        }
        // Whole pixels move both by a little beyond what was drawn.
        assert!(0.0195 < areas[0] && areas[0] < 0.0205 && 0.325 < areas[1] && areas[1] < 0.3315, "{areas:?}");
        assert!(0.29 < ratios[0] && ratios[0] < 0.31 && 3.2 < ratios[1] && ratios[1] < 3.36, "{ratios:?}");
        assert_eq!(edges, [true; 4]);
    }

    #[test]
    fn a_rectangle_that_never_fits_is_not_drawn() {
        let whole = RandomErasing { p: 1.0, scale: (1.0, 1.0), ratio: (1.0, 1.0), value: Erase::Values(vec![1.0]) };
        assert_eq!(whole.area(50, 50, &mut Key::new(0, 0, 0).rng(0)), None);
        let grid = Grid::noise(50, 50, 0);
        assert_eq!(grid.after(&whole, 0), grid);
    }

    #[test]
    fn what_is_painted_after_flips_lies_where_it_was_drawn() {
        let erasing = RandomErasing { p: 1.0, value: Erase::Values(vec![7.0, 8.0, 9.0]), ..RandomErasing::default() };
        let grid = Grid::noise(30, 20, 0);
        for seed in 0..20 {
            let lazy = grid.show(|image| {
                image.mirror();
                image.flip();
                erasing.apply(image, &mut Key::new(seed, 0, 0).rng(0))
            });
            let eager = grid.mirror().flip().after(&erasing, seed);
            assert_eq!(lazy, eager, "seed {seed}");
            assert_ne!(lazy, grid.mirror().flip(), "seed {seed}");
        }
    }
}
