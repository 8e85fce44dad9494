//! What has been read and waits for a worker: the batch that is wanted first comes first, and within a batch
//! the sample that arrived first.
//!
//! Without this order one late sample of the first batch would queue behind all of the second, and the
//! consumer would wait for both.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A queue between readers and workers. The lock is held for the moves of a small heap, and taken twice for
/// work of a millisecond, so that it is hardly ever found taken.
#[derive(Debug)]
pub(crate) struct Arrivals<T> {
    waiting: Mutex<Waiting<T>>,
    came: Condvar,
}

#[derive(Debug)]
struct Waiting<T> {
    heap: BinaryHeap<Reverse<Arrival<T>>>,
    /// How many have come so far.
    count: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Arrival<T> {
    batch: u64,
    place: u64,
    sample: T,
}

impl<T> Arrivals<T> {
    /// A queue and the end to fill it from.
    pub fn new() -> (Arc<Self>, Arc<Inlet<T>>) {
        let waiting = Waiting { heap: BinaryHeap::new(), count: 0, is_closed: false };
        let arrivals = Arc::new(Arrivals { waiting: Mutex::new(waiting), came: Condvar::new() });
        let inlet = Arc::new(Inlet(Arc::clone(&arrivals)));
        (arrivals, inlet)
    }

    /// The next sample to prepare, waiting for one; `None` once the readers are gone.
    pub fn take(&self) -> Option<T> {
        let mut waiting = self.lock();
        loop {
            if let Some(Reverse(arrival)) = waiting.heap.pop() {
                return Some(arrival.sample);
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The readers' end. When the last of them drops it, the workers go home.
#[derive(Debug)]
pub(crate) struct Inlet<T>(Arc<Arrivals<T>>);

impl<T> Inlet<T> {
    /// Hands a sample of a batch to the workers.
    pub fn put(&self, batch: u64, sample: T) {
        let mut waiting = self.0.lock();
        waiting.count += 1;
        let arrival = Arrival { batch, place: waiting.count, sample };
        waiting.heap.push(Reverse(arrival));
        drop(waiting);
        self.0.came.notify_one();
    }
}

impl<T> Drop for Inlet<T> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.came.notify_all();
    }
}

impl<T> Ord for Arrival<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.batch, self.place).cmp(&(other.batch, other.place))
    }
}

impl<T> PartialOrd for Arrival<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Arrival<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Arrival<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_sample_of_the_first_batch_overtakes_the_second() {
        let (arrivals, inlet) = Arrivals::new();
        for (batch, sample) in [(0, "a"), (1, "x"), (1, "y"), (0, "late"), (0, "later")] {
            inlet.put(batch, sample);
        }
        let taken: Vec<_> = (0..5).filter_map(|_| arrivals.take()).collect();
        assert_eq!(taken, ["a", "late", "later", "x", "y"]);
    }

    #[test]
    fn workers_finish_what_waits_and_go_home_when_the_readers_have() {
        let (arrivals, inlet) = Arrivals::new();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let arrivals = Arc::clone(&arrivals);
                std::thread::spawn(move || std::iter::from_fn(|| arrivals.take()).count())
            })
            .collect();
        for sample in 0..100 {
            inlet.put(sample % 7, sample);
        }
        drop(inlet);
        assert_eq!(workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>(), 100);
    }
}
