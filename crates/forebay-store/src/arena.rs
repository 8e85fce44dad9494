//! The arena: a bounded set of slabs that batches are assembled in.
//!
//! A slab holds one batch. It is leased before the first of the batch's samples is fetched, written by
//! the workers, handed to the user without a copy, and comes back when the last tensor over it dies. Slabs are mapped when
//! first needed and kept, so that in the steady state nothing is mapped, zeroed or faulted in.
//!
//! Memory is anonymous and asks for huge pages: see `docs/decisions/0002-arena.md`.
//!
//! **Invariant:** at most `limit` slabs exist at any time.
//! **Invariant:** in a forked child slabs neither return nor unmap: other threads of the parent may have been
//! half-way through either when the fork happened.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::{Error, Kind, Result, fork};

/// What happens to a slab's memory when it is mapped and before it is unmapped; used to page-lock it
/// for a GPU.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hooks {
    /// Called once after a slab is mapped, with its address and length.
    pub mapped: Option<fn(*mut u8, usize)>,
    /// Called once before a slab is unmapped.
    pub unmapping: Option<fn(*mut u8)>,
}

/// A bounded set of slabs of one size. Cloning gives another handle to the same set.
#[derive(Debug, Clone)]
pub struct Arena(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    slab_bytes: usize,
    limit: usize,
    mapped: AtomicUsize,
    free: ArrayQueue<Mapping>,
    hooks: Hooks,
    born: u64,
}

impl Arena {
    /// An arena of at most `limit` slabs (at least one) of `slab_bytes`. Maps nothing yet.
    pub fn new(slab_bytes: usize, limit: usize, hooks: Hooks) -> Self {
        let limit = limit.max(1);
        Arena(Arc::new(Shared {
            slab_bytes: slab_bytes.max(1),
            limit,
            mapped: AtomicUsize::new(0),
            free: ArrayQueue::new(limit),
            hooks,
            born: fork::generation(),
        }))
    }

    /// A slab nobody else has, or `None` while all of them are out.
    pub fn lease(&self) -> Result<Option<Slab>> {
        let shared = &self.0;
        if let Some(mapping) = shared.free.pop() {
            return Ok(Some(Slab { mapping, shared: Arc::clone(shared) }));
        }
        let room = |mapped| (mapped < shared.limit).then_some(mapped + 1);
        if shared.mapped.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            return Ok(None);
        }
        match Mapping::new(shared.slab_bytes) {
            Ok(mapping) => {
                if let Some(mapped) = shared.hooks.mapped {
                    mapped(mapping.base.as_ptr(), mapping.len);
                }
                Ok(Some(Slab { mapping, shared: Arc::clone(shared) }))
            }
            Err(error) => {
                shared.mapped.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// The most slabs there may be.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// How many slabs have been mapped so far.
    pub fn mapped(&self) -> usize {
        self.0.mapped.load(Ordering::Relaxed)
    }

    /// How many bytes one slab holds.
    pub fn slab_bytes(&self) -> usize {
        self.0.slab_bytes
    }
}

/// The memory of one batch. Dropping it gives it back to its arena.
#[derive(Debug)]
pub struct Slab {
    mapping: Mapping,
    shared: Arc<Shared>,
}

impl Slab {
    /// The whole slab.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self`, and whoever writes through `slot` holds the
        // promise made there that nobody reads the slot meanwhile.
        unsafe { std::slice::from_raw_parts(self.mapping.base.as_ptr(), self.shared.slab_bytes) }
    }

    /// Where the slab lies.
    pub fn address(&self) -> *mut u8 {
        self.mapping.base.as_ptr()
    }

    /// The bytes `[offset, offset + len)`, for writing through a shared handle.
    ///
    /// # Safety
    /// While the returned slice lives, nobody else reads or writes those bytes. The engine keeps this by
    /// giving each slot of a batch to one worker, once, and handing the slab out only after the last.
    ///
    /// # Panics
    /// If the range does not lie within the slab.
    #[allow(clippy::mut_from_ref)] // the whole point: disjoint parts are written from several threads
    pub unsafe fn slot(&self, offset: usize, len: usize) -> &mut [u8] {
        assert!(offset + len <= self.shared.slab_bytes, "a slot lies within its slab");
        // SAFETY: in range, mapped as long as `self`; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.base.as_ptr().add(offset), len) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if fork::generation() != self.shared.born {
            return;
        }
        let mapping = Mapping { ..self.mapping };
        let returned = self.shared.free.push(mapping);
        debug_assert!(returned.is_ok(), "the free list has room for every slab there may be");
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if fork::generation() != self.born {
            return;
        }
        while let Some(mapping) = self.free.pop() {
            if let Some(unmapping) = self.hooks.unmapping {
                unmapping(mapping.base.as_ptr());
            }
            mapping.unmap();
        }
    }
}

/// Mapped memory; whoever drops it decides whether it is unmapped, hence no `Drop`.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory; who may write where is settled by `Slab`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Linux backs a mapping with huge pages only where it spans whole, aligned ones.
const HUGE_PAGE: usize = 2 << 20;

impl Mapping {
    fn new(bytes: usize) -> Result<Self> {
        let page = if bytes >= HUGE_PAGE { HUGE_PAGE } else { 4096 };
        let len = bytes.next_multiple_of(page);
        let refused = || {
            Error::new(Kind::OverBudget, format!("the system refused {} MB for a batch", len >> 20))
                .remedy("lower batch_size or ram_budget, or free memory")
                .because(std::io::Error::last_os_error())
        };
        // SAFETY: an anonymous mapping at an address of the system's choice touches nothing of ours.
        // One huge page more than needed is asked for, and trimmed, so that the base can be aligned.
        unsafe {
            let spare = if page == HUGE_PAGE { HUGE_PAGE } else { 0 };
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let raw = libc::mmap(std::ptr::null_mut(), len + spare, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if raw == libc::MAP_FAILED {
                return Err(refused());
            }
            let raw = raw.cast::<u8>();
            let head = raw.align_offset(page);
            if head > 0 {
                libc::munmap(raw.cast(), head);
            }
            if spare > head {
                libc::munmap(raw.add(head + len).cast(), spare - head);
            }
            let base = raw.add(head);
            libc::madvise(base.cast(), len, libc::MADV_HUGEPAGE);
            Ok(Mapping { base: NonNull::new_unchecked(base), len })
        }
    }

    fn unmap(self) {
        // SAFETY: the free list held the only handle, so no slab and no tensor lies over this memory.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slab_returns_when_its_last_holder_drops_it() {
        let arena = Arena::new(100, 1, Hooks::default());
        let slab = Arc::new(arena.lease().unwrap().unwrap());
        let other = Arc::clone(&slab);
        drop(slab);
        assert!(arena.lease().unwrap().is_none());
        drop(other);
        assert!(arena.lease().unwrap().is_some());
        assert_eq!(arena.mapped(), 1);
    }

    #[test]
    fn a_slab_outlives_its_arena() {
        let arena = Arena::new(3 << 20, 2, Hooks::default());
        let slab = arena.lease().unwrap().unwrap();
        drop(arena);
        // SAFETY: this thread alone holds the slab.
        unsafe { slab.slot(0, 3 << 20) }.fill(9);
        assert!(slab.bytes().iter().all(|&b| b == 9));
    }

    #[test]
    fn every_mapping_is_announced_and_taken_back_once() {
        static ALIVE: AtomicUsize = AtomicUsize::new(0);
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        let hooks = Hooks {
            mapped: Some(|_, _| {
                ALIVE.fetch_add(1, Ordering::SeqCst);
                SEEN.fetch_add(1, Ordering::SeqCst);
            }),
            unmapping: Some(|_| {
                ALIVE.fetch_sub(1, Ordering::SeqCst);
            }),
        };
        let arena = Arena::new(10, 3, hooks);
        for _ in 0..5 {
            let _two = (arena.lease().unwrap().unwrap(), arena.lease().unwrap().unwrap());
        }
        assert_eq!(SEEN.load(Ordering::SeqCst), 2);
        drop(arena);
        assert_eq!(ALIVE.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn what_the_system_refuses_is_an_error_and_leaves_room() {
        let arena = Arena::new(usize::MAX / 4, 1, Hooks::default());
        assert_eq!(arena.lease().unwrap_err().kind(), Kind::OverBudget);
        assert_eq!(arena.mapped(), 0);
    }

    proptest! {
        #[test]
        fn never_more_slabs_than_the_limit(limit in 1usize..6, leases in prop::collection::vec(any::<bool>(), 1..60)) {
            let arena = Arena::new(64, limit, Hooks::default());
            let mut held = Vec::new();
            for lease in leases {
                if lease {
                    let slab = arena.lease().unwrap();
                    prop_assert_eq!(slab.is_some(), held.len() < limit);
                    held.extend(slab);
                } else {
                    held.pop();
                }
                prop_assert!(arena.mapped() <= limit);
            }
        }
    }
}
