//! Measures how far the means of two posteriors lie apart.

use super::MetricError;

/// The Euclidean distance of two means, $`\lVert\mu - \mu'\rVert_2`$ with $`\mu`$ = `mean` and $`\mu'`$ = `other`, in
/// the unit of the latents.
///
/// # Shapes
/// Both `[components]`.
///
/// # Errors
/// [`MetricError::Moments`] for means of different lengths or without components.
///
/// # Example
/// ```
/// use partita_inference::metrics::mean_distance;
/// assert!((mean_distance(&[1.0, 2.0], &[4.0, -2.0])? - 5.0).abs() < 1e-15);
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
pub fn mean_distance(mean: &[f64], other: &[f64]) -> Result<f64, MetricError> {
    if mean.is_empty() || mean.len() != other.len() {
        return Err(MetricError::Moments {
            operation: "distance of means",
            found: format!("means of {} and {} components", mean.len(), other.len()),
            expected: "two of the same length >= 1. Compare posteriors of one model",
        });
    }
    Ok(mean.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt())
}
