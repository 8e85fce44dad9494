//! The order of an epoch, as a function.
//!
//! [`Order`] is a bijection between positions and samples of `[0, n)`, keyed by seed and epoch. It answers both ways:
//! which sample is at a position, and at which position a sample will come. The second is what makes the future cheap:
//! the next use of a sample is computed when it is asked for, where others store and exchange lists of accesses.
//!
//! **Invariant:** the same `(n, seed, epoch)` gives the same order in every release. Saved positions depend on it, and
//! the golden tests below pin it.
//!
//! Cost: no allocation, a few hundred bytes whatever `n` is, and tens of nanoseconds for an evaluation in either
//! direction (`benches/order.rs`).
//!
//! # Construction
//!
//! Positions are laid on a grid of `rows` by `columns` that holds barely more than `n` cells. A Feistel network moves
//! them: each round adds to one coordinate a keyed hash of the other, modulo the side of the grid, and is undone by
//! subtracting. A cell that lands beyond `n` is moved again until it does not (cycle walking), which keeps the map a
//! bijection and happens about once in `√n` evaluations. `rows` is even: additions modulo odd sides alone are even
//! permutations, so that without this half of all orders could never occur at `n = 9` or `25`.
//!
//! How many rounds are enough depends on `n`. A pair of cells in one column keeps its distance through a round with
//! probability of about one over the side, so small grids forget slowly; see [`Grid::rounds`].

use super::mix::{self, Purpose};

/// The most samples an order can hold.
const MOST: u64 = 1 << 63;

/// A bijection between the positions of an epoch and its samples.
///
/// ```
/// use forebay_policy::Order;
///
/// let order = Order::shuffled(1_000, 42, 0);
/// let sample = order.at(17);
/// assert_eq!(order.position(sample), 17);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    len: u64,
    /// None in sequential order.
    grid: Option<Grid>,
}

impl Order {
    /// The random order of `n` samples that belongs to this seed and epoch.
    ///
    /// # Panics
    ///
    /// If `n` exceeds 2⁶³.
    #[must_use]
    pub fn shuffled(n: u64, seed: u64, epoch: u64) -> Self {
        Self { len: n, grid: Some(Grid::new(n, mix::key(Purpose::Order, seed, epoch, 0), Grid::rounds(n))) }
    }

    /// The order in which sample and position are the same number.
    #[must_use]
    pub fn sequential(n: u64) -> Self {
        Self { len: n, grid: None }
    }

    /// The sample at a position.
    ///
    /// # Panics
    ///
    /// If `position` is not below [`len`](Self::len).
    #[must_use]
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        assert!(position < self.len, "position {position} is beyond an order of {} samples", self.len);
        let Some(grid) = &self.grid else {
            return position;
        };
        let mut cell = grid.forward(position);
        while cell >= self.len {
            cell = grid.forward(cell);
        }
        cell
    }

    /// The position of a sample: the inverse of [`at`](Self::at).
    ///
    /// # Panics
    ///
    /// If `sample` is not below [`len`](Self::len).
    #[must_use]
    #[inline]
    pub fn position(&self, sample: u64) -> u64 {
        assert!(sample < self.len, "sample {sample} is beyond an order of {} samples", self.len);
        let Some(grid) = &self.grid else {
            return sample;
        };
        let mut cell = grid.backward(sample);
        while cell >= self.len {
            cell = grid.backward(cell);
        }
        cell
    }

    /// How many samples there are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The most rounds any order uses, as pairs.
const MOST_PAIRS: usize = 16;

/// A keyed bijection of the cells of a grid: cell `row * columns + column`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Grid {
    rows: u64,
    columns: u64,
    /// ⌊(2⁶⁴ − 1) / columns⌋: divides without dividing.
    reciprocal: u64,
    pairs: usize,
    /// A pair of rounds each: the key that moves the row, the key that moves the column.
    keys: [[u64; 2]; MOST_PAIRS],
}

impl Grid {
    /// How many rounds an order of `n` uses.
    ///
    /// Measured as the z-score of adjacent pairs `(at(i), at(i + 1))` over four million pairs (two at 10,007; in a
    /// hundred buckets above 100), the worst of consecutive seeds, consecutive epochs and seeds that differ in high
    /// bits only:
    ///
    /// | rounds | n = 3 | 5 | 8 | 16 | 53 | 100 | 1,000 | 10,007 |
    /// | --- | --- | --- | --- | --- | --- | --- | --- | --- |
    /// | 2 | 72 | 169 | 272 | 676 | 948 | 1286 | 379 | 22 |
    /// | 3 | 44 | 113 | 128 | 411 | 412 | 491 | 26 | 0.7 |
    /// | 4 | 26 | 81 | 57 | 246 | 158 | 141 | 1.0 | 0.7 |
    /// | 6 | 7.3 | 46 | 8.2 | 79 | 6.4 | 3.0 | 1.4 | 2.4 |
    /// | 8 | 2.2 | 27 | 1.2 | 17 | 0.9 | 2.6 | 3.5 | 2.3 |
    /// | 12 | 0.6 | 7.1 | 0.6 | 1.6 | 0.8 | 1.6 | 2.0 | 1.3 |
    /// | 16 | 1.8 | 0.9 | 3.6 | 1.9 | 2.5 | 2.5 | 2.7 | 1.4 |
    ///
    /// The distribution of whole permutations is a harder test, possible for tiny `n` only: `n = 5`, 6 and 7 need 20
    /// rounds to pass it with two million orders, and `n = 8` needs 24 with four million. Large orders need more than
    /// 4, which leave cells that were one row apart too often one row apart; by the same reckoning, an estimate and
    /// not a measurement, what 6 leave takes some 20,000 epochs of 2²⁰ samples to see.
    ///
    /// Below 2²⁰ a whole epoch is a few dozen milliseconds of evaluations, so margin is cheap there: 32 and 12 rounds.
    /// From there on 6 keep an evaluation within 40 ns.
    fn rounds(n: u64) -> usize {
        match n {
            0..64 => 32,
            64..0x10_0000 => 12,
            _ => 6,
        }
    }

    /// The grid for `n` samples under a key, with an even number of rounds.
    fn new(n: u64, key: u64, rounds: usize) -> Self {
        assert!(n <= MOST, "an order holds at most 2^63 samples, not {n}");
        let root = n.isqrt();
        let root = if root * root < n { root + 1 } else { root };
        let rows = root.max(1).next_multiple_of(2);
        let columns = n.div_ceil(rows).max(1);
        let pairs = rounds / 2;
        let mut keys = [[0; 2]; MOST_PAIRS];
        for (index, key_of_round) in keys[..pairs].as_flattened_mut().iter_mut().enumerate() {
            *key_of_round = mix::word(key, index as u64);
        }
        Self { rows, columns, reciprocal: u64::MAX / columns, pairs, keys }
    }

    #[inline]
    fn forward(&self, cell: u64) -> u64 {
        let (mut row, mut column) = self.split(cell);
        for &[row_key, column_key] in &self.keys[..self.pairs] {
            row = add(row, step(column, row_key, self.rows), self.rows);
            column = add(column, step(row, column_key, self.columns), self.columns);
        }
        row * self.columns + column
    }

    #[inline]
    fn backward(&self, cell: u64) -> u64 {
        let (mut row, mut column) = self.split(cell);
        for &[row_key, column_key] in self.keys[..self.pairs].iter().rev() {
            column = subtract(column, step(row, column_key, self.columns), self.columns);
            row = subtract(row, step(column, row_key, self.rows), self.rows);
        }
        row * self.columns + column
    }

    /// The row and column of a cell.
    ///
    /// The product with the reciprocal falls short of the quotient by less than one, so one correction is enough.
    #[inline]
    fn split(&self, cell: u64) -> (u64, u64) {
        let row = high_product(cell, self.reciprocal);
        let column = cell - row * self.columns;
        if column < self.columns { (row, column) } else { (row + 1, column - self.columns) }
    }
}

/// How far one coordinate moves, in `[0, side)`, given the other.
///
/// Two multiplications with a fold between them: with one, neighbouring inputs would move in arithmetic progression.
/// Both multipliers are odd and have no pattern in their bits. The reduction by high product takes the top bits, the
/// best mixed ones, and is biased by less than `side` in 2⁶⁴.
#[inline]
fn step(other: u64, key: u64, side: u64) -> u64 {
    let product = (other ^ key).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let folded = (product ^ (product >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    high_product(folded, side)
}

/// `a + b` modulo `side`, both below it.
#[inline]
fn add(a: u64, b: u64, side: u64) -> u64 {
    let sum = a + b;
    if sum < side { sum } else { sum - side }
}

/// `a - b` modulo `side`, both below it.
#[inline]
fn subtract(a: u64, b: u64, side: u64) -> u64 {
    if a < b { a + side - b } else { a - b }
}

#[inline]
fn high_product(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

#[cfg(test)]
mod uniformity;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::panic::catch_unwind;

    fn assert_permutation(order: &Order) {
        let mut met = vec![false; usize::try_from(order.len()).expect("the tested orders fit in memory")];
        for position in 0..order.len() {
            let sample = order.at(position);
            assert!(!std::mem::replace(&mut met[sample as usize], true), "{sample} comes twice in {order:?}");
            assert_eq!(order.position(sample), position, "{order:?}");
        }
    }

    #[test]
    fn every_small_order_is_a_permutation() {
        for n in 0..=300 {
            for seed in 0..3 {
                assert_permutation(&Order::shuffled(n, seed, 5));
            }
        }
    }

    #[test]
    fn orders_of_primes_and_their_neighbours_are_permutations() {
        for n in [1_009, 4_095, 4_096, 4_099, 10_007, 65_521, 65_536, 65_537, 1_048_575, 1_048_576, 1_048_583] {
            assert_permutation(&Order::shuffled(n, 1, 2));
        }
    }

    #[test]
    fn a_sequential_order_is_the_identity() {
        let order = Order::sequential(7);
        assert!((0..7).all(|i| order.at(i) == i && order.position(i) == i));
        assert_eq!(order.len(), 7);
    }

    #[test]
    fn an_empty_order_has_no_position() {
        for order in [Order::shuffled(0, 0, 0), Order::sequential(0)] {
            assert!(order.is_empty());
            assert!(catch_unwind(|| order.at(0)).is_err());
            assert!(catch_unwind(|| order.position(0)).is_err());
        }
    }

    #[test]
    fn a_position_beyond_the_end_panics_and_says_so() {
        let order = Order::shuffled(5, 0, 0);
        let panic = catch_unwind(|| order.at(5)).expect_err("5 is beyond an order of 5");
        let message = panic.downcast_ref::<String>().expect("the message is formatted");
        assert_eq!(message, "position 5 is beyond an order of 5 samples");
    }

    #[test]
    #[should_panic(expected = "at most 2^63 samples")]
    fn more_samples_than_an_order_holds_are_refused() {
        let _ = Order::shuffled(MOST + 1, 0, 0);
    }

    #[test]
    fn seeds_and_epochs_give_different_orders() {
        let first = |seed, epoch| {
            let order = Order::shuffled(1_000_003, seed, epoch);
            std::array::from_fn::<u64, 8, _>(|i| order.at(i as u64))
        };
        let mut met = std::collections::HashSet::new();
        for seed in 0..100 {
            for epoch in 0..100 {
                assert!(met.insert(first(seed, epoch)), "seed {seed} epoch {epoch} repeats another order");
            }
        }
    }

    // A change of these values breaks every saved position: it needs a new major version and a migration.
    #[test]
    fn the_order_is_the_one_that_was_promised() {
        let first = |n| {
            let order = Order::shuffled(n, 0, 0);
            std::array::from_fn::<u64, 8, _>(|i| order.at(i as u64))
        };
        assert_eq!(first(10), [3, 7, 6, 2, 5, 4, 1, 9]);
        assert_eq!(first(1_000), [471, 149, 401, 458, 780, 721, 238, 516]);
        assert_eq!(first(1_280_000), [419_346, 956_568, 535_310, 617_665, 678_465, 512_753, 247_953, 342_847]);
        assert_eq!(
            first(10_000_000_000),
            [
                3_280_349_163,
                7_362_830_840,
                8_682_564_716,
                7_877_725_656,
                3_584_884_193,
                4_053_838_505,
                1_584_913_010,
                8_716_035_262
            ]
        );
    }

    proptest! {
        #[test]
        fn position_undoes_at(n in 1..=MOST, seed: u64, epoch: u64, picks in prop::array::uniform8(0..MOST)) {
            let order = Order::shuffled(n, seed, epoch);
            for pick in picks {
                let position = pick % n;
                prop_assert!(order.at(position) < n);
                prop_assert_eq!(order.position(order.at(position)), position);
                prop_assert_eq!(order.at(order.position(position)), position);
            }
        }

        #[test]
        fn any_order_is_a_permutation(bits in 0_u32..14, fraction: u16, seed: u64, epoch: u64) {
            let n = (1 << bits) + (u64::from(fraction) << bits >> 16);
            assert_permutation(&Order::shuffled(n, seed, epoch));
        }

        #[test]
        fn neither_end_of_the_largest_orders_overflows(below in 0_u64..1_000, seed: u64) {
            let n = MOST - below;
            let order = Order::shuffled(n, seed, 0);
            for position in [0, 1, n / 2, n - 2, n - 1] {
                prop_assert_eq!(order.position(order.at(position)), position);
            }
        }

        #[test]
        fn a_cell_splits_as_by_division(n in 1..=MOST, pick: u64) {
            let grid = Grid::new(n, 0, 2);
            let cell = pick % (grid.rows * grid.columns);
            prop_assert_eq!(grid.split(cell), (cell / grid.columns, cell % grid.columns));
        }
    }
}
