//! Listings and plans.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_policy::{BatchSpec, Batches, Order, Shard};
use forebay_store::format;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::errors::{config, raise};

#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Folder(pub Arc<format::Folder>);

#[pymethods]
impl Folder {
    #[new]
    fn new(py: Python<'_>, root: PathBuf) -> PyResult<Self> {
        let folder = py.detach(|| format::Folder::open(root)).map_err(|e| raise(py, &e))?;
        Ok(Folder(Arc::new(folder)))
    }

    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)] // Python hands over lists
    fn listed(classes: Vec<String>, samples: Vec<(PathBuf, u32)>) -> Self {
        let samples = samples.iter().map(|(path, label)| (path.as_path(), *label));
        Folder(Arc::new(format::Folder::from_listing("", classes, samples)))
    }

    #[getter]
    fn root(&self) -> OsString {
        self.0.root().as_os_str().to_owned()
    }

    #[getter]
    fn classes(&self) -> Vec<String> {
        self.0.classes().to_vec()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn path(&self, index: u64) -> PyResult<OsString> {
        self.check(index)?;
        Ok(self.0.path(index).into_os_string())
    }

    fn label(&self, index: u64) -> PyResult<u32> {
        self.check(index)?;
        Ok(self.0.label(index))
    }

    fn fingerprint(&self) -> u64 {
        self.0.fingerprint()
    }
}

impl Folder {
    pub fn check(&self, index: u64) -> PyResult<()> {
        if index < self.0.len() as u64 {
            return Ok(());
        }
        Err(PyIndexError::new_err(format!("sample {index} of a dataset of {}", self.0.len())))
    }
}

#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Plan(pub Batches);

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(signature = (n, *, shuffle, seed, epoch, batch_size, rank, world_size, drop_last, start))]
    #[allow(clippy::too_many_arguments)] // keywords of a Python constructor
    fn new(
        py: Python<'_>,
        n: u64,
        shuffle: bool,
        seed: u64,
        epoch: u64,
        batch_size: u32,
        rank: u32,
        world_size: u32,
        drop_last: bool,
        start: u64,
    ) -> PyResult<Self> {
        let order = if shuffle { Order::shuffled(n, seed, epoch) } else { Order::sequential(n) };
        let shard = Shard::new(rank, world_size).map_err(|e| config(py, e.to_string()))?;
        let batches = Batches::new(BatchSpec { order, batch_size, shard, drop_last, start })
            .map_err(|e| config(py, e.to_string()))?;
        Ok(Plan(batches))
    }

    fn __len__(&self) -> usize {
        self.0.len() as usize
    }

    fn batch(&self, index: u64) -> PyResult<Vec<u64>> {
        let beyond = || PyIndexError::new_err(format!("batch {index} of a plan of {}", self.0.len()));
        let mut samples = Vec::new();
        self.0.batch(index).ok_or_else(beyond)?.fill(&mut samples);
        Ok(samples)
    }

    fn consumed(&self, batches: u64) -> u64 {
        self.0.consumed(batches)
    }
}
