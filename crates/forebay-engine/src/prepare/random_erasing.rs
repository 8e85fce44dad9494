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
