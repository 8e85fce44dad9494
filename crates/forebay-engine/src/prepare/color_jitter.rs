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

#[cfg(test)]
mod tests {
    use super::super::tests::{Grid, assert_written, decoded, normalized, refusal};
    use super::*;

    const NOTHING: ColorJitter = ColorJitter { brightness: SAME, contrast: SAME, saturation: SAME, hue: STILL };

    #[test]
    fn it_is_written_as_promised() {
        assert_written(&decoded(), NOTHING, "color_jitter()", 0xec46_7980_a217_d7be);
        assert_written(
            &decoded(),
            ColorJitter { brightness: (0.6, 1.4), contrast: (0.5, 1.5), saturation: (0.0, 2.0), hue: (-0.1, 0.1) },
            "color_jitter(brightness=(0.6, 1.4), contrast=(0.5, 1.5), saturation=(0.0, 2.0), hue=(-0.1, 0.1))",
            0x2bb9_361c_aad0_c652,
        );
    }

    #[test]
    fn ranges_it_cannot_draw_from_are_refused() {
        for range in [(-0.1, 1.0), (1.5, 0.5), (f64::NAN, 1.0), (0.5, f64::INFINITY)] {
            for (name, jitter) in [
                ("brightness", ColorJitter { brightness: range, ..NOTHING }),
                ("contrast", ColorJitter { contrast: range, ..NOTHING }),
                ("saturation", ColorJitter { saturation: range, ..NOTHING }),
            ] {
                let (low, high) = range;
                assert_eq!(
                    refusal(&decoded(), jitter),
                    format!(
                        "color_jitter(): {name}=({low}, {high}) is not a range it can draw from; \
                         give positive factors, the smaller first"
                    )
                );
            }
        }
        assert_eq!(
            refusal(&decoded(), ColorJitter { hue: (-0.6, 0.1), ..NOTHING }),
            "color_jitter(): hue=(-0.6, 0.1) is not a range it can draw from; \
             stay within -0.5 and 0.5, the smaller first"
        );
        assert!(refusal(&normalized(), NOTHING).starts_with("color_jitter() works on 8-bit levels"));
    }

    #[test]
    fn a_jitter_of_nothing_changes_nothing() {
        let grid = Grid::noise(9, 9, 0);
        assert_eq!(grid.after(&NOTHING, 3), grid);
    }

    #[test]
    fn a_change_of_1_changes_nothing_even_where_it_is_drawn() {
        let grid = Grid::noise(9, 9, 0);
        let almost = (1.0, 1.0_f64.next_up());
        let jitter = ColorJitter { brightness: almost, contrast: almost, saturation: almost, hue: STILL };
        assert_eq!(grid.after(&jitter, 3), grid);
    }

    #[test]
    fn the_extremes_are_black_grey_and_the_mean() {
        let grid = Grid::noise(9, 9, 0);
        let none = (0.0, 0.0);
        assert!(grid.after(&ColorJitter { brightness: none, ..NOTHING }, 0).pixels.iter().all(|p| *p == [0; 3]));
        let flat = grid.after(&ColorJitter { contrast: none, ..NOTHING }, 0);
        assert!(flat.pixels.iter().all(|p| *p == flat.pixels[0] && p[0] == p[1] && p[1] == p[2]));
        let grey = grid.after(&ColorJitter { saturation: none, ..NOTHING }, 0);
        assert_eq!(grey, grid.after(&super::super::Grayscale { channels: 3, p: 1.0 }, 0));
    }

    #[test]
    fn every_order_of_two_changes_comes_up_about_equally_often() {
        // Brightness before saturation or after it: where a channel saturates, the results differ.
        let grid = Grid::new(1, 1, |_, _| [250, 90, 10]);
        let jitter = ColorJitter { brightness: (2.0, 2.0), saturation: (0.5, 0.5), ..NOTHING };
        let mut counts = std::collections::HashMap::new();
        for seed in 0..600 {
            *counts.entry(grid.after(&jitter, seed).pixels[0]).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 2, "{counts:?}");
        assert!(counts.values().all(|&count| (220..380).contains(&count)), "{counts:?}");
    }

    #[test]
    fn a_full_turn_of_the_hue_is_two_half_turns() {
        let grid = Grid::new(3, 1, |x, _| [[200, 30, 30], [30, 200, 30], [30, 30, 200]][x as usize]);
        let half = ColorJitter { hue: (0.5, 0.5), ..NOTHING };
        // Opposite colours: what was least is most, and pure hues come back within the rounding of 255 steps.
        let turned = grid.after(&half, 0);
        assert!(turned.pixels.iter().zip(&grid.pixels).all(|(now, then)| now != then));
        for (now, then) in turned.after(&half, 0).pixels.iter().zip(&grid.pixels) {
            assert!(now.iter().zip(then).all(|(now, then)| now.abs_diff(*then) <= 15), "{now:?} and {then:?}");
        }
    }
}
