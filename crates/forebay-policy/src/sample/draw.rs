//! The random numbers of a sample.
//!
//! A crop, a flip or a noise field is drawn from a generator that is keyed by seed, epoch and sample, and never from
//! one that threads share. Whichever worker prepares the sample, on whichever node and after whichever restart, draws
//! the same numbers. Each operation of a pipeline has a stream of its own, so that one which draws more or less than
//! before does not change what the next one sees.
//!
//! The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
//! SC 2011): a bijection of 128-bit counters under a 64-bit key. Seed, epoch and occurrence make the key; sample,
//! operation and block number are the counter.
//!
//! **Invariant:** under one key no two streams ever share a block, since their counters differ.
//!
//! **Invariant:** every draw is the same on every machine. Only integer arithmetic and the correctly rounded `+ - × ÷ √`
//! of IEEE 754 are used; the `ln` and `cos` of the platform are not.
//!
//! Cost: a [`Key`] or [`Rng`] takes a few nanoseconds to make and no allocation (`benches/draw.rs`).

use super::mix::{self, Purpose};

/// The right to draw the random numbers of one sample in one epoch.
///
/// ```
/// use forebay_policy::Key;
///
/// const CROP: u32 = 0;
/// const FLIP: u32 = 1;
///
/// let key = Key::new(42, 3, 1_000_007);
/// let left = key.rng(CROP).below(33);
/// let flip = key.rng(FLIP).chance(0.5);
/// assert_eq!(key.rng(CROP).below(33), left, "a stream starts anew each time it is asked for");
/// assert_eq!(key.rng(FLIP).chance(0.5), flip);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    key: u64,
    sample: u64,
}

impl Key {
    /// The key of a sample in an epoch.
    #[must_use]
    #[inline]
    pub fn new(seed: u64, epoch: u64, sample: u64) -> Self {
        Self::at(seed, epoch, sample, 0)
    }

    /// The key of the `occurrence`-th time, from zero, that an epoch holds this sample.
    ///
    /// Samplers that draw with replacement use this, so that a repeated sample is augmented anew. Occurrence zero is
    /// [`Key::new`].
    #[must_use]
    #[inline]
    pub fn at(seed: u64, epoch: u64, sample: u64, occurrence: u64) -> Self {
        Self { key: mix::key(Purpose::Draw, seed, epoch, occurrence), sample }
    }

    /// The stream of one operation, from its beginning.
    #[must_use]
    #[inline]
    pub fn rng(&self, operation: u32) -> Rng {
        Rng { key: halves(self.key), operation, sample: halves(self.sample), block: 0, spare: None }
    }
}

/// A stream of random numbers that belongs to one sample and one operation.
///
/// It holds 2³³ words of 64 bits, and then begins anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    key: [u32; 2],
    operation: u32,
    sample: [u32; 2],
    block: u32,
    /// The second word of the block that was made last.
    spare: Option<u64>,
}

impl Rng {
    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        if let Some(word) = self.spare.take() {
            return word;
        }
        let [low, high] = self.sample;
        let [a, b, c, d] = philox([self.block, self.operation, low, high], self.key);
        self.block = self.block.wrapping_add(1);
        self.spare = Some(whole([c, d]));
        whole([a, b])
    }

    /// A number in `[0, 1)`: a multiple of 2⁻⁵³, each equally likely.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.next_u64() >> 11) as f64 * UNIT
    }

    /// A number in `[low, high)`, or `low` where the two are equal.
    ///
    /// # Panics
    ///
    /// If `low` exceeds `high`, or either is not a number.
    #[inline]
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        assert!(low <= high, "the range from {low} to {high} is empty");
        let value = low + (high - low) * self.uniform();
        // The sum may round up to the bound that is excluded.
        if value < high || low == high { value } else { high.next_down() }
    }

    /// A whole number in `[0, n)`, each exactly equally likely.
    ///
    /// Lemire's method ("Fast random integer generation in an interval", 2019): one multiplication, and a division
    /// only where a draw may have to be rejected, with probability of less than `n` in 2⁶⁴.
    ///
    /// # Panics
    ///
    /// If `n` is zero.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no number is below zero");
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            let rest = product as u64;
            if rest >= n || rest >= n.wrapping_neg() % n {
                return (product >> 64) as u64;
            }
        }
    }

    /// True with probability `p`. Always takes one word, and is certain from 1 on and impossible down from 0.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// A number from the standard normal distribution, for fields of noise.
    ///
    /// One word gives one number, by the inverse of the distribution function, so nothing is rejected and the tails
    /// reach 8.2. The relative error is below 10⁻⁶.
    #[inline]
    pub fn normal(&mut self) -> f32 {
        // The middles of 2⁵² equal parts of (0, 1): never 0 or 1, and symmetric.
        const UNIT: f64 = 1.0 / (1_u64 << 52) as f64;
        normal_quantile(((self.next_u64() >> 12) as f64 + 0.5) * UNIT) as f32
    }
}

/// Ten rounds of Philox4x32.
#[inline]
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut a, mut b, mut c, mut d], [mut left, mut right]) = (counter, key);
    for _ in 0..10 {
        let [low0, high0] = halves(u64::from(a) * 0xd251_1f53);
        let [low1, high1] = halves(u64::from(c) * 0xcd9e_8d57);
        [a, b, c, d] = [high1 ^ b ^ left, low1, high0 ^ d ^ right, low0];
        left = left.wrapping_add(0x9e37_79b9);
        right = right.wrapping_add(0xbb67_ae85);
    }
    [a, b, c, d]
}

/// The low and the high half of a word.
#[inline]
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// The word of a low and a high half.
#[inline]
fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The number below which a standard normal variable falls with probability `p`, in `(0, 1)`.
///
/// Wichura's algorithm AS 241, PPND7 (Applied Statistics 37, 1988): a rational function in the middle, where 85 % of
/// the draws fall, and two of `√(−ln p)` in the tails.
#[inline]
fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        let above = polynomial([3.387_132_717_9, 50.434_271_938, 159.291_132_02, 59.109_374_72], r);
        let below = polynomial([1.0, 17.895_169_469, 78.757_757_664, 67.187_563_6], r);
        return q * above / below;
    }
    let r = (-natural_log(p.min(1.0 - p))).sqrt();
    let tail = if r <= 5.0 {
        let r = r - 1.6;
        let above = polynomial([1.423_437_277_7, 2.756_815_39, 1.306_728_481_6, 0.170_238_211_03], r);
        above / polynomial([1.0, 0.737_001_642_5, 0.120_211_329_75], r)
    } else {
        let r = r - 5.0;
        let above = polynomial([6.657_905_115, 3.081_226_386, 0.428_682_943_37, 0.017_337_203_997], r);
        above / polynomial([1.0, 0.241_978_942_25, 0.012_258_202_635], r)
    };
    tail.copysign(q)
}

/// The logarithm of a normal number, by the series of the inverse hyperbolic tangent: within 10⁻¹³, on every machine.
fn natural_log(x: f64) -> f64 {
    use std::f64::consts::{LN_2, SQRT_2};
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as f64 - 1023.0;
    let mut mantissa = f64::from_bits(bits & FRACTION | 1.0_f64.to_bits());
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1.0;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let series = [1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0, 1.0 / 15.0];
    exponent * LN_2 + 2.0 * s * polynomial(series, s * s)
}

/// The polynomial with these coefficients, lowest first.
#[inline]
fn polynomial<const N: usize>(coefficients: [f64; N], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::{Key, Rng, natural_log, normal_quantile, philox};
    use crate::sample::chi_square::{BOUND, statistic, z};
    use proptest::prelude::*;

    #[test]
    fn philox_gives_the_published_vectors() {
        // From `tests/kat_vectors` of Random123, lines `philox4x32 10`.
        let all = u32::MAX;
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        for (counter, key, expected) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([all; 4], [all; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ] {
            assert_eq!(philox(counter, key), expected);
        }
    }

    // A change of these values changes what every published run has drawn.
    #[test]
    fn draws_are_the_ones_that_were_promised() {
        let key = Key::new(0, 0, 0);
        let mut rng = key.rng(0);
        assert_eq!(
            std::array::from_fn::<u64, 4, _>(|_| rng.next_u64()),
            [0xfe4a_947c_2256_2250, 0x0766_9e25_beb6_224c, 0x795f_d19c_4e9b_c5b4, 0x00bf_341e_4fcd_845c]
        );
        assert_eq!(Key::at(1, 2, 3, 4).rng(5).next_u64(), 0x3076_26d8_10e9_4e9e);
        let mut rng = Key::new(0, 0, 1).rng(0);
        assert_eq!(
            std::array::from_fn::<u32, 4, _>(|_| rng.normal().to_bits()),
            [0xbf2e_922c, 0x3f1e_a090, 0xbcfb_d4ba, 0xbe84_998d]
        );
    }

    #[test]
    fn the_first_occurrence_is_the_sample_itself_and_later_ones_are_not() {
        assert_eq!(Key::at(1, 2, 3, 0), Key::new(1, 2, 3));
        assert_ne!(Key::at(1, 2, 3, 1), Key::new(1, 2, 3));
        assert_ne!(Key::at(1, 2, 3, 1), Key::at(1, 3, 3, 0));
    }

    #[test]
    fn streams_of_neighbours_share_no_word() {
        let mut met = std::collections::HashSet::new();
        for (seed, epoch) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            for (sample, occurrence) in [(0, 0), (0, 1), (1, 0), (1 << 32, 0)] {
                for operation in 0..4 {
                    let mut rng = Key::at(seed, epoch, sample, occurrence).rng(operation);
                    for _ in 0..100 {
                        assert!(met.insert(rng.next_u64()));
                    }
                }
            }
        }
    }

    #[test]
    fn uniform_draws_fill_their_range_evenly() {
        for key in [Key::new(0, 0, 0), Key::new(0, 0, 1), Key::new(1 << 63, 9, 12_345)] {
            let mut rng = key.rng(0);
            let (mut coarse, mut low_bits, mut dice) = ([0; 1000], [0; 256], [0; 7]);
            for _ in 0..1_000_000 {
                let value = rng.uniform();
                assert!((0.0..1.0).contains(&value));
                coarse[(value * 1000.0) as usize] += 1;
                low_bits[(rng.next_u64() & 255) as usize] += 1;
                dice[rng.below(7) as usize] += 1;
            }
            for score in [
                z(statistic(coarse, 1000.0), 999.0),
                z(statistic(low_bits, 1e6 / 256.0), 255.0),
                z(statistic(dice, 1e6 / 7.0), 6.0),
            ] {
                assert!(score.abs() < BOUND, "{key:?}: {score}");
            }
        }
    }

    #[test]
    fn below_is_unbiased_where_a_plain_product_is_not() {
        // Of three parts of 2⁶⁴, a plain product would give every third number twice the weight.
        let n = (1_u64 << 63) + (1 << 62);
        let mut rng = Key::new(3, 0, 0).rng(0);
        let mut counts = [0; 3];
        for _ in 0..300_000 {
            counts[(rng.below(n) % 3) as usize] += 1;
        }
        let score = z(statistic(counts, 100_000.0), 2.0);
        assert!(score.abs() < BOUND, "{score} of {counts:?}");
    }

    #[test]
    fn streams_that_differ_in_one_thing_are_independent() {
        type Pair = fn(u64) -> [Rng; 2];
        let pairs: [(&str, Pair); 5] = [
            ("sample", |i| [Key::new(0, 0, i).rng(0), Key::new(0, 0, i + 1).rng(0)]),
            ("epoch", |i| [Key::new(0, i, 5).rng(0), Key::new(0, i + 1, 5).rng(0)]),
            ("seed", |i| [Key::new(i, 0, 5).rng(0), Key::new(i + 1, 0, 5).rng(0)]),
            ("operation", |i| [Key::new(0, 0, i).rng(0), Key::new(0, 0, i).rng(1)]),
            ("occurrence", |i| [Key::at(0, 0, i, 0).rng(0), Key::at(0, 0, i, 1).rng(0)]),
        ];
        let trials = 200_000;
        for (what, pair) in pairs {
            let (mut joint, mut correlation, mut equal_bits) = ([0; 256], 0.0, 0);
            for i in 0..trials {
                let [left, right] = pair(i).map(|mut rng| rng.next_u64());
                joint[(left >> 60 << 4 | right >> 60) as usize] += 1;
                let centred = |word: u64| word as f64 / 2_f64.powi(64) - 0.5;
                correlation += centred(left) * centred(right) * 12.0;
                equal_bits += u64::from((left ^ right).count_zeros());
            }
            let trials = trials as f64;
            for score in [
                z(statistic(joint, trials / 256.0), 255.0),
                correlation / trials.sqrt(),
                (equal_bits as f64 - 32.0 * trials) / (16.0 * trials).sqrt(),
            ] {
                assert!(score.abs() < BOUND, "{what}: {score}");
            }
        }
    }

    #[test]
    fn normal_quantiles_are_those_of_the_tables() {
        for (p, quantile) in [
            (0.5, 0.0),
            (0.6, 0.253_347_103_135_8),
            (0.9, 1.281_551_565_544_6),
            (0.95, 1.644_853_626_951_5),
            (0.975, 1.959_963_984_540_1),
            (0.999, 3.090_232_306_167_8),
            (0.999_999, 4.753_424_308_822_9),
            (1e-10, -6.361_340_902_404_1),
            (1e-15, -7.941_345_326_170_998),
        ] {
            assert!((normal_quantile(p) - quantile).abs() <= 1e-6 * quantile.abs(), "{p}: {}", normal_quantile(p));
        }
    }

    #[test]
    fn normal_draws_have_the_moments_and_the_shape_of_the_normal() {
        let mut rng = Key::new(0, 0, 0).rng(3);
        let trials = 1_000_000;
        let (mut moments, mut cells) = ([0.0; 4], [0; 100]);
        let edges: Vec<f64> = (1..100).map(|i| normal_quantile(f64::from(i) / 100.0)).collect();
        for _ in 0..trials {
            let value = f64::from(rng.normal());
            let mut power = 1.0;
            for moment in &mut moments {
                power *= value;
                *moment += power;
            }
            cells[edges.partition_point(|&edge| edge < value)] += 1;
        }
        let n = f64::from(trials);
        // The variances of x, x², x³ and x⁴ are 1, 2, 15 and 96.
        for (moment, mean, variance) in [(0, 0.0, 1.0), (1, 1.0, 2.0), (2, 0.0, 15.0), (3, 3.0, 96.0)] {
            let score = (moments[moment] / n - mean) / (variance / n).sqrt();
            assert!(f64::abs(score) < BOUND, "moment {}: {score}", moment + 1);
        }
        let score = z(statistic(cells, n / 100.0), 99.0);
        assert!(score.abs() < BOUND, "{score}");
    }

    proptest! {
        #[test]
        fn our_logarithm_is_the_logarithm(x in f64::MIN_POSITIVE..1.0, exponent in 0..60) {
            let x = (x / 2_f64.powi(exponent)).max(f64::MIN_POSITIVE);
            prop_assert!((natural_log(x) - x.ln()).abs() <= 1e-13 * (1.0 + x.ln().abs()));
        }

        #[test]
        fn a_range_holds_its_draws(sample: u64, low in -1e6..1e6_f64, width in 0.0..1e6_f64) {
            let high = low + width;
            let value = Key::new(0, 0, sample).rng(0).range(low, high);
            prop_assert!(low <= value && (value < high || low == high));
        }

        #[test]
        fn a_draw_below_n_is_below_n(sample: u64, n in 1..=u64::MAX) {
            prop_assert!(Key::new(0, 0, sample).rng(0).below(n) < n);
        }

        #[test]
        fn certain_and_impossible_chances_are_so(sample: u64) {
            let mut rng = Key::new(0, 0, sample).rng(0);
            prop_assert!(rng.chance(1.0) && !rng.chance(0.0));
        }
    }

    #[test]
    fn a_range_without_room_for_a_draw_gives_its_lower_end() {
        let high = 1.0_f64.next_up();
        let mut rng = Key::new(0, 0, 0).rng(0);
        assert!((0..1000).all(|_| rng.range(1.0, high) == 1.0));
        assert_eq!(rng.range(2.0, 2.0), 2.0);
    }
}
