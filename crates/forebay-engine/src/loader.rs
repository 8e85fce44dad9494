//! What outlives an epoch: the dataset, the pipeline, the workers and the arena.

use std::sync::Arc;

use forebay_store::arena::{Arena, Hooks};
use forebay_store::format::Folder;
use forebay_store::{Error, Kind, Result, fork};

use crate::pool::Pool;
use crate::prepare::Pipeline;

/// How a loader may use the machine.
#[derive(Debug, Clone)]
pub struct LoaderSpec {
    /// Threads that prepare samples; 0 prepares them in the thread that asks for batches.
    pub workers: usize,
    /// Threads that read files: as many reads are in flight at once.
    pub readers: usize,
    /// Samples in the largest batch that is expected.
    pub batch_size: usize,
    /// The most bytes that batches and files in flight may take.
    pub ram_budget: u64,
    /// What to do with the memory of batches; used to page-lock it.
    pub hooks: Hooks,
}

impl Default for LoaderSpec {
    fn default() -> Self {
        LoaderSpec { workers: 1, readers: 8, batch_size: 1, ram_budget: 1 << 30, hooks: Hooks::default() }
    }
}

/// A dataset with its pipeline, ready to be walked by any number of jobs.
#[derive(Debug)]
pub struct Loader {
    pub(crate) dataset: Arc<Folder>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) pool: Pool,
    pub(crate) arena: Arena,
    pub(crate) spec: LoaderSpec,
}

/// Files in flight get a quarter of the budget, but no more than this: enough to keep any disk busy.
const MOST_IN_FLIGHT: u64 = 256 << 20;

impl Loader {
    /// Starts the workers. Nothing is read yet.
    pub fn new(dataset: Arc<Folder>, pipeline: Pipeline, spec: LoaderSpec) -> Result<Self> {
        let in_flight = (spec.ram_budget / 4).min(MOST_IN_FLIGHT);
        let arena = arena(&pipeline, &spec, spec.batch_size)?;
        let pool = Pool::start(spec.workers, spec.readers, in_flight)?;
        Ok(Loader { dataset, pipeline: Arc::new(pipeline), pool, arena, spec })
    }

    /// Whether this is a fork of the process that started the workers: then nothing would ever come.
    pub fn is_foreign(&self) -> bool {
        self.pool.born != fork::generation()
    }

    /// An arena for larger batches than the loader expected.
    pub(crate) fn larger_arena(&self, batch_size: usize) -> Result<Arena> {
        arena(&self.pipeline, &self.spec, batch_size)
    }
}

/// An arena whose slabs hold a batch, as many as the budget allows.
fn arena(pipeline: &Pipeline, spec: &LoaderSpec, batch_size: usize) -> Result<Arena> {
    let Some(sample) = pipeline.form().sample_bytes() else {
        return Err(Error::config("the pictures of a batch would have different sizes")
            .remedy("end the pipeline with resize((height, width)), center_crop, random_crop or random_resized_crop"));
    };
    let slab = slab_bytes(sample, batch_size);
    let budget = spec.ram_budget - (spec.ram_budget / 4).min(MOST_IN_FLIGHT);
    let limit = budget / slab as u64;
    if limit < 2 {
        return Err(Error::new(
            Kind::OverBudget,
            format!("ram_budget must hold two batches of {:.1} MB beside the files being read", slab as f64 / 1e6),
        )
        .remedy("raise ram_budget or lower batch_size"));
    }
    Ok(Arena::new(slab, limit.min(1 << 16) as usize, spec.hooks))
}

/// Bytes of a batch: its pictures, then its labels on a boundary of their own.
fn slab_bytes(sample: usize, batch_size: usize) -> usize {
    labels_offset(sample, batch_size) + batch_size * size_of::<i64>()
}

/// Where the labels of a batch lie.
pub(crate) fn labels_offset(sample: usize, batch_size: usize) -> usize {
    (sample * batch_size).next_multiple_of(64)
}
