//! Step 3, fetch: sample ids become bytes, in order of arrival.
//!
//! A slow file delays nobody but itself: other readers go on with the next slots, and workers take what has arrived.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use forebay_store::{Result, source};

use crate::assemble::Assembly;
use crate::metrics::Step;
use crate::pool::Stock;
use crate::prepare::Scratch;

/// The bytes of one sample, on their way to a worker.
#[derive(Debug)]
pub(crate) struct Fetched {
    assembly: Arc<Assembly>,
    slot: usize,
    bytes: Result<Bytes>,
}

/// Reads the sample of a slot. `None` if the batch is no longer wanted.
pub(crate) fn fetch(assembly: &Arc<Assembly>, slot: usize, stock: &Stock, path: &mut PathBuf) -> Option<Fetched> {
    if assembly.is_cancelled() {
        return None;
    }
    let bytes = read(assembly, assembly.sample(slot), path, stock, Stock::take);
    Some(Fetched { assembly: Arc::clone(assembly), slot, bytes })
}

/// Reads a sample's file into a buffer that `take` gets from the stock.
fn read(
    assembly: &Assembly,
    sample: u64,
    path: &mut PathBuf,
    stock: &Stock,
    take: impl FnOnce(&Stock, u64) -> Vec<u8>,
) -> Result<Bytes> {
    let start = Instant::now();
    let job = &assembly.job;
    job.dataset.path_into(sample, path);
    let mut admitted = 0;
    let outcome = source::read_file(path, |size| {
        admitted = size;
        Ok(take(stock, size))
    });
    match &outcome {
        Ok(bytes) => {
            job.metrics.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            job.metrics.spent(Step::Fetch, start);
        }
        Err(_) => stock.release(admitted),
    }
    outcome.map(|bytes| Bytes { bytes, admitted })
}

/// A file's bytes, and what they count for in the stock.
#[derive(Debug)]
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    admitted: u64,
}

impl Fetched {
    /// Prepares the sample into its slot and reports the slot filled, or lost.
    pub fn prepare(self, scratch: &mut Scratch, stock: &Stock) {
        let Fetched { assembly, slot, bytes } = self;
        let (mut sample, mut attempt) = (assembly.sample(slot), 0);
        let mut outcome = settle(&assembly, slot, sample, bytes, scratch, stock);
        // A sample that is lost may be replaced by another, which may be lost too.
        while let Err(error) = outcome {
            let Some(substitute) = assembly.lose(slot, sample, attempt, error) else { break };
            (sample, attempt) = (substitute, attempt + 1);
            let bytes = read(&assembly, sample, &mut PathBuf::new(), stock, Stock::take_at_once);
            outcome = settle(&assembly, slot, sample, bytes, scratch, stock);
        }
        assembly.settled();
    }
}

/// Prepares `bytes`, if they came, and gives their buffer back.
fn settle(
    assembly: &Assembly,
    slot: usize,
    sample: u64,
    bytes: Result<Bytes>,
    scratch: &mut Scratch,
    stock: &Stock,
) -> Result<()> {
    let Bytes { bytes, admitted } = bytes?;
    let outcome = if assembly.is_cancelled() { Ok(()) } else { assembly.fill(slot, sample, &bytes, scratch) };
    stock.recycle(bytes);
    stock.release(admitted);
    outcome
}
