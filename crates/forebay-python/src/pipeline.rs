//! Operations by their Python names.

use std::sync::Arc;

use forebay_engine::prepare::image::Sides;
use forebay_engine::prepare::{
    self, CenterCrop, ColorJitter, Decode, Dtype, Erase, Grayscale, HorizontalFlip, Interpolation, Layout, Normalize,
    Operation, Orientation, PaddingMode, RandomCrop, RandomErasing, RandomResizedCrop, Resize, Scaling, Scratch,
    Target, To, VerticalFlip,
};
use forebay_policy::Key;
use forebay_store::source;
use pyo3::prelude::*;

use crate::array::{Array, Owner};
use crate::dataset::Folder;
use crate::errors::{config, raise};

type Range = (f64, f64);

#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Pipeline(pub prepare::Pipeline);

impl Pipeline {
    fn then(&self, py: Python<'_>, operation: impl Operation + 'static) -> PyResult<Self> {
        self.0.then(operation).map(Pipeline).map_err(|e| raise(py, &e))
    }
}

/// The value of a name in a table, or an error that lists the names.
fn named<T: Copy>(py: Python<'_>, what: &str, name: &str, table: &[(&str, T)]) -> PyResult<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = table.iter().map(|(known, _)| *known).collect();
        config(py, format!("{what} {name:?} is unknown; give one of {}", names.join(", ")))
    })
}

fn interpolation(py: Python<'_>, name: &str) -> PyResult<Interpolation> {
    let table = [
        ("nearest", Interpolation::Nearest),
        ("bilinear", Interpolation::Bilinear),
        ("bicubic", Interpolation::Bicubic),
        ("box", Interpolation::Box),
        ("hamming", Interpolation::Hamming),
        ("lanczos", Interpolation::Lanczos),
    ];
    named(py, "the interpolation", name, &table)
}

#[derive(FromPyObject)]
enum Size {
    Side(u32),
    Both(u32, u32),
}

#[pymethods]
impl Pipeline {
    #[new]
    #[pyo3(signature = (*, orientation=false, max_pixels=None, scaling="exact"))]
    fn new(py: Python<'_>, orientation: bool, max_pixels: Option<u64>, scaling: &str) -> PyResult<Self> {
        let plain = Decode::default();
        Ok(Pipeline(prepare::Pipeline::new(Decode {
            orientation: if orientation { Orientation::Upright } else { Orientation::AsStored },
            max_pixels: max_pixels.unwrap_or(plain.max_pixels),
            scaling: named(py, "the scaling", scaling, &[("exact", Scaling::Exact), ("fast", Scaling::Fast)])?,
        })))
    }

    #[pyo3(signature = (size, *, interpolation, max_size))]
    fn resize(&self, py: Python<'_>, size: Size, interpolation: &str, max_size: Option<u32>) -> PyResult<Self> {
        let target = match (size, max_size) {
            (Size::Side(side), most) => Target::Shorter { side, most },
            (Size::Both(height, width), None) => Target::Size(height, width),
            (Size::Both(..), Some(_)) => {
                return Err(config(
                    py,
                    "resize(): max_size goes with a single number as size, not with (height, width)",
                ));
            }
        };
        self.then(py, Resize { target, interpolation: self::interpolation(py, interpolation)? })
    }

    fn center_crop(&self, py: Python<'_>, size: (u32, u32)) -> PyResult<Self> {
        self.then(py, CenterCrop { size })
    }

    #[pyo3(signature = (size, *, padding, pad_if_needed, fill, padding_mode))]
    fn random_crop(
        &self,
        py: Python<'_>,
        size: (u32, u32),
        padding: (u32, u32, u32, u32),
        pad_if_needed: bool,
        fill: [u8; 3],
        padding_mode: &str,
    ) -> PyResult<Self> {
        let (left, top, right, bottom) = padding;
        let modes = [
            ("constant", PaddingMode::Constant),
            ("edge", PaddingMode::Edge),
            ("reflect", PaddingMode::Reflect),
            ("symmetric", PaddingMode::Symmetric),
        ];
        let mode = named(py, "the padding mode", padding_mode, &modes)?;
        self.then(py, RandomCrop { size, padding: Sides { left, top, right, bottom }, pad_if_needed, fill, mode })
    }

    #[pyo3(signature = (size, *, scale, ratio, interpolation))]
    fn random_resized_crop(
        &self,
        py: Python<'_>,
        size: (u32, u32),
        scale: Range,
        ratio: Range,
        interpolation: &str,
    ) -> PyResult<Self> {
        self.then(py, RandomResizedCrop { size, scale, ratio, interpolation: self::interpolation(py, interpolation)? })
    }

    fn horizontal_flip(&self, py: Python<'_>, p: f64) -> PyResult<Self> {
        self.then(py, HorizontalFlip { p })
    }

    fn vertical_flip(&self, py: Python<'_>, p: f64) -> PyResult<Self> {
        self.then(py, VerticalFlip { p })
    }

    #[pyo3(signature = (*, brightness, contrast, saturation, hue))]
    fn color_jitter(
        &self,
        py: Python<'_>,
        brightness: Range,
        contrast: Range,
        saturation: Range,
        hue: Range,
    ) -> PyResult<Self> {
        self.then(py, ColorJitter { brightness, contrast, saturation, hue })
    }

    #[pyo3(signature = (num_output_channels, *, p))]
    fn grayscale(&self, py: Python<'_>, num_output_channels: u32, p: f64) -> PyResult<Self> {
        self.then(py, Grayscale { channels: num_output_channels, p })
    }

    #[pyo3(signature = (*, p, scale, ratio, value))]
    fn random_erasing(
        &self,
        py: Python<'_>,
        p: f64,
        scale: Range,
        ratio: Range,
        value: Option<Vec<f32>>,
    ) -> PyResult<Self> {
        self.then(py, RandomErasing { p, scale, ratio, value: value.map_or(Erase::Noise, Erase::Values) })
    }

    fn normalize(&self, py: Python<'_>, mean: Vec<f32>, std: Vec<f32>) -> PyResult<Self> {
        self.then(py, Normalize { mean, std })
    }

    #[pyo3(signature = (dtype, *, layout))]
    fn to(&self, py: Python<'_>, dtype: Option<&str>, layout: Option<&str>) -> PyResult<Self> {
        let dtypes = [Dtype::U8, Dtype::F16, Dtype::Bf16, Dtype::F32].map(|dtype| (dtype.name(), dtype));
        let dtype = dtype.map(|name| named(py, "the dtype", name, &dtypes)).transpose()?;
        let layout = layout
            .map(|name| named(py, "the layout", name, &[("NCHW", Layout::Nchw), ("NHWC", Layout::Nhwc)]))
            .transpose()?;
        self.then(py, To { dtype, layout })
    }

    #[getter]
    fn steps(&self) -> Vec<String> {
        self.0.steps()
    }

    #[getter]
    fn fingerprints(&self) -> Vec<u64> {
        self.0.fingerprints()
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.form().dtype.name()
    }

    #[getter]
    fn layout(&self) -> &'static str {
        match self.0.form().layout {
            Layout::Nchw => "NCHW",
            Layout::Nhwc => "NHWC",
        }
    }

    #[getter]
    fn channels(&self) -> u32 {
        self.0.form().channels
    }

    #[getter]
    fn size(&self) -> Option<(u32, u32)> {
        self.0.form().size
    }

    #[pyo3(signature = (folder, index, *, seed, epoch))]
    fn sample(&self, py: Python<'_>, folder: &Folder, index: u64, seed: u64, epoch: u64) -> PyResult<(Array, u32)> {
        folder.check(index)?;
        let path = folder.0.path(index);
        let prepare = || {
            let bytes = source::read_file(&path, |_| Ok(Vec::new()))?;
            self.0
                .prepare_alone(&bytes, Key::new(seed, epoch, index), &mut Scratch::default())
                .map_err(|e| e.at(&path).sample(index))
        };
        let (data, form) = py.detach(prepare).map_err(|e| raise(py, &e))?;
        let shape = form.shape().map(|shape| shape.to_vec()).unwrap_or_default();
        let array = Array::new(Arc::new(Owner::Bytes(data.into())), 0, form.dtype.name(), shape);
        Ok((array, folder.0.label(index)))
    }
}
