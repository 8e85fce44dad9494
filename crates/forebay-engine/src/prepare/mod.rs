//! Step 5, prepare: a sample's bytes become a picture, written into its slot.
//!
//! An [`Operation`] is one step of that, one file each. A [`Pipeline`] is a checked chain of them: it knows
//! before the first sample what every batch will look like, which is what lets a sample's slot be fixed
//! before the sample is fetched.
//!
//! **Invariant:** what an operation draws depends on the sample's [`Key`] and the operation's place in the
//! chain alone (law 3).

mod center_crop;
mod color_jitter;
mod decode;
mod grayscale;
mod horizontal_flip;
pub mod image;
mod jpeg;
mod normalize;
mod random_crop;
mod random_erasing;
mod random_resized_crop;
mod resize;
mod to;
mod vertical_flip;
mod webp;
mod write;

use std::fmt;
use std::sync::Arc;

use forebay_policy::sample::{Key, Rng};
use forebay_store::{Error, Result};

pub use center_crop::CenterCrop;
pub use color_jitter::ColorJitter;
pub use decode::{Decode, Orientation};
pub use grayscale::Grayscale;
pub use horizontal_flip::HorizontalFlip;
pub use image::{Image, Interpolation, Scaling, Scratch};
pub use normalize::Normalize;
pub use random_crop::{PaddingMode, RandomCrop};
pub use random_erasing::{Erase, RandomErasing};
pub use random_resized_crop::RandomResizedCrop;
pub use resize::{Resize, Target};
pub use to::To;
pub use vertical_flip::VerticalFlip;

/// One step from bytes to tensor.
///
/// `Display` is the operation as the user writes it, every parameter included: it is what `repr` shows and
/// what the fingerprint is made of, so two operations that print alike must do alike.
pub trait Operation: fmt::Display + fmt::Debug + Send + Sync {
    /// Says what comes out where `form` goes in, or why the operation makes no sense there.
    fn form(&self, form: &mut Form) -> Result<()>;

    /// Does it. `rng` is this operation's own stream for this sample.
    fn apply(&self, image: &mut Image<'_>, rng: &mut Rng) -> Result<()>;
}

/// What pictures look like at a point of the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// Rows and columns, where every picture has the same.
    pub size: Option<(u32, u32)>,
    /// 3, or 1 for grey.
    pub channels: u32,
    /// The element type of the tensor.
    pub dtype: Dtype,
    /// The order of its axes.
    pub layout: Layout,
    /// Levels 0 to 255, or values after `normalize` or a cast to a float.
    pub stage: Stage,
    /// Mean and standard deviation by channel, once normalised.
    pub normal: Option<([f32; 3], [f32; 3])>,
}

/// What the numbers of a picture mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Eight-bit levels.
    Levels,
    /// Real numbers.
    Values,
}

/// The element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the definitions
pub enum Dtype {
    U8,
    F16,
    Bf16,
    F32,
}

impl Dtype {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::U8 => 1,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 => 4,
        }
    }

    /// Its name in the API: `u8`, `f16`, `bf16`, `f32`.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::U8 => "u8",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::F32 => "f32",
        }
    }
}

/// The order of a batch's axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Channels first, as torch convolutions take them.
    Nchw,
    /// Channels last.
    Nhwc,
}

impl Form {
    /// A decoded picture of any size.
    fn decoded() -> Self {
        Form { size: None, channels: 3, dtype: Dtype::U8, layout: Layout::Nchw, stage: Stage::Levels, normal: None }
    }

    /// Fails unless pictures are still levels, which `operation` needs.
    fn needs_levels(&self, operation: &str) -> Result<()> {
        match self.stage {
            Stage::Levels => Ok(()),
            Stage::Values => {
                Err(Error::config(format!("{operation} works on 8-bit levels but comes after normalize() or to()"))
                    .remedy(format!("move {operation} before them")))
            }
        }
    }

    /// Bytes of one sample.
    pub fn sample_bytes(&self) -> Option<usize> {
        self.size.map(|(height, width)| height as usize * width as usize * self.channels as usize * self.dtype.bytes())
    }

    /// The shape of one sample's tensor.
    pub fn shape(&self) -> Option<[usize; 3]> {
        let (height, width) = self.size?;
        let (height, width, channels) = (height as usize, width as usize, self.channels as usize);
        Some(match self.layout {
            Layout::Nchw => [channels, height, width],
            Layout::Nhwc => [height, width, channels],
        })
    }
}

/// A checked chain of operations, starting with [`Decode`]. Cloning shares the operations.
#[derive(Debug, Clone)]
pub struct Pipeline {
    decode: Decode,
    operations: Vec<Arc<dyn Operation>>,
    form: Form,
}

impl Pipeline {
    /// A pipeline that only decodes.
    pub fn new(decode: Decode) -> Self {
        Pipeline { decode, operations: Vec::new(), form: Form::decoded() }
    }

    /// The pipeline with one operation more, if it makes sense there.
    pub fn then(&self, operation: impl Operation + 'static) -> Result<Self> {
        let mut next = self.clone();
        operation.form(&mut next.form)?;
        next.operations.push(Arc::new(operation));
        Ok(next)
    }

    /// What the samples of a batch look like.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// The operations as the user writes them.
    pub fn steps(&self) -> Vec<String> {
        let rest = self.operations.iter().map(ToString::to_string);
        std::iter::once(self.decode.to_string()).chain(rest).collect()
    }

    /// One number a step, each covering all the steps up to it: pipelines share as long a prefix as these agree.
    pub fn fingerprints(&self) -> Vec<u64> {
        let mut text = String::new();
        self.steps()
            .iter()
            .map(|step| {
                text.push_str(step);
                text.push('.');
                xxhash_rust::xxh3::xxh3_64(text.as_bytes())
            })
            .collect()
    }

    /// Prepares one sample into its slot, which must be [`Form::sample_bytes`] long.
    pub fn prepare(&self, bytes: &[u8], key: Key, scratch: &mut Scratch, slot: &mut [u8]) -> Result<()> {
        let mut image = self.apply(bytes, key, scratch)?;
        write::write(image.finish()?, &self.form, slot)
    }

    /// Prepares one sample of whatever size it comes out, with its height and width.
    pub fn prepare_alone(&self, bytes: &[u8], key: Key, scratch: &mut Scratch) -> Result<(Vec<u8>, Form)> {
        let mut image = self.apply(bytes, key, scratch)?;
        let form = Form { size: Some((image.height(), image.width())), ..self.form.clone() };
        let mut slot = vec![0; form.sample_bytes().unwrap_or_default()];
        write::write(image.finish()?, &form, &mut slot)?;
        Ok((slot, form))
    }

    fn apply<'a>(&self, bytes: &'a [u8], key: Key, scratch: &'a mut Scratch) -> Result<Image<'a>> {
        let mut image = self.decode.open(bytes, scratch)?;
        for (place, operation) in self.operations.iter().enumerate() {
            operation.apply(&mut image, &mut key.rng(place as u32))?;
        }
        Ok(image)
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.steps().join("."))
    }
}

/// A size as the user writes it.
fn size_text((height, width): (u32, u32)) -> String {
    if height == width { height.to_string() } else { format!("({height}, {width})") }
}

/// The longest side a picture is cropped or resized to: that of the largest JPEG there can be.
const LONGEST_SIDE: u32 = 65_500;

/// Fails on a size nobody can mean.
fn check_size(operation: &str, (height, width): (u32, u32)) -> Result<()> {
    if height == 0 || width == 0 || height > LONGEST_SIDE || width > LONGEST_SIDE {
        return Err(Error::config(format!("{operation} to {height} x {width} is impossible"))
            .remedy(format!("give sizes between 1 and {LONGEST_SIDE}")));
    }
    Ok(())
}

/// Fails on a probability outside 0 to 1.
fn check_probability(operation: &str, p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        Ok(())
    } else {
        Err(Error::config(format!("{operation}: the probability {p} does not lie between 0 and 1")))
    }
}

#[cfg(test)]
mod tests {
    use forebay_store::Kind;
    use turbojpeg_sys as sys;

    use super::image::{Pixel, Rect};
    use super::*;

    /// A plain picture, for comparing what the lazy one shows.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Grid {
        pub width: u32,
        pub height: u32,
        pub pixels: Vec<[u8; 3]>,
    }

    impl Grid {
        /// A grid whose pixels `of` names, by column and row.
        pub fn new(width: u32, height: u32, of: impl Fn(u32, u32) -> [u8; 3]) -> Self {
            let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| of(x, y)).collect();
            Grid { width, height, pixels }
        }

        /// Noise: no two pixels are alike but by chance.
        pub fn noise(width: u32, height: u32, seed: u64) -> Self {
            Self::new(width, height, |x, y| {
                let word = Key::new(seed, x.into(), y.into()).rng(0).next_u64().to_le_bytes();
                [word[0], word[1], word[2]]
            })
        }

        pub fn at(&self, x: u32, y: u32) -> [u8; 3] {
            self.pixels[(y * self.width + x) as usize]
        }

        pub fn crop(&self, area: Rect) -> Self {
            Self::new(area.width, area.height, |x, y| self.at(area.x + x, area.y + y))
        }

        pub fn mirror(&self) -> Self {
            Self::new(self.width, self.height, |x, y| self.at(self.width - 1 - x, y))
        }

        pub fn flip(&self) -> Self {
            Self::new(self.width, self.height, |x, y| self.at(x, self.height - 1 - y))
        }

        pub fn transpose(&self) -> Self {
            Self::new(self.height, self.width, |x, y| self.at(y, x))
        }

        /// What is seen after `change`, which starts with this picture.
        pub fn show(&self, change: impl FnOnce(&mut Image<'_>) -> Result<()>) -> Self {
            let mut scratch = Scratch::default();
            let fill = |pixels: &mut [Pixel]| {
                pixels.iter_mut().zip(&self.pixels).for_each(|(to, &[r, g, b])| *to = [r, g, b, 9]);
                Ok(())
            };
            let mut image = Image::decoded(self.width, self.height, &mut scratch, fill).unwrap();
            change(&mut image).unwrap();
            Self::of(image)
        }

        /// What a picture shows.
        pub fn of(mut image: Image<'_>) -> Self {
            let (width, height) = (image.width(), image.height());
            let form = Form { size: Some((height, width)), layout: Layout::Nhwc, ..Form::decoded() };
            let mut slot = vec![0; form.sample_bytes().unwrap()];
            write::write(image.finish().unwrap(), &form, &mut slot).unwrap();
            Grid { width, height, pixels: slot.as_chunks::<3>().0.to_vec() }
        }

        /// What an operation makes of this picture, with the random numbers of `seed`.
        pub fn after(&self, operation: &impl Operation, seed: u64) -> Self {
            self.show(|image| operation.apply(image, &mut Key::new(seed, 0, 0).rng(0)))
        }
    }

    /// A JPEG of a grid; `subsampling` is a `TJSAMP`.
    pub fn jpeg(grid: &Grid, subsampling: sys::TJSAMP, quality: i32, is_progressive: bool) -> Vec<u8> {
        let set = |handle, parameter: sys::TJPARAM, value| {
            // SAFETY: sets a number in a live handle.
            assert_eq!(unsafe { sys::tj3Set(handle, parameter as i32, value) }, 0);
        };
        // SAFETY: the handle is live until it is destroyed, the pixels are three bytes each in rows without gaps,
        // and what the encoder allocated is copied before it is freed.
        unsafe {
            let handle = sys::tj3Init(sys::TJINIT_TJINIT_COMPRESS as i32);
            set(handle, sys::TJPARAM_TJPARAM_SUBSAMP, subsampling);
            set(handle, sys::TJPARAM_TJPARAM_QUALITY, quality);
            set(handle, sys::TJPARAM_TJPARAM_PROGRESSIVE, is_progressive.into());
            let (mut data, mut len) = (std::ptr::null_mut(), 0);
            let (width, height) = (grid.width as i32, grid.height as i32);
            let pixels = grid.pixels.as_flattened().as_ptr();
            let status = sys::tj3Compress8(handle, pixels, width, 0, height, sys::TJPF_TJPF_RGB, &mut data, &mut len);
            assert_eq!(status, 0);
            let bytes = std::slice::from_raw_parts(data, len as usize).to_vec();
            sys::tj3Free(data.cast());
            sys::tj3Destroy(handle);
            bytes
        }
    }

    /// A PPM of a grid.
    pub fn ppm(grid: &Grid) -> Vec<u8> {
        let mut file = format!("P6 {} {} 255\n", grid.width, grid.height).into_bytes();
        file.extend(grid.pixels.as_flattened());
        file
    }

    pub fn decoded() -> Pipeline {
        Pipeline::new(Decode::default())
    }

    pub fn normalized() -> Pipeline {
        decoded().then(Normalize::default()).unwrap()
    }

    /// Why an operation is refused after `pipeline`. Refusals are the user's to mend.
    pub fn refusal(pipeline: &Pipeline, operation: impl Operation + 'static) -> String {
        let error = pipeline.then(operation).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        error.to_string()
    }

    /// Holds what an operation prints and its fingerprint, after `pipeline`: the one is what users write and
    /// the other is what shared preparation and saved caches go by, so a change of either is breaking.
    #[track_caller]
    pub fn assert_written(pipeline: &Pipeline, operation: impl Operation + 'static, text: &str, fingerprint: u64) {
        let pipeline = pipeline.then(operation).unwrap();
        assert_eq!(pipeline.steps().last().unwrap(), text);
        let got = *pipeline.fingerprints().last().unwrap();
        assert_eq!(got, fingerprint, "{text} has {got:#018x}");
    }

    #[test]
    fn a_longer_pipeline_leaves_the_shorter_as_it_was() {
        let short = decoded();
        let long = short.then(CenterCrop { size: (4, 5) }).unwrap().then(Normalize::default()).unwrap();
        assert_eq!(short.to_string(), "decode()");
        assert_eq!(short.form(), &Form::decoded());
        assert_eq!(long.to_string(), "decode().center_crop((4, 5)).normalize()");
        assert_eq!(long.form().size, Some((4, 5)));
    }

    #[test]
    fn pipelines_share_fingerprints_up_to_their_first_difference() {
        let trunk = decoded().then(CenterCrop { size: (8, 8) }).unwrap();
        let left = trunk.then(HorizontalFlip { p: 0.5 }).unwrap().then(Normalize::default()).unwrap();
        let right = trunk.then(HorizontalFlip { p: 0.4 }).unwrap().then(Normalize::default()).unwrap();
        let (left, right) = (left.fingerprints(), right.fingerprints());
        assert_eq!(left[..2], trunk.fingerprints());
        assert_eq!(left[..2], right[..2]);
        assert!(left[2..].iter().all(|fingerprint| !right.contains(fingerprint)));
    }

    #[test]
    fn a_slot_has_the_shape_and_the_bytes_of_its_form() {
        let form = |dtype, layout| Form { size: Some((4, 5)), dtype, layout, ..Form::decoded() };
        assert_eq!(form(Dtype::U8, Layout::Nchw).shape(), Some([3, 4, 5]));
        assert_eq!(form(Dtype::U8, Layout::Nhwc).shape(), Some([4, 5, 3]));
        let bytes = [Dtype::U8, Dtype::F16, Dtype::Bf16, Dtype::F32].map(|d| form(d, Layout::Nchw).sample_bytes());
        assert_eq!(bytes, [Some(60), Some(120), Some(120), Some(240)]);
        assert_eq!((Form::decoded().shape(), Form::decoded().sample_bytes()), (None, None));
    }

    /// A pipeline that draws wherever it can.
    fn restless() -> Pipeline {
        let half = (0.5, 1.5);
        let jitter = ColorJitter { brightness: half, contrast: half, saturation: half, hue: (-0.1, 0.1) };
        let padding = image::Sides { left: 3, top: 3, right: 3, bottom: 3 };
        let crop =
            RandomCrop { size: (20, 24), padding, pad_if_needed: true, fill: [1, 2, 3], mode: PaddingMode::Edge };
        let pipeline = decoded().then(crop).unwrap().then(RandomResizedCrop::new((16, 12))).unwrap();
        let pipeline = pipeline.then(HorizontalFlip { p: 0.5 }).unwrap().then(VerticalFlip { p: 0.5 }).unwrap();
        let pipeline = pipeline.then(jitter).unwrap().then(Grayscale { channels: 3, p: 0.2 }).unwrap();
        let erasing = RandomErasing { value: Erase::Noise, ..RandomErasing::default() };
        pipeline.then(Normalize::default()).unwrap().then(erasing).unwrap()
    }

    #[test]
    fn a_sample_depends_on_its_key_alone_and_not_on_what_the_worker_did_before() {
        let files: Vec<_> = (0..6).map(|i| ppm(&Grid::noise(20 + 9 * i, 50 - 7 * i, i.into()))).collect();
        let pipeline = restless();
        let bytes = pipeline.form().sample_bytes().unwrap();
        let prepare = |file: usize, sample: u64, scratch: &mut Scratch| {
            let mut slot = vec![0x55; bytes];
            pipeline.prepare(&files[file], Key::new(7, 3, sample), scratch, &mut slot).unwrap();
            slot
        };
        let mut worn = Scratch::default();
        let mut met = std::collections::HashSet::new();
        for sample in 0..60 {
            for file in 0..files.len() {
                let fresh = prepare(file, sample, &mut Scratch::default());
                assert_eq!(prepare(file, sample, &mut worn), fresh, "sample {sample} of file {file}");
                assert!(met.insert(fresh), "sample {sample} of file {file} is another's double");
            }
        }
    }

    #[test]
    fn equal_operations_at_two_places_draw_apart() {
        let flips = |n| (0..n).fold(decoded(), |pipeline, _| pipeline.then(HorizontalFlip { p: 0.5 }).unwrap());
        let file = ppm(&Grid::noise(4, 1, 0));
        let straight = |pipeline: &Pipeline, sample| {
            let key = Key::new(0, 0, sample);
            let (got, _) = pipeline.prepare_alone(&file, key, &mut Scratch::default()).unwrap();
            got == decoded().prepare_alone(&file, key, &mut Scratch::default()).unwrap().0
        };
        // Two flips that drew alike would always cancel.
        let cancelled = (0..400).filter(|&sample| straight(&flips(2), sample)).count();
        assert!((140..260).contains(&cancelled), "{cancelled} of 400");
    }

    #[test]
    fn a_slot_of_another_size_is_refused_and_left_alone() {
        let pipeline = decoded().then(CenterCrop { size: (4, 4) }).unwrap();
        let file = ppm(&Grid::noise(4, 4, 0));
        let mut slot = vec![7; 47];
        let error = pipeline.prepare(&file, Key::new(0, 0, 0), &mut Scratch::default(), &mut slot).unwrap_err();
        assert_eq!(error.kind(), Kind::Internal);
        assert!(slot.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn alone_a_sample_comes_as_large_as_it_is() {
        let (slot, form) =
            decoded().prepare_alone(&ppm(&Grid::noise(5, 3, 1)), Key::new(0, 0, 0), &mut Scratch::default()).unwrap();
        assert_eq!((form.size, slot.len()), (Some((3, 5)), 45));
    }

    #[test]
    fn sizes_nobody_can_mean_are_refused() {
        for size in [(0, 5), (5, 0), (65_501, 5), (5, u32::MAX)] {
            let text = refusal(&decoded(), CenterCrop { size });
            assert_eq!(
                text,
                format!("center_crop() to {} x {} is impossible; give sizes between 1 and 65500", size.0, size.1)
            );
        }
    }

    #[test]
    fn probabilities_outside_of_0_to_1_are_refused() {
        for p in [-0.1, 1.1, f64::NAN] {
            let text = refusal(&decoded(), HorizontalFlip { p });
            assert_eq!(text, format!("horizontal_flip(): the probability {p} does not lie between 0 and 1"));
        }
    }
}
