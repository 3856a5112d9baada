//! Measures the distance of two normal densities of one number along the surface of all of them.

use super::MetricError;

/// The Fisher-Rao distance of two normal densities of one number: the length of the shortest path between them when
/// lengths are measured by the Fisher information.
///
/// ```math
/// 2\sqrt2 \operatorname{artanh} \Delta, \qquad
/// \Delta^2 = \frac{(\mu - \mu')^2 + 2(\sigma - \sigma')^2}{(\mu - \mu')^2 + 2(\sigma + \sigma')^2}
/// ```
/// with $`\mu, \sigma`$ = the mean and standard deviation of `normal`, and $`\mu', \sigma'`$ those of `other`. It does
/// not change with units, is symmetric, and satisfies the triangle inequality. For near densities with one standard
/// deviation it is the distance of the means in standard deviations.
///
/// # Errors
/// [`MetricError::Moments`] for a mean that is not finite, or a standard deviation that is not positive and finite.
///
/// # Example
/// ```
/// use partita_inference::metrics::fisher_rao_distance;
/// // With one mean it is the square root of 2 times the log ratio of the standard deviations.
/// let distance = fisher_rao_distance((0.3, 1.0), (0.3, 3.0))?;
/// assert!((distance - 2.0_f64.sqrt() * 3.0_f64.ln()).abs() < 1e-14);
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
///
/// # References
/// Costa, Santos and Strapasson (2015), Fisher information distance: a geometrical reading.
pub fn fisher_rao_distance(normal: (f64, f64), other: (f64, f64)) -> Result<f64, MetricError> {
    for (mean, sd) in [normal, other] {
        if !(mean.is_finite() && sd.is_finite() && sd > 0.0) {
            return Err(MetricError::Moments {
                operation: "Fisher-Rao distance",
                found: format!("mean {mean} and standard deviation {sd}"),
                expected: "a finite mean and a positive standard deviation. Look for the step at which the fit failed",
            });
        }
    }
    let between = (normal.0 - other.0).powi(2);
    let near = between + 2.0 * (normal.1 - other.1).powi(2);
    let far = between + 2.0 * (normal.1 + other.1).powi(2);
    Ok(8.0_f64.sqrt() * (near / far).sqrt().atanh())
}
