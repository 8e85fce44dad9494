//! The last touch: levels become the tensor's elements, in the tensor's order, in the sample's slot.
//!
//! Flips, normalisation, cast and layout happen in this one pass. The arithmetic is one multiplication
//! and one addition, never fused, so that every machine gives the same bits.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use forebay_store::{Error, Kind, Result};

use super::image::{Fill, Finished, Patch, Pixel, Rect};
use super::{Dtype, Form, Layout};

/// Rows on their way into a slot, kept from sample to sample.
#[derive(Debug, Default)]
pub(super) struct Rows {
    levels: Vec<u8>,
    values: Vec<f32>,
    slopes: Vec<f32>,
    offsets: Vec<f32>,
}

/// From a level to a value.
#[derive(Debug, Clone, Copy)]
struct Line {
    slope: f32,
    offset: f32,
}

/// Writes a finished picture into its slot.
pub(super) fn write(mut picture: Finished<'_>, form: &Form, slot: &mut [u8]) -> Result<()> {
    let Rect { width, height, .. } = picture.view;
    if form.size != Some((height, width)) || form.sample_bytes() != Some(slot.len()) {
        let expected = form.size.map_or_else(|| "another size".to_owned(), |(h, w)| format!("{h} x {w}"));
        return Err(Error::new(
            Kind::Internal,
            format!("a picture of {height} x {width} came where {expected} was promised"),
        ));
    }
    match form.dtype {
        Dtype::U8 => write_levels(&picture, form, slot),
        Dtype::F32 => write_values(&mut picture, form, elements::<f32>(slot)),
        Dtype::F16 => write_values(&mut picture, form, elements::<f16>(slot)),
        Dtype::Bf16 => write_values(&mut picture, form, elements::<bf16>(slot)),
    }
    Ok(())
}

/// Types a slot can be seen as.
trait Element: Copy {
    /// Stores values; the nearest that fits, ties to even.
    fn store(values: &[f32], out: &mut [Self]);

    /// Where values can be written at once, without a stop in between.
    fn in_place(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
}

impl Element for f32 {
    fn store(values: &[f32], out: &mut [f32]) {
        out.copy_from_slice(values);
    }

    fn in_place(out: &mut [f32]) -> Option<&mut [f32]> {
        Some(out)
    }
}

impl Element for f16 {
    fn store(values: &[f32], out: &mut [f16]) {
        out.convert_from_f32_slice(values);
    }
}

impl Element for bf16 {
    fn store(values: &[f32], out: &mut [bf16]) {
        fast::round_to_bf16(values, out);
    }
}

fn elements<T: Element>(slot: &mut [u8]) -> &mut [T] {
    // SAFETY: every bit pattern is a value of these types; the assertion holds the alignment.
    let (head, elements, tail) = unsafe { slot.align_to_mut::<T>() };
    assert!(head.is_empty() && tail.is_empty(), "slots are multiples of the element size within an aligned slab");
    elements
}

impl Finished<'_> {
    /// The rows from the top as they show, each as stored: it may show mirrored.
    fn rows(&self) -> impl Iterator<Item = &[Pixel]> {
        let Rect { x, y, width, height } = self.view;
        (0..height).map(move |row| {
            let row = if self.is_flipped { y + height - 1 - row } else { y + row };
            let start = row as usize * self.stride + x as usize;
            &self.pixels[start..start + width as usize]
        })
    }
}

fn write_levels(picture: &Finished<'_>, form: &Form, slot: &mut [u8]) {
    let (width, channels) = (picture.view.width as usize, form.channels as usize);
    let plane = slot.len() / channels;
    for (y, row) in picture.rows().enumerate() {
        match form.layout {
            Layout::Nchw => {
                for channel in 0..channels {
                    fast::pick_levels(
                        row,
                        channel,
                        picture.is_mirrored,
                        &mut slot[channel * plane + y * width..][..width],
                    );
                }
            }
            Layout::Nhwc => fast::pack_levels(
                row,
                channels,
                picture.is_mirrored,
                &mut slot[y * width * channels..][..width * channels],
            ),
        }
    }
}

fn write_values<T: Element>(picture: &mut Finished<'_>, form: &Form, slot: &mut [T]) {
    let (width, channels) = (picture.view.width as usize, form.channels as usize);
    let lines: [Line; 3] = std::array::from_fn(|channel| match form.normal {
        Some((mean, std)) => Line { slope: 1.0 / (255.0 * std[channel]), offset: -mean[channel] / std[channel] },
        None => Line { slope: 1.0 / 255.0, offset: 0.0 },
    });
    let lines = &lines[..channels];
    let plane = slot.len() / channels;
    let mut rows = std::mem::take(picture.row);
    rows.prepare(form.layout, width, lines);
    for (y, row) in picture.rows().enumerate() {
        match form.layout {
            Layout::Nchw => {
                for (channel, line) in lines.iter().enumerate() {
                    let out = &mut slot[channel * plane + y * width..][..width];
                    rows.through(out, |_, out| fast::pick_values(row, channel, *line, picture.is_mirrored, out));
                }
            }
            Layout::Nhwc => {
                fast::pack_levels(row, channels, picture.is_mirrored, &mut rows.levels);
                let out = &mut slot[y * width * channels..][..width * channels];
                rows.through(out, |rows, out| fast::scale(&rows.levels, &rows.slopes, &rows.offsets, out));
            }
        }
    }
    for patch in picture.patches.drain(..) {
        paint(patch, form, width, slot, &mut rows);
    }
    *picture.row = rows;
}

impl Rows {
    /// Makes room for a row. Channels last need a slope and an offset for every element of it.
    fn prepare(&mut self, layout: Layout, width: usize, lines: &[Line]) {
        self.values.resize(width * lines.len(), 0.0);
        if layout == Layout::Nhwc {
            self.levels.resize(width * lines.len(), 0);
            self.slopes.clear();
            self.offsets.clear();
            self.slopes.extend(lines.iter().map(|line| line.slope).cycle().take(width * lines.len()));
            self.offsets.extend(lines.iter().map(|line| line.offset).cycle().take(width * lines.len()));
        }
    }

    /// Has `compute` write values into `out`: at once where they are what `out` holds, else by way of a
    /// row that the cache keeps warm.
    fn through<T: Element>(&mut self, out: &mut [T], compute: impl FnOnce(&Self, &mut [f32])) {
        if let Some(out) = T::in_place(out) {
            return compute(self, out);
        }
        let mut values = std::mem::take(&mut self.values);
        compute(self, &mut values[..out.len()]);
        T::store(&values[..out.len()], out);
        self.values = values;
    }
}

/// Paints a patch over what was written.
fn paint<T: Element>(patch: Patch, form: &Form, width: usize, slot: &mut [T], rows: &mut Rows) {
    let Patch { area, mut fill, is_normalized } = patch;
    let normal = form.normal.filter(|_| !is_normalized);
    let channels = form.channels as usize;
    let plane = slot.len() / channels;
    for channel in 0..channels {
        for y in area.y as usize..(area.y + area.height) as usize {
            rows.values.clear();
            rows.values.extend((0..area.width).map(|_| match &mut fill {
                Fill::Values(by_channel) => by_channel[channel],
                Fill::Noise(rng) => rng.normal(),
            }));
            if let Some((mean, std)) = normal {
                rows.values.iter_mut().for_each(|value| *value = (*value - mean[channel]) / std[channel]);
            }
            match form.layout {
                Layout::Nchw => T::store(
                    &rows.values,
                    &mut slot[channel * plane + y * width + area.x as usize..][..rows.values.len()],
                ),
                Layout::Nhwc => {
                    for (i, value) in rows.values.iter().enumerate() {
                        let place = (y * width + area.x as usize + i) * channels + channel;
                        T::store(std::slice::from_ref(value), &mut slot[place..=place]);
                    }
                }
            }
        }
    }
}

/// The inner loops, compiled for the widest vectors this machine has. The loops are plain: the compiler
/// turns them into vector code, and the same operations in the same order give the same bits everywhere.
mod fast {
    use half::bf16;

    use super::{Line, Pixel};

    macro_rules! widest {
        ($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) $body:block) => {
            $(#[$doc])*
            pub(super) fn $name($($arg: $type),*) {
                #[inline(always)]
                fn plain($($arg: $type),*) $body
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
                    fn avx512($($arg: $type),*) { plain($($arg),*) }
                    #[target_feature(enable = "avx2")]
                    fn avx2($($arg: $type),*) { plain($($arg),*) }
                    if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
                        // SAFETY: the processor has just said that it can.
                        return unsafe { avx512($($arg),*) };
                    }
                    if is_x86_feature_detected!("avx2") {
                        // SAFETY: the processor has just said that it can.
                        return unsafe { avx2($($arg),*) };
                    }
                }
                plain($($arg),*)
            }
        };
    }

    widest! {
        /// One channel of a row, as levels.
        fn pick_levels(row: &[Pixel], channel: usize, is_mirrored: bool, out: &mut [u8]) {
            let shift = 8 * channel as u32;
            let pick = |pixel: &Pixel| (u32::from_le_bytes(*pixel) >> shift) as u8;
            if is_mirrored {
                out.iter_mut().zip(row.iter().rev()).for_each(|(out, pixel)| *out = pick(pixel));
            } else {
                out.iter_mut().zip(row).for_each(|(out, pixel)| *out = pick(pixel));
            }
        }
    }

    widest! {
        /// All channels of a row, pixel by pixel, as levels.
        fn pack_levels(row: &[Pixel], channels: usize, is_mirrored: bool, out: &mut [u8]) {
            match (channels, is_mirrored) {
                (3, false) => out.as_chunks_mut::<3>().0.iter_mut().zip(row).for_each(|(out, &[r, g, b, _])| *out = [r, g, b]),
                (3, true) => out.as_chunks_mut::<3>().0.iter_mut().zip(row.iter().rev()).for_each(|(out, &[r, g, b, _])| *out = [r, g, b]),
                (_, false) => out.iter_mut().zip(row).for_each(|(out, pixel)| *out = pixel[0]),
                (_, true) => out.iter_mut().zip(row.iter().rev()).for_each(|(out, pixel)| *out = pixel[0]),
            }
        }
    }

    widest! {
        /// One channel of a row, as values.
        fn pick_values(row: &[Pixel], channel: usize, line: Line, is_mirrored: bool, out: &mut [f32]) {
            let shift = 8 * channel as u32;
            let value = |pixel: &Pixel| ((u32::from_le_bytes(*pixel) >> shift) & 255) as i32 as f32 * line.slope + line.offset;
            if is_mirrored {
                out.iter_mut().zip(row.iter().rev()).for_each(|(out, pixel)| *out = value(pixel));
            } else {
                out.iter_mut().zip(row).for_each(|(out, pixel)| *out = value(pixel));
            }
        }
    }

    widest! {
        /// Levels times slopes plus offsets, element by element.
        fn scale(levels: &[u8], slopes: &[f32], offsets: &[f32], out: &mut [f32]) {
            for (((out, level), slope), offset) in out.iter_mut().zip(levels).zip(slopes).zip(offsets) {
                *out = f32::from(*level) * slope + offset;
            }
        }
    }

    widest! {
        /// The nearest `bf16`, ties to even; values are finite.
        fn round_to_bf16(values: &[f32], out: &mut [bf16]) {
            for (out, value) in out.iter_mut().zip(values) {
                let bits = value.to_bits();
                *out = bf16::from_bits(((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_policy::sample::Key;
    use proptest::prelude::*;

    use super::super::Stage;
    use super::super::image::{Image, Scratch};
    use super::super::tests::Grid;
    use super::*;

    const NORMAL: ([f32; 3], [f32; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);

    fn form(
        dtype: Dtype,
        layout: Layout,
        channels: u32,
        size: (u32, u32),
        normal: Option<([f32; 3], [f32; 3])>,
    ) -> Form {
        let stage = if dtype == Dtype::U8 { Stage::Levels } else { Stage::Values };
        Form { size: Some(size), channels, dtype, layout, stage, normal }
    }

    /// One element as the definition has it.
    fn element(level: u8, channel: usize, form: &Form) -> Vec<u8> {
        let value = match form.normal {
            Some((mean, std)) => f32::from(level) * (1.0 / (255.0 * std[channel])) + -mean[channel] / std[channel],
            None => f32::from(level) * (1.0 / 255.0),
        };
        bytes_of(value, level, form.dtype)
    }

    fn bytes_of(value: f32, level: u8, dtype: Dtype) -> Vec<u8> {
        match dtype {
            Dtype::U8 => vec![level],
            Dtype::F32 => value.to_ne_bytes().to_vec(),
            Dtype::F16 => f16::from_f32(value).to_ne_bytes().to_vec(),
            Dtype::Bf16 => bf16::from_f32(value).to_ne_bytes().to_vec(),
        }
    }

    /// A slot written element by element.
    fn reference(grid: &Grid, form: &Form, of: impl Fn(u32, u32, usize) -> Vec<u8>) -> Vec<u8> {
        let channels = form.channels as usize;
        let places = || (0..grid.height).flat_map(|y| (0..grid.width).map(move |x| (x, y)));
        match form.layout {
            Layout::Nchw => {
                (0..channels).flat_map(|c| places().flat_map(|(x, y)| of(x, y, c)).collect::<Vec<_>>()).collect()
            }
            Layout::Nhwc => {
                places().flat_map(|(x, y)| (0..channels).flat_map(|c| of(x, y, c)).collect::<Vec<_>>()).collect()
            }
        }
    }

    fn written(grid: &Grid, form: &Form, change: impl FnOnce(&mut Image<'_>)) -> Vec<u8> {
        let mut scratch = Scratch::default();
        let mut image = Image::decoded(grid.width, grid.height, &mut scratch, |pixels| {
            pixels.iter_mut().zip(&grid.pixels).for_each(|(to, &[r, g, b])| *to = [r, g, b, 77]);
            Ok(())
        })
        .unwrap();
        change(&mut image);
        // Words, so that the slot lies as a slab's does.
        let mut slot = vec![0_u64; form.sample_bytes().unwrap().div_ceil(8)];
        // SAFETY: words are bytes, and more of them than the slot takes.
        let slot = unsafe { std::slice::from_raw_parts_mut(slot.as_mut_ptr().cast(), form.sample_bytes().unwrap()) };
        write(image.finish().unwrap(), form, slot).unwrap();
        slot.to_vec()
    }

    fn dtypes() -> impl Strategy<Value = Dtype> {
        prop::sample::select(&[Dtype::U8, Dtype::F16, Dtype::Bf16, Dtype::F32][..])
    }

    fn layouts() -> impl Strategy<Value = Layout> {
        prop::sample::select(&[Layout::Nchw, Layout::Nhwc][..])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn a_slot_holds_what_the_definition_says(
            dtype in dtypes(), layout in layouts(), is_grey: bool, is_normal: bool, is_mirrored: bool, is_flipped: bool,
            width in 1..150_u32, height in 1..6_u32, inset in 0..3_u32,
        ) {
            let whole = Grid::noise(width + 2 * inset, height + 2 * inset, 0);
            let normal = (is_normal && dtype != Dtype::U8).then_some(NORMAL);
            let form = form(dtype, layout, if is_grey { 1 } else { 3 }, (height, width), normal);
            // A view with more to every side, so that a stride taken for a width shows.
            let area = Rect { x: inset, y: inset, width, height };
            let got = written(&whole, &form, |image| {
                image.crop(area);
                if is_mirrored { image.mirror() }
                if is_flipped { image.flip() }
            });
            let mut shown = whole.crop(area);
            if is_mirrored { shown = shown.mirror() }
            if is_flipped { shown = shown.flip() }
            let expected = reference(&shown, &form, |x, y, c| element(shown.at(x, y)[c], c, &form));
            prop_assert!(got == expected, "{form:?}");
        }

        #[test]
        fn a_patch_covers_its_area_and_nothing_else(
            dtype in prop::sample::select(&[Dtype::F16, Dtype::Bf16, Dtype::F32][..]), layout in layouts(),
            is_grey: bool, is_before: bool, x in 0..9_u32, y in 0..5_u32,
        ) {
            let grid = Grid::noise(13, 8, 0);
            let form = form(dtype, layout, if is_grey { 1 } else { 3 }, (8, 13), Some(NORMAL));
            let area = Rect { x, y, width: 4, height: 3 };
            let values = [0.25, -3.0, 70_000.0];
            let got = written(&grid, &form, |image| {
                image.enter_values();
                if is_before {
                    image.paint_values(area, Fill::Values(values));
                    image.enter_normalized();
                } else {
                    image.enter_normalized();
                    image.paint_values(area, Fill::Values(values));
                }
            });
            let expected = reference(&grid, &form, |column, row, c| {
                let (mean, std) = (NORMAL.0[c], NORMAL.1[c]);
                let value = if is_before { (values[c] - mean) / std } else { values[c] };
                if (x..x + 4).contains(&column) && (y..y + 3).contains(&row) {
                    bytes_of(value, 0, dtype)
                } else {
                    element(grid.at(column, row)[c], c, &form)
                }
            });
            prop_assert!(got == expected, "{form:?}");
        }

        #[test]
        fn bf16_is_rounded_to_the_nearest_even(bits: u32) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            let mut out = [bf16::ZERO];
            fast::round_to_bf16(&[value], &mut out);
            prop_assert_eq!(out[0], bf16::from_f32(value));
        }
    }

    #[test]
    fn noise_is_the_same_in_either_layout() {
        let grid = Grid::noise(20, 10, 0);
        let noise = || Fill::Noise(Key::new(1, 2, 3).rng(4));
        let [first, last] = [Layout::Nchw, Layout::Nhwc].map(|layout| {
            written(&grid, &form(Dtype::F32, layout, 3, (10, 20), Some(NORMAL)), |image| {
                image.enter_normalized();
                image.paint_values(Rect { x: 0, y: 0, width: 20, height: 10 }, noise());
            })
        });
        let (first, last) = (first.as_chunks::<4>().0, last.as_chunks::<4>().0);
        assert!((0..600).all(|i| first[i % 3 * 200 + i / 3] == last[i]));
    }

    #[test]
    fn a_picture_of_another_size_than_promised_is_named() {
        let mut scratch = Scratch::default();
        let mut image = Image::decoded(5, 4, &mut scratch, |_| Ok(())).unwrap();
        let form = form(Dtype::U8, Layout::Nchw, 3, (4, 4), None);
        let error = write(image.finish().unwrap(), &form, &mut [0; 48]).unwrap_err();
        assert_eq!(error.to_string(), "a picture of 4 x 5 came where 4 x 4 was promised");
    }
}
