//! Step 7, deliver: complete batches reach the consumer, in order or as they complete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use forebay_store::Result;
use forebay_store::arena::Slab;

use crate::assemble::Assembly;
use crate::loader::labels_offset;
use crate::prepare::Form;

/// In which order batches come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// As planned.
    InOrder,
    /// As they complete.
    AsComplete,
}

/// The consumer's end of a job.
#[derive(Debug)]
pub(crate) struct Queue {
    complete: Receiver<Arc<Assembly>>,
    arrangement: Arrangement,
    /// Complete batches whose turn has not come.
    early: BTreeMap<u64, Arc<Assembly>>,
    next: u64,
}

impl Queue {
    pub fn new(complete: Receiver<Arc<Assembly>>, arrangement: Arrangement) -> Self {
        Queue { complete, arrangement, early: BTreeMap::new(), next: 0 }
    }

    /// The next batch, or `None` if it is not complete within `patience`.
    pub fn take(&mut self, patience: Duration) -> Option<Arc<Assembly>> {
        let deadline = std::time::Instant::now() + patience;
        loop {
            if let Some(assembly) = self.early.remove(&self.next) {
                self.next += 1;
                return Some(assembly);
            }
            let assembly = match self.complete.recv_deadline(deadline) {
                Ok(assembly) => assembly,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            };
            match self.arrangement {
                Arrangement::AsComplete => return Some(assembly),
                Arrangement::InOrder => self.early.insert(assembly.number, assembly),
            };
        }
    }
}

/// A complete batch: pictures and labels in one slab, which returns to its arena when the last handle
/// over it is dropped.
#[derive(Debug, Clone)]
pub struct Batch {
    assembly: Arc<Assembly>,
    samples: Vec<u64>,
}

impl Batch {
    /// Closes the gaps that lost samples left, or fails with the first of them.
    pub(crate) fn new(assembly: Arc<Assembly>) -> Result<Self> {
        let mut samples = assembly.samples();
        let failures = assembly.take_failures();
        let (size, labels) = (assembly.sample_bytes(), labels_offset(assembly.sample_bytes(), assembly.len()));
        let lost: Vec<usize> = failures.iter().map(|failure| failure.slot).collect();
        for failure in failures {
            if let Some(error) = failure.error {
                return Err(error);
            }
        }
        if !lost.is_empty() {
            let kept: Vec<usize> = (0..assembly.len()).filter(|slot| lost.binary_search(slot).is_err()).collect();
            for (to, &from) in kept.iter().enumerate().filter(|(to, from)| to != *from) {
                // SAFETY: the batch is complete, so no worker writes, and it has not been handed out, so
                // nobody reads; `to` lies before `from`, so the parts are disjoint.
                unsafe {
                    assembly.slab.slot(to * size, size).copy_from_slice(assembly.slab.slot(from * size, size));
                    assembly.slab.slot(labels + to * 8, 8).copy_from_slice(assembly.slab.slot(labels + from * 8, 8));
                }
            }
            samples = kept.iter().map(|&slot| samples[slot]).collect();
        }
        Ok(Batch { assembly, samples })
    }

    /// How many samples it holds.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether every one of its samples was lost.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The numbers of its samples.
    pub fn samples(&self) -> &[u64] {
        &self.samples
    }

    /// The position in the epoch, over all ranks, at which the next batch starts.
    pub fn end(&self) -> u64 {
        self.assembly.end
    }

    /// What its pictures look like.
    pub fn form(&self) -> &Form {
        self.assembly.job.pipeline.form()
    }

    /// The memory it lies in.
    pub fn slab(&self) -> &Slab {
        &self.assembly.slab
    }

    /// The pictures, one after the other.
    pub fn pictures(&self) -> &[u8] {
        &self.assembly.slab.bytes()[..self.len() * self.assembly.sample_bytes()]
    }

    /// Where the labels lie in the slab: one `i64` a sample.
    pub fn labels_offset(&self) -> usize {
        labels_offset(self.assembly.sample_bytes(), self.assembly.len())
    }

    /// The labels.
    pub fn labels(&self) -> Vec<i64> {
        let bytes = &self.assembly.slab.bytes()[self.labels_offset()..][..self.len() * 8];
        bytes.as_chunks::<8>().0.iter().map(|label| i64::from_ne_bytes(*label)).collect()
    }
}
