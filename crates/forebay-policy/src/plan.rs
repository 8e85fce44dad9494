//! What will happen in an epoch, before it does.
//!
//! A plan is a value: same inputs, same plan on every node. [`Batches`] cuts an order into the batches of one rank.

mod batches;

pub use batches::{Batch, BatchSpec, Batches, Iter};
