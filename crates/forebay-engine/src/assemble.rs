//! Step 6, assemble: slots become a batch, complete when its last slot is settled.
//!
//! Which sample lies in which slot is fixed before the first is fetched, so samples may arrive in any
//! order and the batch is the same, to the bit, every time.
//!
//! **Invariant:** each slot is claimed by one reader, once, and travels with its bytes to one worker; nobody
//! else touches its part of the slab until the batch is complete.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crossbeam_channel::Sender;

use forebay_policy::sample::Key;
use forebay_store::arena::Slab;
use forebay_store::fork::Bound;
use forebay_store::format::Folder;
use forebay_store::{Error, Kind, Result};

use crate::loader::labels_offset;
use crate::metrics::{Metrics, Step};
use crate::prepare::{Pipeline, Scratch};

/// What happens when a sample cannot be prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The batch it belongs to is an error.
    Raise,
    /// The batch comes without it, unless more than this many are lost in the job.
    Skip(u64),
    /// Another sample, the same every time, takes its place, unless more than this many are lost in the job.
    Replace(u64),
}

/// A sample that was lost, and why.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Its number.
    pub sample: u64,
    /// Its file.
    pub path: PathBuf,
    /// Which sample took its place.
    pub replaced_by: Option<u64>,
    /// Why it was lost.
    pub reason: String,
}

/// What the batches of a job have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub dataset: Arc<Folder>,
    pub pipeline: Arc<Pipeline>,
    pub metrics: Metrics,
    pub on_error: OnError,
    pub cancelled: AtomicBool,
    pub losses: Mutex<Vec<Loss>>,
    /// Bound to the process: a batch dropped in a forked child must not touch the channel's locks.
    pub complete: Bound<Sender<Arc<Assembly>>>,
}

/// A batch in the making.
#[derive(Debug)]
pub(crate) struct Assembly {
    pub job: Arc<Common>,
    /// Its place among the batches of the job.
    pub number: u64,
    /// Where it ends in the epoch, for resuming after it.
    pub end: u64,
    pub slab: Slab,
    samples: Vec<AtomicU64>,
    keys: Keys,
    claimed: AtomicUsize,
    open: AtomicUsize,
    failed: Mutex<Vec<Failure>>,
}

/// How the randomness of a batch's samples is keyed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    pub seed: u64,
    pub epoch: u64,
    /// The position of the batch's first sample, where samples may repeat within an epoch.
    pub repeats_from: Option<u64>,
}

/// A slot that holds nothing.
#[derive(Debug)]
pub(crate) struct Failure {
    pub slot: usize,
    /// `None` where the loss is accepted.
    pub error: Option<Error>,
}

/// How many substitutes are tried for one sample.
const SUBSTITUTES: u64 = 16;

impl Assembly {
    pub fn new(job: Arc<Common>, number: u64, end: u64, slab: Slab, samples: &[u64], keys: Keys) -> Self {
        Assembly {
            job,
            number,
            end,
            slab,
            samples: samples.iter().copied().map(AtomicU64::new).collect(),
            keys,
            claimed: AtomicUsize::new(0),
            open: AtomicUsize::new(samples.len()),
            failed: Mutex::new(Vec::new()),
        }
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// The next slot nobody works on.
    pub fn claim(&self) -> Option<usize> {
        let slot = self.claimed.fetch_add(1, Ordering::Relaxed);
        (slot < self.len()).then_some(slot)
    }

    /// The sample of a slot.
    pub fn sample(&self, slot: usize) -> u64 {
        self.samples[slot].load(Ordering::Relaxed)
    }

    /// Whether nobody wants the batch any more.
    pub fn is_cancelled(&self) -> bool {
        self.job.cancelled.load(Ordering::Relaxed)
    }

    /// Prepares a sample into its slot. A panic of an operation is an error of the sample.
    pub fn fill(&self, slot: usize, sample: u64, bytes: &[u8], scratch: &mut Scratch) -> Result<()> {
        let start = Instant::now();
        let job = &self.job;
        let key = match self.keys.repeats_from {
            None => Key::new(self.keys.seed, self.keys.epoch, sample),
            Some(position) => Key::at(self.keys.seed, self.keys.epoch, sample, position + slot as u64),
        };
        let size = self.sample_bytes();
        // SAFETY: this slot was claimed once and only its worker gets here; the label's bytes are its own too.
        let (picture, label) = unsafe {
            (self.slab.slot(slot * size, size), self.slab.slot(labels_offset(size, self.len()) + slot * 8, 8))
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| job.pipeline.prepare(bytes, key, scratch, picture)))
            .unwrap_or_else(|panic| {
                *scratch = Scratch::default();
                let reason = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied());
                Err(Error::new(
                    Kind::Internal,
                    format!("preparing the sample panicked: {}", reason.unwrap_or("no reason given")),
                ))
            });
        label.copy_from_slice(&i64::from(job.dataset.label(sample)).to_ne_bytes());
        self.samples[slot].store(sample, Ordering::Relaxed);
        job.metrics.spent(Step::Prepare, start);
        outcome.map_err(|error| error.at(&job.dataset.path(sample)))
    }

    /// Notes that a sample meant for a slot is lost, and names a substitute if there is to be one.
    pub fn lose(&self, slot: usize, sample: u64, attempt: u64, error: Error) -> Option<u64> {
        let error = error.sample(sample);
        let lost = self.job.metrics.errors.fetch_add(1, Ordering::Relaxed) + 1;
        let (budget, is_replaced) = match self.job.on_error {
            OnError::Raise => return self.fail(slot, Some(error)),
            OnError::Skip(budget) => (budget, false),
            OnError::Replace(budget) => (budget, attempt < SUBSTITUTES),
        };
        if lost > budget {
            let reason = format!(
                "{lost} samples could not be prepared, more than on_error allows; the last: {}",
                error.message()
            );
            let over = Error::new(Kind::OverBudget, reason)
                .sample(sample)
                .remedy("repair the dataset or raise the budget of on_error");
            let over = match error.path() {
                Some(path) => over.at(path),
                None => over,
            };
            return self.fail(slot, Some(over.because(error)));
        }
        let substitute = is_replaced.then(|| self.substitute(sample, attempt));
        let loss =
            Loss { sample, path: self.job.dataset.path(sample), replaced_by: substitute, reason: error.to_string() };
        self.job.losses.lock().unwrap_or_else(PoisonError::into_inner).push(loss);
        match substitute {
            Some(substitute) => Some(substitute),
            None => self.fail(slot, None),
        }
    }

    /// The sample that stands in for another: drawn by the lost one's key, so the same every time.
    fn substitute(&self, lost: u64, attempt: u64) -> u64 {
        let mut rng = Key::at(self.keys.seed, self.keys.epoch, lost, attempt).rng(u32::MAX);
        rng.below(self.job.dataset.len() as u64)
    }

    fn fail(&self, slot: usize, error: Option<Error>) -> Option<u64> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).push(Failure { slot, error });
        None
    }

    /// Counts a slot as done; the last one completes the batch.
    pub fn settled(self: &Arc<Self>) {
        // Release what this slot wrote; whoever counts down to zero acquires what all others wrote.
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Nobody listens once the job is gone, and then nobody minds.
            let _ = self.job.complete.send(Arc::clone(self));
        }
    }

    /// The slots that hold nothing, in order.
    pub fn take_failures(&self) -> Vec<Failure> {
        let mut failed = std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner));
        failed.sort_by_key(|failure| failure.slot);
        failed
    }

    /// The samples by slot.
    pub fn samples(&self) -> Vec<u64> {
        (0..self.len()).map(|slot| self.sample(slot)).collect()
    }

    /// Bytes of one slot.
    pub fn sample_bytes(&self) -> usize {
        self.job.pipeline.form().sample_bytes().expect("a loader is made only for pictures of one size")
    }
}
