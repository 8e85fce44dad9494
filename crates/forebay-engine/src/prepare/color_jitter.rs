//! Colour jitter: brightness, contrast, saturation and hue change by random factors, in random order.
//!
//! The arithmetic is Pillow's, step by step (`ImageEnhance`, the HSV conversion), roundings included.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::grayscale::lightness;
use super::image::{Image, Pixel};
use super::{Form, Operation};

/// torchvision's `ColorJitter`. A range of (1, 1), or (0, 0) for the hue, leaves the picture as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ColorJitter {
    /// Factors from and to.
    pub brightness: (f64, f64),
    /// Factors from and to.
    pub contrast: (f64, f64),
    /// Factors from and to.
    pub saturation: (f64, f64),
    /// Turns of the colour circle, from and to, within -0.5 to 0.5.
    pub hue: (f64, f64),
}

const SAME: (f64, f64) = (1.0, 1.0);
const STILL: (f64, f64) = (0.0, 0.0);

impl Operation for ColorJitter {
    fn form(&self, form: &mut Form) -> Result<()> {
        form.needs_levels("color_jitter()")?;
        for (name, (low, high), (least, most)) in [
            ("brightness", self.brightness, (0.0, f64::MAX)),
            ("contrast", self.contrast, (0.0, f64::MAX)),
            ("saturation", self.saturation, (0.0, f64::MAX)),
            ("hue", self.hue, (-0.5, 0.5)),
        ] {
            if !(least <= low && low <= high && high <= most) {
                return Err(Error::config(format!(
                    "color_jitter(): {name}=({low}, {high}) is not a range it can draw from"
                ))
                .remedy(if name == "hue" {
                    "stay within -0.5 and 0.5, the smaller first"
                } else {
                    "give positive factors, the smaller first"
                }));
            }
        }
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()> {
        let mut order = [0, 1, 2, 3];
        for i in (1..4).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let [brightness, contrast, saturation, hue] =
            [self.brightness, self.contrast, self.saturation, self.hue].map(|(low, high)| rng.range(low, high));
        for change in order {
            match change {
                0 if self.brightness != SAME => blend(image, brightness, |_| [0; 4])?,
                1 if self.contrast != SAME => {
                    let mean = mean_lightness(image)?;
                    blend(image, contrast, |_| [mean; 4])?;
                }
                2 if self.saturation != SAME => blend(image, saturation, |pixel| [lightness(pixel); 4])?,
                3 if self.hue != STILL => turn_hue(image, hue)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Moves each pixel from `base` by `factor`, truncating as Pillow's `Image.blend` does.
fn blend(image: &mut Image<'_>, factor: f64, base: impl Fn(Pixel) -> Pixel) -> Result<()> {
    let factor = factor as f32;
    for pixel in image.rows_mut()?.flatten() {
        let from = base(*pixel);
        for (level, from) in pixel.iter_mut().zip(from).take(3) {
            let (to, from) = (f32::from(*level), f32::from(from));
            *level = (from + factor * (to - from)).clamp(0.0, 255.0) as u8;
        }
    }
    Ok(())
}

fn mean_lightness(image: &mut Image<'_>) -> Result<u8> {
    let count = u64::from(image.width()) * u64::from(image.height());
    let sum: u64 = image.rows_mut()?.flatten().map(|pixel| u64::from(lightness(*pixel))).sum();
    Ok((sum as f64 / count as f64 + 0.5) as u8)
}

fn turn_hue(image: &mut Image<'_>, turns: f64) -> Result<()> {
    let shift = (turns * 255.0) as i32 as u8;
    for pixel in image.rows_mut()?.flatten() {
        let (hue, saturation, value) = hsv(*pixel);
        *pixel = rgb(hue.wrapping_add(shift), saturation, value);
    }
    Ok(())
}

/// Pillow's `rgb2hsv`.
fn hsv([r, g, b, _]: Pixel) -> (u8, u8, u8) {
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    if most == least {
        return (0, 0, most);
    }
    let spread = f32::from(most - least);
    let saturation = spread / f32::from(most);
    let part = |level: u8| f32::from(most - level) / spread;
    let hue = if r == most {
        part(b) - part(g)
    } else if g == most {
        (2.0 + f64::from(part(r)) - f64::from(part(b))) as f32
    } else {
        (4.0 + f64::from(part(g)) - f64::from(part(r))) as f32
    };
    let hue = ((f64::from(hue) / 6.0 + 1.0) % 1.0) as f32;
    ((f64::from(hue) * 255.0) as u8, (f64::from(saturation) * 255.0) as u8, most)
}

/// Pillow's `hsv2rgb`.
fn rgb(hue: u8, saturation: u8, value: u8) -> Pixel {
    if saturation == 0 {
        return [value, value, value, 255];
    }
    let sixth = f64::from(hue) * 6.0 / 255.0;
    let (sector, fraction) = (sixth.floor() as i32, (sixth - sixth.floor()) as f32);
    let (saturation, level) = ((f64::from(saturation) / 255.0) as f32, f64::from(value));
    let (saturation, fraction) = (f64::from(saturation), f64::from(fraction));
    let p = (level * (1.0 - saturation)).round() as u8;
    let q = (level * (1.0 - saturation * fraction)).round() as u8;
    let t = (level * (1.0 - saturation * (1.0 - fraction))).round() as u8;
    let [r, g, b] = match sector % 6 {
        0 => [value, t, p],
        1 => [q, value, p],
        2 => [p, value, t],
        3 => [p, q, value],
        4 => [t, p, value],
        _ => [value, p, q],
    };
    [r, g, b, 255]
}

impl fmt::Display for ColorJitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = [
            ("brightness", self.brightness, SAME),
            ("contrast", self.contrast, SAME),
            ("saturation", self.saturation, SAME),
            ("hue", self.hue, STILL),
        ];
        let changes: Vec<_> = changes
            .iter()
            .filter(|(_, range, none)| range != none)
            .map(|(name, range, _)| format!("{name}={range:?}"))
            .collect();
        write!(f, "color_jitter({})", changes.join(", "))
    }
}
