//! Gives the mean and the unbiased variance of a list of numbers.

/// The mean and the unbiased variance of a list.
pub(crate) fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, variance)
}
