//! Turns counts, traces and draws into the numbers of tables and the points of curves.

use partita::inference::Algorithm;

/// A count as a number to compute with.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub fn real(count: u64) -> f64 {
    count as f64
}

/// Local problems so far whose cavity was no density; 0 for a method without cavities.
#[must_use]
pub fn improper_cavities(algorithm: &dyn Algorithm) -> u64 {
    algorithm.counts().and_then(|counts| counts.of("improper_cavities")).unwrap_or(0)
}

/// The mean; NaN of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / real(values.len() as u64)
}

/// The standard deviation with divisor one less than the number; NaN for fewer than two.
#[must_use]
pub fn sample_sd(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (real(values.len() as u64) - 1.0)).sqrt()
}

/// The largest of numbers of at least zero; 0 of none, and NaN if one of them is, which `f64::max` would pass over.
#[must_use]
pub fn largest(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().fold(0.0, |largest, own| if own.is_nan() || own > largest { own } else { largest })
}

/// Mean and standard deviation of the draws of each latent.
#[must_use]
pub fn moments(draws: &[Vec<f64>]) -> Vec<(f64, f64)> {
    draws.iter().map(|values| (mean(values), sample_sd(values))).collect()
}

/// A trace as the points of a curve.
#[must_use]
pub fn curve_of(trace: &[(u64, f64)]) -> Vec<(f64, f64)> {
    trace.iter().map(|(step, value)| (real(*step), *value)).collect()
}

/// A trace as at most `points` points: means over intervals, each at its last step.
#[must_use]
pub fn thinned(trace: &[(u64, f64)], points: usize) -> Vec<(f64, f64)> {
    let stretch = trace.len().div_ceil(points).max(1);
    let point = |part: &[(u64, f64)]| {
        let values: Vec<f64> = part.iter().map(|(_, value)| *value).collect();
        (real(part.last().map_or(0, |(step, _)| *step)), mean(&values))
    };
    trace.chunks(stretch).map(point).collect()
}
