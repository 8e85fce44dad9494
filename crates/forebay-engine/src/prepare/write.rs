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
pub(super) fn write(picture: Finished<'_>, form: &Form, slot: &mut [u8]) -> Result<()> {
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
        Dtype::F32 => write_values(picture, form, elements::<f32>(slot)),
        Dtype::F16 => write_values(picture, form, elements::<f16>(slot)),
        Dtype::Bf16 => write_values(picture, form, elements::<bf16>(slot)),
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

fn write_values<T: Element>(picture: Finished<'_>, form: &Form, slot: &mut [T]) {
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
    for Patch { area, fill } in picture.patches.drain(..) {
        paint(area, fill, form, width, slot, &mut rows);
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
fn paint<T: Element>(area: Rect, mut fill: Fill, form: &Form, width: usize, slot: &mut [T], rows: &mut Rows) {
    let channels = form.channels as usize;
    let plane = slot.len() / channels;
    for channel in 0..channels {
        for y in area.y as usize..(area.y + area.height) as usize {
            rows.values.clear();
            rows.values.extend((0..area.width).map(|_| match &mut fill {
                Fill::Values(by_channel) => by_channel[channel],
                Fill::Noise(rng) => rng.normal(),
            }));
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
