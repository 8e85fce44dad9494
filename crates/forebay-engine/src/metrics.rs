//! What a job counts about itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters of one job, added to by its workers.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub samples: AtomicU64,
    pub batches: AtomicU64,
    pub bytes: AtomicU64,
    pub errors: AtomicU64,
    fetch: AtomicU64,
    prepare: AtomicU64,
    consumer: AtomicU64,
}

/// A step whose time is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Fetch,
    Prepare,
    Consumer,
}

impl Metrics {
    /// Adds the time since `start` to a step.
    pub fn spent(&self, step: Step, start: Instant) {
        let counter = match step {
            Step::Fetch => &self.fetch,
            Step::Prepare => &self.prepare,
            Step::Consumer => &self.consumer,
        };
        counter.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn read(&self) -> Stats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            samples: load(&self.samples),
            batches: load(&self.batches),
            bytes: load(&self.bytes),
            errors: load(&self.errors),
            fetching: Duration::from_nanos(load(&self.fetch)),
            preparing: Duration::from_nanos(load(&self.prepare)),
            consumer_waited: Duration::from_nanos(load(&self.consumer)),
        }
    }
}

/// What a job has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Samples delivered.
    pub samples: u64,
    /// Batches delivered.
    pub batches: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Samples that could not be prepared.
    pub errors: u64,
    /// Time readers spent reading, summed over them.
    pub fetching: Duration,
    /// Time workers spent preparing, summed over them.
    pub preparing: Duration,
    /// Time the consumer waited for a batch.
    pub consumer_waited: Duration,
}
