//! Random crop, with padding where asked for.

use std::fmt;

use forebay_policy::sample::Rng;
use forebay_store::{Error, Result};

use super::image::{Image, Padding, Rect, Sides};
use super::{Form, LONGEST_SIDE, Operation, check_size, size_text};

/// torchvision's `RandomCrop`.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomCrop {
    /// Rows and columns.
    pub size: (u32, u32),
    /// Pixels added on each side before cropping.
    pub padding: Sides,
    /// Whether a picture smaller than the crop is padded to it; otherwise it is an error.
    pub pad_if_needed: bool,
    /// The colour of constant padding.
    pub fill: [u8; 3],
    /// What the padding shows.
    pub mode: PaddingMode,
}

/// What padding shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaddingMode {
    /// One colour.
    Constant,
    /// The outermost pixel, repeated.
    Edge,
    /// The picture mirrored, without its outermost pixel: `cb|abc|ba`.
    Reflect,
    /// The picture mirrored with its outermost pixel: `ba|abc|cb`.
    Symmetric,
}

impl PaddingMode {
    /// The index within `0..len` that stands at `i`, or `None` for the fill colour.
    fn index(self, i: i64, len: u32) -> Option<u32> {
        let len = i64::from(len);
        if (0..len).contains(&i) {
            return Some(i as u32);
        }
        let index = match self {
            PaddingMode::Constant => return None,
            PaddingMode::Edge => i.clamp(0, len - 1),
            PaddingMode::Symmetric => {
                let i = i.rem_euclid(2 * len);
                if i < len { i } else { 2 * len - 1 - i }
            }
            PaddingMode::Reflect if len == 1 => 0,
            PaddingMode::Reflect => {
                let i = i.rem_euclid(2 * (len - 1));
                if i < len { i } else { 2 * (len - 1) - i }
            }
        };
        Some(index as u32)
    }

    fn name(self) -> &'static str {
        match self {
            PaddingMode::Constant => "constant",
            PaddingMode::Edge => "edge",
            PaddingMode::Reflect => "reflect",
            PaddingMode::Symmetric => "symmetric",
        }
    }
}

impl RandomCrop {
    fn pad(&self, image: &mut Image<'_>, sides: Sides) -> Result<()> {
        if sides == Sides::default() {
            return Ok(());
        }
        let (width, height, [r, g, b]) = (image.width(), image.height(), self.fill);
        image.pad(sides, |x, y| match (self.mode.index(x, width), self.mode.index(y, height)) {
            (Some(x), Some(y)) => Padding::Of(x, y),
            _ => Padding::Colour([r, g, b, 255]),
        })
    }
}

impl Operation for RandomCrop {
    fn form(&self, form: &mut Form) -> Result<()> {
        form.needs_levels("random_crop()")?;
        check_size("random_crop()", self.size)?;
        let Sides { left, top, right, bottom } = self.padding;
        if let Some(most) = [left, top, right, bottom].into_iter().max().filter(|&side| side > LONGEST_SIDE) {
            return Err(Error::config(format!("random_crop(): a padding of {most} is impossible"))
                .remedy(format!("give paddings up to {LONGEST_SIDE}")));
        }
        if let Some((height, width)) = form.size {
            let (rows, columns) =
                (height + self.padding.top + self.padding.bottom, width + self.padding.left + self.padding.right);
            if !self.pad_if_needed && (rows < self.size.0 || columns < self.size.1) {
                return Err(self.too_small(rows, columns));
            }
        }
        form.size = Some(self.size);
        Ok(())
    }

    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()> {
        let (height, width) = self.size;
        let Sides { mut left, mut top, mut right, mut bottom } = self.padding;
        let (rows, columns) = (image.height() + top + bottom, image.width() + left + right);
        let (missing_rows, missing_columns) = (height.saturating_sub(rows), width.saturating_sub(columns));
        if missing_rows > 0 || missing_columns > 0 {
            if !self.pad_if_needed {
                return Err(self.too_small(rows, columns));
            }
            // Both sides get all that is missing, as torchvision does, so that the crop still moves.
            (left, right) = (left + missing_columns, right + missing_columns);
            (top, bottom) = (top + missing_rows, bottom + missing_rows);
        }
        // Once, not twice: a reflection of a reflection is not a longer reflection.
        self.pad(image, Sides { left, top, right, bottom })?;
        let y = rng.below(u64::from(image.height() - height + 1)) as u32;
        let x = rng.below(u64::from(image.width() - width + 1)) as u32;
        image.crop(Rect { x, y, width, height });
        Ok(())
    }
}

impl RandomCrop {
    fn too_small(&self, height: u32, width: u32) -> Error {
        Error::config(format!("random_crop({}) is larger than the picture, {height} x {width}", size_text(self.size)))
            .remedy("resize first, or pass pad_if_needed=True")
    }
}

impl fmt::Display for RandomCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "random_crop({}", size_text(self.size))?;
        let Sides { left, top, right, bottom } = self.padding;
        if self.padding != Sides::default() {
            write!(f, ", padding=({left}, {top}, {right}, {bottom})")?;
        }
        if self.pad_if_needed {
            write!(f, ", pad_if_needed=True")?;
        }
        if self.fill != [0; 3] {
            let [r, g, b] = self.fill;
            write!(f, ", fill=({r}, {g}, {b})")?;
        }
        if self.mode != PaddingMode::Constant {
            write!(f, ", padding_mode=\"{}\"", self.mode.name())?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use forebay_policy::sample::Key;
    use forebay_store::Kind;

    use super::super::tests::{Grid, assert_written, decoded, normalized, ppm, refusal};
    use super::super::{CenterCrop, Scratch};
    use super::*;

    fn plain(size: (u32, u32)) -> RandomCrop {
        RandomCrop { size, padding: Sides::default(), pad_if_needed: false, fill: [0; 3], mode: PaddingMode::Constant }
    }

    #[test]
    fn it_is_written_as_promised() {
        assert_written(&decoded(), plain((32, 32)), "random_crop(32)", 0x2b01_7dcc_a12d_a68c);
        let padding = Sides { left: 1, top: 2, right: 3, bottom: 4 };
        let full =
            RandomCrop { padding, pad_if_needed: true, fill: [5, 6, 7], mode: PaddingMode::Edge, ..plain((8, 9)) };
        let text =
            "random_crop((8, 9), padding=(1, 2, 3, 4), pad_if_needed=True, fill=(5, 6, 7), padding_mode=\"edge\")";
        assert_written(&decoded(), full, text, 0x3e10_40a6_f932_dba7);
        for (mode, text, fingerprint) in [
            (PaddingMode::Reflect, "random_crop(4, padding_mode=\"reflect\")", 0x4d1d_5d9d_94fd_4f5c),
            (PaddingMode::Symmetric, "random_crop(4, padding_mode=\"symmetric\")", 0x62bb_73a8_cfff_b5d6),
        ] {
            assert_written(&decoded(), RandomCrop { mode, ..plain((4, 4)) }, text, fingerprint);
        }
    }

    #[test]
    fn a_crop_that_cannot_fit_is_refused_before_the_first_sample() {
        let small = decoded().then(CenterCrop { size: (10, 20) }).unwrap();
        assert_eq!(
            refusal(&small, plain((11, 20))),
            "random_crop((11, 20)) is larger than the picture, 10 x 20; resize first, or pass pad_if_needed=True"
        );
        let padding = Sides { top: 1, ..Sides::default() };
        assert!(small.then(RandomCrop { padding, ..plain((11, 20)) }).is_ok());
        assert!(small.then(RandomCrop { pad_if_needed: true, ..plain((11, 20)) }).is_ok());
        assert!(refusal(&normalized(), plain((4, 4))).starts_with("random_crop() works on 8-bit levels"));
    }

    #[test]
    fn a_padding_nobody_can_mean_is_refused() {
        let padding = Sides { right: u32::MAX, ..Sides::default() };
        assert_eq!(
            refusal(&decoded(), RandomCrop { padding, ..plain((4, 4)) }),
            "random_crop(): a padding of 4294967295 is impossible; give paddings up to 65500"
        );
    }

    #[test]
    fn a_picture_that_is_too_small_is_an_error_of_its_sample() {
        let pipeline = decoded().then(plain((4, 9))).unwrap();
        let file = ppm(&Grid::noise(8, 8, 0));
        let error = pipeline.prepare_alone(&file, Key::new(0, 0, 0), &mut Scratch::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.to_string().contains("larger than the picture, 8 x 8"), "{error}");
    }

    #[test]
    fn every_place_comes_up_equally_often() {
        let grid = Grid::new(7, 5, |x, y| [x as u8, y as u8, 0]);
        let mut counts = [[0_u32; 4]; 3];
        for seed in 0..6000 {
            let [x, y, _] = grid.after(&plain((3, 4)), seed).pixels[0];
            counts[usize::from(y)][usize::from(x)] += 1;
        }
        // 500 expected of each, five standard deviations.
        assert!(counts.as_flattened().iter().all(|count| count.abs_diff(500) < 107), "{counts:?}");
    }

    /// The indices that stand in a padded row of `len`, `i64::MIN` for the colour.
    fn row(mode: PaddingMode, len: u32, around: i64) -> Vec<i64> {
        let range = -around..i64::from(len) + around;
        range.map(|i| mode.index(i, len).map_or(i64::MIN, i64::from)).collect()
    }

    #[test]
    fn padding_modes_are_numpys() {
        // From NumPy: np.pad(np.arange(len), around, mode).
        assert_eq!(row(PaddingMode::Edge, 3, 2), [0, 0, 0, 1, 2, 2, 2]);
        assert_eq!(row(PaddingMode::Reflect, 3, 2), [2, 1, 0, 1, 2, 1, 0]);
        assert_eq!(row(PaddingMode::Symmetric, 3, 2), [1, 0, 0, 1, 2, 2, 1]);
        assert_eq!(row(PaddingMode::Reflect, 3, 5), [1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(row(PaddingMode::Symmetric, 2, 5), [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(row(PaddingMode::Reflect, 1, 2), [0, 0, 0, 0, 0]);
        assert_eq!(row(PaddingMode::Constant, 1, 1), [i64::MIN, 0, i64::MIN]);
    }

    #[test]
    fn the_padding_of_a_flipped_picture_is_that_of_what_shows() {
        let grid = Grid::noise(4, 3, 0);
        let padding = Sides { left: 2, top: 1, right: 0, bottom: 2 };
        for mode in [PaddingMode::Constant, PaddingMode::Edge, PaddingMode::Reflect, PaddingMode::Symmetric] {
            let crop = RandomCrop { padding, mode, fill: [9, 8, 7], ..plain((6, 6)) };
            let lazy = grid.show(|image| {
                image.mirror();
                image.flip();
                crop.apply(image, &mut Key::new(0, 0, 0).rng(0))
            });
            assert_eq!(lazy, grid.mirror().flip().after(&crop, 0), "{mode:?}");
        }
    }

    #[test]
    fn what_is_missing_is_added_on_both_sides() {
        let grid = Grid::noise(3, 9, 0);
        let crop = RandomCrop { pad_if_needed: true, fill: [1, 2, 3], ..plain((9, 5)) };
        for seed in 0..20 {
            let got = grid.after(&crop, seed);
            // Two columns before, two after: the picture shows with 0, 1 or 2 columns of the colour before it.
            let before = (0..3).find(|&b| {
                let inside = |x: u32| (b..b + 3).contains(&x);
                got == Grid::new(5, 9, |x, y| if inside(x) { grid.at(x - b, y) } else { [1, 2, 3] })
            });
            assert!(before.is_some(), "seed {seed}");
        }
    }
}
