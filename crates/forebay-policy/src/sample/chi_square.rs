//! How far counts are from what chance would give.

/// Pearson's statistic of counts that should all be `expected`.
pub(super) fn statistic(counts: impl IntoIterator<Item = u64>, expected: f64) -> f64 {
    counts.into_iter().map(|count| (count as f64 - expected).powi(2) / expected).sum()
}

/// The statistic as a standard normal deviate, by the cube root of Wilson and Hilferty.
pub(super) fn z(statistic: f64, freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// The bound of every test in this crate: chance passes it once in 150,000 tests, and the tests are deterministic.
pub(super) const BOUND: f64 = 4.5;

#[test]
fn the_deviate_of_tabulated_quantiles_is_that_of_the_normal() {
    // Upper 0.1 % points of chi-square with 10 and 100 degrees of freedom, and the normal's.
    assert!((z(29.588, 10.0) - 3.090).abs() < 0.02);
    assert!((z(149.449, 100.0) - 3.090).abs() < 0.01);
}
