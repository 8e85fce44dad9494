//! A job: one walk over a dataset, batch by batch.
//!
//! This is the walk of a sample:
//!
//! | # | step | here |
//! | --- | --- | --- |
//! | 1 | sample | the plan's [`Order`](forebay_policy::sample::Order) says which sample stands at a position |
//! | 2 | plan | [`Batches`] says which positions make the next batch of this rank; `start` leases its slab |
//! | 3 | fetch | readers of the pool claim its slots and read the files (`fetch.rs`) |
//! | 5 | prepare | workers decode each straight into its slot (`prepare/`) |
//! | 6 | assemble | the last slot completes the batch (`assemble.rs`) |
//! | 7 | deliver | the consumer takes it, in order or as it comes (`deliver.rs`) |
//!
//! (Step 4, the cache, is not built yet: every sample is read from its source.)
//!
//! The consumer drives: each time it takes a batch, the next one is started, so that `lookahead` batches
//! are under way whenever it is busy elsewhere. A consumer that stops stops the job; nothing piles up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;

use forebay_policy::plan::Batches;
use forebay_store::arena::Arena;
use forebay_store::fork::Bound;
use forebay_store::{Error, Kind, Result};

use crate::assemble::{Assembly, Common, Keys, Loss, OnError};
use crate::deliver::{Arrangement, Batch, Queue};
use crate::fetch;
use crate::loader::Loader;
use crate::metrics::{Metrics, Stats, Step};
use crate::prepare::Scratch;

/// What a job is asked for, beside its plan.
#[derive(Debug, Clone, Copy)]
pub struct JobSpec {
    /// Keys the augmentation, with the epoch and the sample.
    pub seed: u64,
    /// Keys the augmentation.
    pub epoch: u64,
    /// Batches under way ahead of the consumer.
    pub lookahead: usize,
    /// Whether batches come as planned, or as they complete.
    pub in_order: bool,
    /// What happens when a sample cannot be prepared.
    pub on_error: OnError,
    /// The position that a [fed](Job::feed) walk starts at, for resuming; a plan has its own start.
    pub start: u64,
}

impl Default for JobSpec {
    fn default() -> Self {
        JobSpec { seed: 0, epoch: 0, lookahead: 2, in_order: true, on_error: OnError::Raise, start: 0 }
    }
}

/// What asking for a batch brings.
#[derive(Debug)]
pub enum Next {
    /// Here it is.
    Batch(Batch),
    /// Not within the time given; ask again.
    Waiting,
    /// There are no more.
    End,
}

/// How long a consumer may hold every slab before that is an error: another thread of the program may yet
/// let go of one, but a program that keeps all batches never will.
const STARVED: Duration = Duration::from_secs(5);

/// One walk over a dataset.
#[derive(Debug)]
pub struct Job {
    plan: Plan,
    loader: Arc<Loader>,
    arena: Arena,
    /// Samples that a slab of the arena has room for.
    capacity: usize,
    common: Arc<Common>,
    queue: Bound<Queue>,
    spec: JobSpec,
    started: u64,
    delivered: u64,
    starved_since: Option<Instant>,
    /// Prepares in the consumer's thread, where the pool has no workers.
    own: Option<Box<Scratch>>,
}

/// Where the batches come from.
#[derive(Debug)]
enum Plan {
    /// The keyed order.
    Keyed { batches: Box<Batches>, samples: Vec<u64> },
    /// The consumer names them, by [`Job::feed`].
    Fed { pending: Option<Vec<u64>>, position: u64, ended: bool },
}

impl Job {
    /// Starts a walk along `batches`, or, without them, along what is [fed](Job::feed).
    pub fn new(loader: &Arc<Loader>, spec: JobSpec, batches: Option<Batches>) -> Result<Self> {
        if loader.is_foreign() {
            return Err(Error::config("this loader was made before a fork, and its threads stayed with the parent")
                .remedy("make another in the child"));
        }
        let (complete, completed) = unbounded();
        let common = Common {
            dataset: Arc::clone(&loader.dataset),
            pipeline: Arc::clone(&loader.pipeline),
            metrics: Metrics::default(),
            on_error: spec.on_error,
            cancelled: AtomicBool::new(false),
            losses: Mutex::new(Vec::new()),
            complete: Bound::new(complete),
        };
        let arrangement = if spec.in_order { Arrangement::InOrder } else { Arrangement::AsComplete };
        let plan = match batches {
            Some(batches) => Plan::Keyed { batches: Box::new(batches), samples: Vec::new() },
            None => Plan::Fed { pending: None, position: spec.start, ended: false },
        };
        Ok(Job {
            plan,
            loader: Arc::clone(loader),
            arena: loader.arena.clone(),
            capacity: loader.spec.batch_size,
            common: Arc::new(common),
            queue: Bound::new(Queue::new(completed, arrangement)),
            // Without workers a batch is prepared when it is asked for, not ahead.
            spec: JobSpec { lookahead: if loader.pool.has_workers() { spec.lookahead.max(1) } else { 1 }, ..spec },
            started: 0,
            delivered: 0,
            starved_since: None,
            own: None,
        })
    }

    /// The next batch, waiting at most `patience` for it. After an error the walk goes on with the batch
    /// behind the broken one.
    pub fn next(&mut self, patience: Duration) -> Result<Next> {
        if self.queue.is_foreign() {
            return Err(Error::config("this iterator was made before a fork, and its threads stayed with the parent")
                .remedy("call iter() on the loader again in the child"));
        }
        let start = Instant::now();
        if self.common.cancelled.load(Ordering::Relaxed) {
            return Ok(Next::End);
        }
        self.start_batches_or_pass()?;
        if self.started == self.delivered {
            return if self.is_exhausted() { Ok(Next::End) } else { self.starve(patience) };
        }
        self.starved_since = None;
        let Some(assembly) = self.queue.take(patience) else {
            self.common.metrics.spent(Step::Consumer, start);
            return Ok(Next::Waiting);
        };
        self.delivered += 1;
        self.common.metrics.spent(Step::Consumer, start);
        if self.common.cancelled.load(Ordering::Relaxed) {
            return Ok(Next::End); // slots may have been passed over
        }
        let batch = Batch::new(assembly)?;
        if self.loader.pool.has_workers() {
            // What fails here fails again, and is told, with the next call: this one has a batch to deliver.
            let _ = self.start_batches();
        }
        if batch.is_empty() {
            return Ok(Next::Waiting);
        }
        self.common.metrics.batches.fetch_add(1, Ordering::Relaxed);
        self.common.metrics.samples.fetch_add(batch.len() as u64, Ordering::Relaxed);
        Ok(Next::Batch(batch))
    }

    /// Whether the job would start another batch if one were fed.
    pub fn wants_feeding(&self) -> bool {
        let hungry = matches!(&self.plan, Plan::Fed { pending: None, ended: false, .. });
        hungry && self.started - self.delivered < self.spec.lookahead as u64
    }

    /// Names the samples of the next batch; an empty list says that there are no more.
    pub fn feed(&mut self, samples: Vec<u64>) -> Result<()> {
        let len = self.common.dataset.len() as u64;
        if let Some(beyond) = samples.iter().find(|&&sample| sample >= len) {
            return Err(Error::config(format!("the sampler asked for sample {beyond} of a dataset of {len}")));
        }
        if let Plan::Fed { pending, ended, .. } = &mut self.plan {
            if samples.is_empty() { *ended = true } else { *pending = Some(samples) }
        }
        self.start_batches_or_pass()
    }

    /// Starts batches; one that was fed and cannot be started is given up, so that its error comes once.
    fn start_batches_or_pass(&mut self) -> Result<()> {
        let outcome = self.start_batches();
        if let (Err(_), Plan::Fed { pending, .. }) = (&outcome, &mut self.plan) {
            *pending = None;
        }
        outcome
    }

    /// A handle that other threads may look through while this one waits.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.common))
    }

    /// Steps 1 and 2: starts batches until enough are under way, the plan ends or the slabs run out.
    fn start_batches(&mut self) -> Result<()> {
        while self.started - self.delivered < self.spec.lookahead as u64 && !self.is_exhausted() {
            let (samples, end, keys) = match &mut self.plan {
                Plan::Keyed { batches, samples } => {
                    let Some(batch) = batches.batch(self.started) else { break };
                    batch.fill(samples);
                    let keys = Keys { seed: self.spec.seed, epoch: self.spec.epoch, repeats_from: None };
                    (&*samples, batches.consumed(self.started + 1), keys)
                }
                Plan::Fed { pending: Some(samples), position, .. } => {
                    let keys = Keys { seed: self.spec.seed, epoch: self.spec.epoch, repeats_from: Some(*position) };
                    (&*samples, *position + samples.len() as u64, keys)
                }
                Plan::Fed { pending: None, .. } => break,
            };
            if samples.len() > self.capacity {
                self.arena = self.loader.larger_arena(samples.len())?;
                self.capacity = samples.len();
            }
            let Some(slab) = self.arena.lease()? else { break };
            let assembly = Arc::new(Assembly::new(Arc::clone(&self.common), self.started, end, slab, samples, keys));
            self.started += 1;
            if let Plan::Fed { pending, position, .. } = &mut self.plan {
                (*pending, *position) = (None, end);
            }
            if !self.loader.pool.offer(&assembly) {
                self.work(&assembly);
            }
        }
        Ok(())
    }

    /// Steps 3 and 5 in the consumer's own thread.
    fn work(&mut self, assembly: &Arc<Assembly>) {
        let scratch = self.own.get_or_insert_default();
        let mut path = std::path::PathBuf::new();
        while let Some(slot) = assembly.claim() {
            if let Some(fetched) = fetch::fetch(assembly, slot, &self.loader.pool.stock, &mut path) {
                fetched.prepare(scratch, &self.loader.pool.stock);
            }
        }
    }

    /// Whether every planned batch has been started.
    fn is_exhausted(&self) -> bool {
        match &self.plan {
            Plan::Keyed { batches, .. } => self.started >= batches.len(),
            Plan::Fed { pending, ended, .. } => *ended && pending.is_none(),
        }
    }

    /// No batch is under way and none can be started: every slab is held by the program.
    fn starve(&mut self, patience: Duration) -> Result<Next> {
        if matches!(&self.plan, Plan::Fed { pending: None, .. }) {
            return Ok(Next::Waiting);
        }
        if self.starved_since.get_or_insert_with(Instant::now).elapsed() < STARVED {
            std::thread::sleep(patience.min(Duration::from_millis(2)));
            return Ok(Next::Waiting);
        }
        let (slabs, megabytes) = (self.arena.limit(), self.arena.slab_bytes() >> 20);
        Err(Error::new(
            Kind::OverBudget,
            format!("the program holds on to all {slabs} batches of {megabytes} MB that ram_budget allows"),
        )
        .remedy("let go of earlier batches or copy them, or raise ram_budget"))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.watch().cancel();
    }
}

/// A look at a job from outside.
#[derive(Debug, Clone)]
pub struct Watch(Arc<Common>);

impl Watch {
    /// What the job has done so far.
    pub fn stats(&self) -> Stats {
        self.0.metrics.read()
    }

    /// The samples lost so far.
    pub fn losses(&self) -> Vec<Loss> {
        self.0.losses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the job: what is under way is given up. Batches already taken stay valid.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }
}
