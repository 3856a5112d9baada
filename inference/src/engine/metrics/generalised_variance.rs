//! Measures how differently certain two posteriors are, by the determinants of their covariances.

use super::MetricError;
use crate::engine::family::CovarianceMatrix;

/// The difference of the log generalised variances of two posteriors, $`\lvert\log\det\Sigma - \log\det\Sigma'\rvert`$
/// with $`\Sigma`$ = `covariance` and $`\Sigma'`$ = `other`, in nats.
///
/// It does not depend on the units of the latents: 0.7 means that the volume of one ellipsoid is 1.4 times the other's,
/// $`e^{0.7/2}`$. The *standard* generalised variance is $`(\det\Sigma)^{1/d}`$ of $`d`$ components, and the difference
/// of its logarithm this one divided by $`d`$; tables that are said to report it often leave out the division, as this
/// function does.
///
/// # Shapes
/// Both `[components, components]`, row by row: what `CovarianceMatrix::dense` gives.
///
/// # Errors
/// [`MetricError::Moments`] unless both are positive definite matrices of the same size.
///
/// # Example
/// ```
/// use partita_inference::metrics::generalised_variance_difference;
/// // Determinants 5 and 2.
/// let difference = generalised_variance_difference(&[2.0, 1.0, 1.0, 3.0], &[1.0, 0.0, 0.0, 2.0])?;
/// assert!((difference - 2.5_f64.ln()).abs() < 1e-14);
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
///
/// # References
/// Wilks (1932), Certain generalizations in the analysis of variance; SenGupta (1987), Tests for standardized
/// generalized variances of multivariate normal populations of possibly different dimensions.
pub fn generalised_variance_difference(covariance: &[f64], other: &[f64]) -> Result<f64, MetricError> {
    let refuse = |found: String, expected| MetricError::Moments {
        operation: "difference of generalised variances",
        found,
        expected,
    };
    let size = covariance.len().isqrt();
    if covariance.is_empty() || size * size != covariance.len() || covariance.len() != other.len() {
        return Err(refuse(
            format!("matrices of {} and {} entries", covariance.len(), other.len()),
            "two square matrices of one size, row by row. Give `CovarianceMatrix::dense` of posteriors of one model",
        ));
    }
    let log_determinant = |covariance: &[f64]| {
        let factor = CovarianceMatrix::Full(covariance.to_vec()).cholesky();
        let factor = factor.map_err(|_| {
            refuse(format!("{covariance:?}"), "a positive definite matrix. Look for the step at which the fit failed")
        })?;
        Ok(2.0 * (0..size).map(|place| factor[(place, place)].ln()).sum::<f64>())
    };
    Ok((log_determinant(covariance)? - log_determinant(other)?).abs())
}
