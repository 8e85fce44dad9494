//! Loaders, jobs and batches.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_engine as engine;
use forebay_engine::{Error, Kind, LoaderSpec, Next, OnError};
use forebay_store::fork::{self, Bound as OfThisProcess};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{Array, Owner};
use crate::dataset::{Folder, Plan};
use crate::errors::{config, raise};
use crate::pin;
use crate::pipeline::Pipeline;

#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Loader(OfThisProcess<Arc<engine::Loader>>);

#[pymethods]
impl Loader {
    #[new]
    #[pyo3(signature = (folder, pipeline, *, workers, readers, batch_size, ram_budget, pin))]
    #[allow(clippy::too_many_arguments)] // keywords of a Python constructor
    fn new(
        py: Python<'_>,
        folder: &Folder,
        pipeline: &Pipeline,
        workers: usize,
        readers: usize,
        batch_size: usize,
        ram_budget: u64,
        pin: bool,
    ) -> PyResult<Self> {
        let hooks = if pin { pin::hooks() } else { Default::default() };
        let spec = LoaderSpec { workers, readers, batch_size, ram_budget, hooks };
        let loader = engine::Loader::new(Arc::clone(&folder.0), pipeline.0.clone(), spec).map_err(|e| raise(py, &e))?;
        Ok(Loader(OfThisProcess::new(Arc::new(loader))))
    }

    #[getter]
    fn is_foreign(&self) -> bool {
        self.0.is_foreign()
    }
}

/// How long a wait lasts before Python may handle a signal.
const SLICE: Duration = Duration::from_millis(50);

#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Job {
    job: OfThisProcess<Mutex<engine::Job>>,
    watch: OfThisProcess<engine::Watch>,
    feed: Option<Py<PyAny>>,
    timeout: Option<Duration>,
    born: u64,
}

#[pymethods]
impl Job {
    #[new]
    #[pyo3(signature = (loader, *, seed, epoch, lookahead, in_order, on_error, error_budget, plan=None, feed=None, start=0, timeout=0.0))]
    #[allow(clippy::too_many_arguments)] // keywords of a Python constructor
    fn new(
        py: Python<'_>,
        loader: &Loader,
        seed: u64,
        epoch: u64,
        lookahead: usize,
        in_order: bool,
        on_error: &str,
        error_budget: u64,
        plan: Option<&Plan>,
        feed: Option<Py<PyAny>>,
        start: u64,
        timeout: f64,
    ) -> PyResult<Self> {
        let on_error = match on_error {
            "raise" => OnError::Raise,
            "skip" => OnError::Skip(error_budget),
            "replace" => OnError::Replace(error_budget),
            other => return Err(config(py, format!("on_error {other:?} is unknown; give raise, skip or replace"))),
        };
        if plan.is_some() == feed.is_some() {
            return Err(config(py, "a job follows a plan or is fed, one of the two"));
        }
        let spec = engine::JobSpec { seed, epoch, lookahead, in_order, on_error, start };
        let job = engine::Job::new(&loader.0, spec, plan.map(|plan| plan.0.clone())).map_err(|e| raise(py, &e))?;
        Ok(Job {
            watch: OfThisProcess::new(job.watch()),
            job: OfThisProcess::new(Mutex::new(job)),
            feed,
            timeout: (timeout > 0.0).then(|| Duration::from_secs_f64(timeout)),
            born: fork::generation(),
        })
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let start = Instant::now();
        loop {
            self.serve(py)?;
            let slice = self.timeout.map_or(SLICE, |timeout| timeout.min(SLICE));
            let next = py.detach(|| self.with(|job| job.next(slice)));
            match next.and_then(|next| next).map_err(|e| raise(py, &e))? {
                Next::Batch(batch) => return Ok(Some(Batch(Arc::new(Owner::Batch(batch))))),
                Next::End => return Ok(None),
                Next::Waiting => py.check_signals()?,
            }
            if let Some(timeout) = self.timeout.filter(|timeout| start.elapsed() > *timeout) {
                let late = Error::new(
                    Kind::Unavailable,
                    format!("no batch came within the timeout of {} seconds", timeout.as_secs_f64()),
                );
                return Err(raise(py, &late.remedy("raise timeout, or look at stats() for the slow step")));
            }
        }
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.watch.stats();
        let (all, waits) = (PyDict::new(py), PyDict::new(py));
        all.set_item("samples", stats.samples)?;
        all.set_item("batches", stats.batches)?;
        all.set_item("bytes", stats.bytes)?;
        all.set_item("errors", stats.errors)?;
        waits.set_item("fetch", stats.fetching.as_secs_f64())?;
        waits.set_item("prepare", stats.preparing.as_secs_f64())?;
        waits.set_item("consumer", stats.consumer_waited.as_secs_f64())?;
        all.set_item("waits", waits)?;
        Ok(all)
    }

    fn losses(&self) -> Vec<(u64, OsString, Option<u64>, String)> {
        let losses = self.watch.losses().into_iter();
        losses.map(|loss| (loss.sample, loss.path.into_os_string(), loss.replaced_by, loss.reason)).collect()
    }

    fn cancel(&self) {
        if self.born == fork::generation() {
            self.watch.cancel();
        }
    }
}

impl Job {
    /// Runs `act` on the engine's job, unless this is a fork of its process, where its lock may be held for ever.
    fn with<T>(&self, act: impl FnOnce(&mut engine::Job) -> T) -> engine::Result<T> {
        if self.job.is_foreign() {
            return Err(Error::config("this iterator was made before a fork, and its threads stayed with the parent")
                .remedy("call iter() on the loader again in the child"));
        }
        Ok(act(&mut self.job.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Asks Python for samples while the job wants more.
    fn serve(&self, py: Python<'_>) -> PyResult<()> {
        let Some(feed) = &self.feed else { return Ok(()) };
        while self.with(|job| job.wants_feeding()).map_err(|e| raise(py, &e))? {
            let samples: Vec<u64> = feed.call0(py)?.extract(py)?;
            self.with(|job| job.feed(samples)).and_then(|fed| fed).map_err(|e| raise(py, &e))?;
        }
        Ok(())
    }
}

#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Batch(Arc<Owner>);

impl Batch {
    fn inner(&self) -> &engine::Batch {
        match &*self.0 {
            Owner::Batch(batch) => batch,
            Owner::Bytes(_) => unreachable!("a batch is made over a slab"),
        }
    }
}

#[pymethods]
impl Batch {
    #[getter]
    fn images(&self) -> Array {
        let batch = self.inner();
        let mut shape = vec![batch.len()];
        shape.extend(batch.form().shape().into_iter().flatten());
        Array::new(Arc::clone(&self.0), 0, batch.form().dtype.name(), shape)
    }

    #[getter]
    fn labels(&self) -> Array {
        let batch = self.inner();
        Array::new(Arc::clone(&self.0), batch.labels_offset(), "i64", vec![batch.len()])
    }

    #[getter]
    fn samples(&self) -> Vec<u64> {
        self.inner().samples().to_vec()
    }

    #[getter]
    fn end(&self) -> u64 {
        self.inner().end()
    }

    fn __len__(&self) -> usize {
        self.inner().len()
    }
}
