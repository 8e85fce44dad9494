//! The threads: readers that fetch, workers that prepare.
//!
//! A batch is offered to the readers once a reader; each claims slot after slot of it until none is left, so that
//! batches are read in the order they are wanted and a claim costs one atomic addition. What was read goes to the
//! workers, the batch that is wanted first before all others (`arrivals.rs`). A pool without workers has no threads
//! at all: whoever waits for a batch does the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use crossbeam_queue::ArrayQueue;

use forebay_store::fork::{self, Bound};
use forebay_store::{Error, Kind, Result};

use crate::arrivals::{Arrivals, Inlet};
use crate::assemble::Assembly;
use crate::fetch::{self, Fetched};
use crate::prepare::Scratch;

/// Threads shared by the jobs of a loader. They end when the pool is dropped.
#[derive(Debug)]
pub(crate) struct Pool {
    offers: Option<Bound<Sender<Arc<Assembly>>>>,
    readers: usize,
    pub stock: Arc<Stock>,
    pub born: u64,
}

/// Buffers that wait to be used again, at the most.
const BUFFERS: usize = 1024;

impl Pool {
    /// Starts the threads.
    pub fn start(workers: usize, readers: usize, bytes_in_flight: u64) -> Result<Self> {
        let stock = Arc::new(Stock::new(bytes_in_flight));
        let born = fork::generation();
        if workers == 0 {
            return Ok(Pool { offers: None, readers: 0, stock, born });
        }
        let (offers, offered) = unbounded();
        let (arrivals, inlet) = Arrivals::new();
        for i in 0..readers.max(1) {
            let (offered, inlet, stock) = (offered.clone(), Arc::clone(&inlet), Arc::clone(&stock));
            spawn(format!("forebay-read-{i}"), move || read(&offered, &inlet, &stock))?;
        }
        for i in 0..workers {
            let (arrivals, stock) = (Arc::clone(&arrivals), Arc::clone(&stock));
            spawn(format!("forebay-prep-{i}"), move || prepare(&arrivals, &stock))?;
        }
        Ok(Pool { offers: Some(Bound::new(offers)), readers: readers.max(1), stock, born })
    }

    /// Whether there are threads at all.
    pub fn has_workers(&self) -> bool {
        self.offers.is_some()
    }

    /// Sets the threads to work on a batch; `false` if there are none and the caller must.
    pub fn offer(&self, assembly: &Arc<Assembly>) -> bool {
        let Some(offers) = &self.offers else { return false };
        for _ in 0..self.readers.min(assembly.len()) {
            // The readers live as long as the pool, so a send cannot fail.
            let _ = offers.send(Arc::clone(assembly));
        }
        true
    }
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let refused =
        |e| Error::new(Kind::OverBudget, "the system refused another thread").remedy("lower num_workers").because(e);
    thread::Builder::new().name(name).spawn(body).map(drop).map_err(refused)
}

/// A reader's life.
fn read(offered: &Receiver<Arc<Assembly>>, inlet: &Inlet<Fetched>, stock: &Stock) {
    let mut path = std::path::PathBuf::new();
    for assembly in offered {
        while let Some(slot) = assembly.claim() {
            if let Some(fetched) = fetch::fetch(&assembly, slot, stock, &mut path) {
                inlet.put(assembly.number, fetched);
            }
        }
    }
}

/// A worker's life.
fn prepare(arrivals: &Arrivals<Fetched>, stock: &Stock) {
    let mut scratch = Scratch::default();
    while let Some(fetched) = arrivals.take() {
        fetched.prepare(&mut scratch, stock);
    }
}

/// What threads hand round: buffers for files, and the right to fill them.
///
/// Half of the limit is for files being read or prepared, half for buffers that wait to be used again.
///
/// **Invariant:** the files held at once exceed their half only where a single file does, or by the files that workers
/// read to replace lost ones, one each.
#[derive(Debug)]
pub(crate) struct Stock {
    buffers: ArrayQueue<Vec<u8>>,
    idle: AtomicU64,
    used: AtomicU64,
    limit: u64,
    waiters: AtomicUsize,
    door: Mutex<()>,
    freed: Condvar,
}

/// A buffer with this much more room than the file needs is not worth keeping full of air.
const AIR: usize = 256 << 10;

impl Stock {
    fn new(limit: u64) -> Self {
        Stock {
            buffers: ArrayQueue::new(BUFFERS),
            idle: AtomicU64::new(0),
            used: AtomicU64::new(0),
            limit: limit / 2,
            waiters: AtomicUsize::new(0),
            door: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    /// A buffer for a file of that size, once it fits under the limit; one used before where possible.
    pub fn take(&self, bytes: u64) -> Vec<u8> {
        self.admit(bytes);
        self.spare(bytes)
    }

    /// The same at once, for workers: they alone make room, so that they must not wait for it. What this adds to
    /// the limit is bounded by one file a worker.
    pub fn take_at_once(&self, bytes: u64) -> Vec<u8> {
        self.used.fetch_add(bytes, Ordering::SeqCst);
        self.spare(bytes)
    }

    fn spare(&self, bytes: u64) -> Vec<u8> {
        let Some(buffer) = self.buffers.pop() else { return Vec::new() };
        self.idle.fetch_sub(buffer.capacity() as u64, Ordering::Relaxed);
        if buffer.capacity() > 2 * bytes as usize + AIR { Vec::new() } else { buffer }
    }

    /// Takes a buffer back for the next file, unless enough are waiting.
    pub fn recycle(&self, buffer: Vec<u8>) {
        let size = buffer.capacity() as u64;
        let is_kept =
            self.idle.fetch_add(size, Ordering::Relaxed) + size <= self.limit && self.buffers.push(buffer).is_ok();
        if !is_kept {
            self.idle.fetch_sub(size, Ordering::Relaxed);
        }
    }

    /// Waits until `bytes` fit under the limit. Lock-free while they do.
    fn admit(&self, bytes: u64) {
        if self.try_admit(bytes) {
            return;
        }
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.try_admit(bytes) {
            door = self.freed.wait(door).unwrap_or_else(PoisonError::into_inner);
        }
        drop(door);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    fn try_admit(&self, bytes: u64) -> bool {
        // An empty stock admits anything, so that one huge file still gets through.
        let fits = |used| (used == 0 || used + bytes <= self.limit).then_some(used + bytes);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok()
    }

    /// Gives back the right to hold that many bytes.
    pub fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            // Taking the lock orders this after a waiter's last look, so that no wake-up is lost.
            drop(self.door.lock().unwrap_or_else(PoisonError::into_inner));
            self.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_larger_than_the_limit_gets_through_alone() {
        let stock = Arc::new(Stock::new(200));
        stock.admit(60);
        let done = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (stock, done) = (Arc::clone(&stock), Arc::clone(&done));
                thread::spawn(move || {
                    stock.admit(500);
                    done.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(stock.used.load(Ordering::SeqCst), 500);
                    stock.release(500);
                })
            })
            .collect();
        stock.release(60);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(done.load(Ordering::SeqCst), 4);
        assert_eq!(stock.used.load(Ordering::SeqCst), 0);
    }
}
