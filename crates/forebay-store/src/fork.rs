//! Knows whether this process is a fork of the one that started the threads.
//!
//! A fork copies memory but only the calling thread, so locks may be held for ever and queues have no
//! readers. What must not run in such a child compares the [`generation`] it was born in with the
//! present one.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static REGISTER: Once = Once::new();

/// How many forks lie between the first process and this one, counted from the first call.
pub fn generation() -> u64 {
    REGISTER.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is async-signal-safe.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn count_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A value that belongs to the process that made it: a forked child never drops it, because dropping may
/// wait for a thread or a lock that only the parent has.
#[derive(Debug)]
pub struct Bound<T> {
    value: ManuallyDrop<T>,
    born: u64,
}

impl<T> Bound<T> {
    /// Binds a value to this process.
    pub fn new(value: T) -> Self {
        Bound { value: ManuallyDrop::new(value), born: generation() }
    }

    /// Whether this is a fork of the process the value was made in.
    pub fn is_foreign(&self) -> bool {
        self.born != generation()
    }
}

impl<T> Deref for Bound<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Bound<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Bound<T> {
    fn drop(&mut self) {
        if !self.is_foreign() {
            // SAFETY: the value is dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
