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

/// Fails on a size nobody can mean.
fn check_size(operation: &str, (height, width): (u32, u32)) -> Result<()> {
    if height == 0 || width == 0 || height > 65_500 || width > 65_500 {
        return Err(Error::config(format!("{operation} to {height} x {width} is impossible"))
            .remedy("give sizes between 1 and 65500"));
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
