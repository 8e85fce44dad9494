//! What Forebay decides, as pure functions.
//!
//! A training job is a seed. From the seed and the epoch follow the order of the samples, the batch and the rank each
//! of them belongs to, and every random number its augmentation will draw. This crate computes those answers, in a few
//! nanoseconds each and in constant memory, so that nothing has to be stored, exchanged or remembered: any thread of
//! any node asks the same question and gets the same answer.
//!
//! - [`sample`] answers *which sample is at this position, and at which position is this sample* ([`Order`]), *which
//!   part is mine* ([`Shard`]) and *which random numbers belong to this sample* ([`Key`]).
//! - [`plan`] cuts an order into the batches of one epoch for one rank ([`Batches`]).
//!
//! **Invariant:** there is no I/O, clock, thread or `unsafe` here, and no state that outlives a call. The engine and
//! the simulator run the same code, and a plan is a value: same inputs, same plan on every node.
//!
//! **Invariant:** orders and draws are a format. A saved position or a published run is only worth something while
//! `(seed, epoch)` means what it meant, so their first values are pinned by tests and a change of them is breaking.
//!
//! # Example
//!
//! Two ranks walk the second epoch of a dataset of ten samples, two samples at a time.
//!
//! ```
//! use forebay_policy::{BatchSpec, Batches, Key, Order, Shard};
//!
//! let (seed, epoch) = (0, 1);
//! let mut seen = Vec::new();
//! for rank in 0..2 {
//!     let batches = Batches::new(BatchSpec {
//!         order: Order::shuffled(10, seed, epoch),
//!         batch_size: 2,
//!         shard: Shard::new(rank, 2)?,
//!         drop_last: false,
//!         start: 0,
//!     })?;
//!     for batch in &batches {
//!         for sample in batch.samples() {
//!             let flip = Key::new(seed, epoch, sample).rng(0).chance(0.5);
//!             seen.push((sample, flip));
//!         }
//!     }
//! }
//! seen.sort_unstable();
//! assert!(seen.iter().map(|&(sample, _)| sample).eq(0..10));
//! # Ok::<(), forebay_policy::Error>(())
//! ```

#![forbid(unsafe_code)]

mod error;
pub mod plan;
pub mod sample;

pub use error::{Error, ErrorKind};
pub use plan::{Batch, BatchSpec, Batches};
pub use sample::{Key, Order, Rng, Shard};
