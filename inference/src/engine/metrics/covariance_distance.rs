//! Measures how far the covariances of two posteriors lie apart.

use super::MetricError;

/// The Frobenius norm of the difference of two covariances,
/// ```math
/// \lVert\Sigma - \Sigma'\rVert_F = \Bigl(\sum_{ij} (\Sigma_{ij} - \Sigma'_{ij})^2\Bigr)^{1/2}
/// ```
/// with $`\Sigma`$ = `covariance` and $`\Sigma'`$ = `other`, in the squared unit of the latents. It is small wherever
/// both covariances are; [`generalised_variance_difference`](super::generalised_variance_difference()) compares them
/// relatively.
///
/// # Shapes
/// Both `[components, components]`, row by row: what `CovarianceMatrix::dense` gives.
///
/// # Errors
/// [`MetricError::Moments`] unless both have the same square number of entries.
///
/// # Example
/// ```
/// use partita_inference::metrics::covariance_distance;
/// let distance = covariance_distance(&[2.0, 1.0, 1.0, 3.0], &[1.0, -1.0, -1.0, 3.0])?;
/// assert!((distance - 3.0).abs() < 1e-15);
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
pub fn covariance_distance(covariance: &[f64], other: &[f64]) -> Result<f64, MetricError> {
    let size = covariance.len().isqrt();
    if covariance.is_empty() || size * size != covariance.len() || covariance.len() != other.len() {
        return Err(MetricError::Moments {
            operation: "distance of covariances",
            found: format!("matrices of {} and {} entries", covariance.len(), other.len()),
            expected: "two square matrices of one size, row by row. Give `CovarianceMatrix::dense` of posteriors of one model",
        });
    }
    Ok(covariance.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt())
}
