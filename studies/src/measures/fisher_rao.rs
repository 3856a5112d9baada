//! Measures the distance of two normal densities of one number along the surface of all of them.

use crate::harness::Result;

/// The Fisher-Rao distance of two normal densities of one number: the length of the shortest path between them when
/// lengths are measured by the Fisher information.
///
/// ```math
/// 2\sqrt2 \operatorname{artanh} \Delta, \qquad
/// \Delta^2 = \frac{(\mu - \mu')^2 + 2(\sigma - \sigma')^2}{(\mu - \mu')^2 + 2(\sigma + \sigma')^2}
/// ```
/// with $\mu, \sigma$ = the mean and standard deviation of `normal`, and $\mu', \sigma'$ those of `other`. It does
/// not change with units, is symmetric, and satisfies the triangle inequality. For near densities with one standard
/// deviation it is the distance of the means in standard deviations.
///
/// # Errors
/// For a mean that is not finite, or a standard deviation that is not positive and finite.
///
/// # Example
/// ```
/// use partita_studies::measures::fisher_rao_distance;
/// // With one mean it is the square root of 2 times the log ratio of the standard deviations.
/// let distance = fisher_rao_distance((0.3, 1.0), (0.3, 3.0)).unwrap();
/// assert!((distance - 2.0_f64.sqrt() * 3.0_f64.ln()).abs() < 1e-14);
/// ```
///
/// # References
/// Costa, Santos and Strapasson (2015), Fisher information distance: a geometrical reading.
pub fn fisher_rao_distance(normal: (f64, f64), other: (f64, f64)) -> Result<f64> {
    for (mean, sd) in [normal, other] {
        if !(mean.is_finite() && sd.is_finite() && sd > 0.0) {
            let found = format!("mean {mean} and standard deviation {sd}");
            let expected = "a finite mean and a positive standard deviation";
            return Err(format!("Fisher-Rao distance: found {found}, expected {expected}.").into());
        }
    }
    let between = (normal.0 - other.0).powi(2);
    let near = between + 2.0 * (normal.1 - other.1).powi(2);
    let far = between + 2.0 * (normal.1 + other.1).powi(2);
    Ok(8.0_f64.sqrt() * (near / far).sqrt().atanh())
}
