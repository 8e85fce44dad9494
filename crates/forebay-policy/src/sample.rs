//! Which sample comes when, for whom, and with which random numbers.
//!
//! [`Order`] is law 1, [`Key`] is law 3, and [`Shard`] says which part of a global batch a rank takes.

mod draw;
mod mix;
mod order;
mod shard;

#[cfg(test)]
mod chi_square;

pub use draw::{Key, Rng};
pub use order::Order;
pub use shard::Shard;
