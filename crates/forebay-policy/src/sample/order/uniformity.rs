//! Is an order as random as a shuffle?
//!
//! Each test takes the number of rounds, so that the same battery shows that the rounds in use pass and that fewer do
//! not: a test that a weak construction passes would say nothing.

use super::{Grid, MOST_PAIRS, Order};
use crate::sample::chi_square::{BOUND, statistic, z};
use crate::sample::mix::{self, Purpose};

/// How users come by keys: they count seeds, they count epochs, or they hash something into the high bits.
const KEYS: [fn(u64) -> (u64, u64); 3] = [|i| (i, 0), |i| (7, i), |i| (i.reverse_bits(), 0)];

fn order(n: u64, (seed, epoch): (u64, u64), rounds: usize) -> Order {
    assert!(rounds / 2 <= MOST_PAIRS);
    let grid = Grid::new(n, mix::key(Purpose::Order, seed, epoch, 0), rounds);
    Order { len: n, grid: Some(grid) }
}

/// The z-scores of element by position and of adjacent pairs.
fn scores(n: u64, trials: u64, key: fn(u64) -> (u64, u64), rounds: usize) -> [f64; 2] {
    let side = n as usize;
    let mut placed = vec![0_u64; side * side];
    let mut adjacent = vec![0_u64; side * side];
    for trial in 0..trials {
        let order = order(n, key(trial), rounds);
        let mut previous = None;
        for position in 0..side {
            let sample = order.at(position as u64) as usize;
            placed[position * side + sample] += 1;
            if let Some(previous) = previous.replace(sample) {
                adjacent[previous * side + sample] += 1;
            }
        }
    }
    let (n, trials) = (n as f64, trials as f64);
    // Rows and columns of the first table sum to `trials`: its statistic, scaled, has (n - 1)² degrees of freedom.
    let placed = statistic(placed, trials / n) * (n - 1.0) / n;
    let adjacent = (0..side * side).filter(|cell| cell / side != cell % side).map(|cell| adjacent[cell]);
    let adjacent = statistic(adjacent, trials / n);
    [z(placed, (n - 1.0) * (n - 1.0)), z(adjacent, n * (n - 1.0) - 1.0)]
}

/// The same two, with samples and positions gathered into `side` buckets of equal size.
fn bucketed_scores(n: u64, side: u64, trials: u64, key: fn(u64) -> (u64, u64), rounds: usize) -> [f64; 2] {
    let bucket = |i: u64| (i * side / n) as usize;
    let side = side as usize;
    let mut placed = vec![0_u64; side * side];
    let mut adjacent = vec![0_u64; side * side];
    for trial in 0..trials {
        let order = order(n, key(trial), rounds);
        let mut previous = None;
        for position in 0..n {
            let sample = order.at(position);
            placed[bucket(position) * side + bucket(sample)] += 1;
            if let Some(previous) = previous.replace(sample) {
                adjacent[bucket(previous) * side + bucket(sample)] += 1;
            }
        }
    }
    let mut sizes = vec![0.0; side];
    (0..n).for_each(|i| sizes[bucket(i)] += 1.0);
    let (n, trials) = (n as f64, trials as f64);
    let against = |counts: &[u64], expected: &dyn Fn(usize, usize) -> f64| -> f64 {
        (0..side * side)
            .map(|cell| {
                let expected = expected(cell / side, cell % side);
                (counts[cell] as f64 - expected).powi(2) / expected
            })
            .sum()
    };
    let placed = against(&placed, &|row, column| trials * sizes[row] * sizes[column] / n);
    let adjacent = against(&adjacent, &|row, column| {
        trials * sizes[row] * (sizes[column] - f64::from(u8::from(row == column))) / n
    });
    // Whole permutations are counted, so the margins are fixed and each cell varies by (n - 1) / n of Poisson's.
    let freedom = (side as f64 - 1.0).powi(2);
    [z(placed * (n - 1.0) / n, freedom), z(adjacent * (n - 1.0) / n, freedom)]
}

/// The z-score of the whole permutation among all n!.
fn permutation_score(n: u64, trials: u64, key: fn(u64) -> (u64, u64), rounds: usize) -> f64 {
    let permutations: u64 = (1..=n).product();
    let mut counts = vec![0_u64; permutations as usize];
    for trial in 0..trials {
        let order = order(n, key(trial), rounds);
        let samples: Vec<u64> = (0..n).map(|position| order.at(position)).collect();
        let rank = (0..samples.len()).fold(0, |rank, i| {
            let smaller = samples[i..].iter().filter(|&&later| later < samples[i]).count();
            rank * (samples.len() - i) + smaller
        });
        counts[rank] += 1;
    }
    z(statistic(counts, trials as f64 / permutations as f64), permutations as f64 - 1.0)
}

/// How far steps of one cell are from being spread evenly, where this construction is weakest: in `orders` epochs, how
/// often do positions one column (or one row) apart hold samples that are one column (or one row) apart?
fn step_scores(n: u64, orders: u64, rounds: usize) -> [f64; 2] {
    let mut kept = [0_u64; 2];
    let mut expected = [0.0; 2];
    for epoch in 0..orders {
        let order = order(n, (0, epoch), rounds);
        let grid = order.grid.as_ref().expect("the order is shuffled");
        let (rows, columns) = (grid.rows, grid.columns);
        for position in 0..n - columns {
            let (row, column) = grid.split(order.at(position));
            let (_, next_column) = grid.split(order.at(position + 1));
            let (next_row, _) = grid.split(order.at(position + columns));
            kept[0] += u64::from((column + 1) % columns == next_column);
            kept[1] += u64::from((row + 1) % rows == next_row);
        }
        expected[0] += (n - columns) as f64 / columns as f64;
        expected[1] += (n - columns) as f64 / rows as f64;
    }
    [0, 1].map(|i| (kept[i] as f64 - expected[i]) / expected[i].sqrt())
}

#[test]
fn samples_and_adjacent_pairs_are_uniform_over_seeds_and_epochs() {
    for (n, trials) in [(3, 100_000), (5, 100_000), (8, 60_000), (16, 40_000), (53, 30_000), (100, 20_000)] {
        for (walk, key) in KEYS.into_iter().enumerate() {
            let scores = scores(n, trials, key, Grid::rounds(n));
            assert!(scores.iter().all(|z| z.abs() < BOUND), "n {n}, keys {walk}: {scores:?}");
        }
    }
}

#[test]
fn larger_orders_are_uniform_over_seeds_and_epochs() {
    for (n, trials) in [(1_000, 1_000), (10_007, 100)] {
        for (walk, key) in KEYS.into_iter().enumerate() {
            let scores = bucketed_scores(n, 50, trials, key, Grid::rounds(n));
            assert!(scores.iter().all(|z| z.abs() < BOUND), "n {n}, keys {walk}: {scores:?}");
        }
    }
}

#[test]
fn every_permutation_of_a_few_samples_is_equally_likely() {
    for n in [2, 3, 4, 5, 6] {
        for (walk, key) in KEYS.into_iter().enumerate() {
            let score = permutation_score(n, 200_000, key, Grid::rounds(n));
            assert!(score.abs() < BOUND, "n {n}, keys {walk}: {score}");
        }
    }
}

#[test]
fn cells_one_apart_do_not_stay_one_apart() {
    let n = 1_280_000;
    let scores = step_scores(n, 2, Grid::rounds(n));
    assert!(scores.iter().all(|z| z.abs() < BOUND), "{scores:?}");
}

#[test]
fn too_few_rounds_are_caught_at_every_size() {
    for (n, trials, rounds) in
        [(3, 100_000, 4), (5, 100_000, 6), (8, 60_000, 4), (16, 40_000, 4), (53, 30_000, 4), (100, 20_000, 4)]
    {
        let [_, adjacent] = scores(n, trials, KEYS[1], rounds);
        assert!(adjacent > 2.0 * BOUND, "n {n} with {rounds} rounds: {adjacent}");
    }
    let [_, adjacent] = bucketed_scores(1_000, 50, 1_000, KEYS[1], 2);
    assert!(adjacent > 2.0 * BOUND, "{adjacent}");
    assert!(permutation_score(6, 200_000, KEYS[1], 12) > 2.0 * BOUND);
    let [_, rows] = step_scores(1_280_000, 1, 4);
    assert!(rows > 2.0 * BOUND, "{rows}");
}

#[test]
fn samples_do_not_follow_their_position_or_their_neighbour() {
    let n = 1_280_000;
    for (seed, epoch) in [(0, 0), (0, 1), (1, 0), (1 << 63, 0)] {
        let order = Order::shuffled(n, seed, epoch);
        let mean = (n - 1) as f64 / 2.0;
        let variance = (n as f64 * n as f64 - 1.0) / 12.0;
        let (mut position_sum, mut neighbour_sum, mut displacement) = (0.0, 0.0, 0.0);
        let mut previous = order.at(n - 1) as f64;
        for position in 0..n {
            let sample = order.at(position) as f64;
            position_sum += (sample - mean) * (position as f64 - mean);
            neighbour_sum += (sample - mean) * (previous - mean);
            displacement += (sample - position as f64).abs();
            previous = sample;
        }
        let n = n as f64;
        let z_position = position_sum / variance / n.sqrt();
        let z_neighbour = neighbour_sum / variance / n.sqrt();
        // |at(i) - i| averages (n² - 1) / 3n with variance of about 2n/45 in a random permutation (Spearman's footrule).
        let z_displacement = (displacement / n - (n * n - 1.0) / (3.0 * n)) / (2.0 * n / 45.0).sqrt();
        for z in [z_position, z_neighbour, z_displacement] {
            assert!(z.abs() < BOUND, "seed {seed} epoch {epoch}: {z_position} {z_neighbour} {z_displacement}");
        }
    }
}
