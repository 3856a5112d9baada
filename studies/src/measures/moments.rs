//! Compares the means and covariances of two posteriors of one model.

use partita::inference::{ExponentialFamily, NormalFamily};

use crate::harness::{Result, real};

/// The Euclidean distance of two means, $\lVert\mu - \mu'\rVert_2$ with $\mu$ = `mean` and $\mu'$ = `other`, in the
/// unit of the latents.
///
/// # Errors
/// For means of different lengths or without components.
///
/// # Example
/// ```
/// use partita_studies::measures::mean_distance;
/// assert!((mean_distance(&[1.0, 2.0], &[4.0, -2.0]).unwrap() - 5.0).abs() < 1e-15);
/// ```
pub fn mean_distance(mean: &[f64], other: &[f64]) -> Result<f64> {
    if mean.is_empty() || mean.len() != other.len() {
        let lengths = format!("means of {} and {} components", mean.len(), other.len());
        return Err(format!("distance of means: found {lengths}, expected two of the same length >= 1.").into());
    }
    Ok(distance(mean, other))
}

/// The Frobenius norm of the difference of two covariances, in the squared unit of the latents:
/// $\lVert\Sigma - \Sigma'\rVert_F$ with $\Sigma$ = `covariance` and $\Sigma'$ = `other`.
///
/// It is small wherever both covariances are; [`generalised_variance_difference`] compares them relatively.
///
/// # Shapes
/// Both `[components, components]`, row by row: what `CovarianceMatrix::dense` gives.
///
/// # Errors
/// Unless both have the same square number of entries.
///
/// # Example
/// ```
/// use partita_studies::measures::covariance_distance;
/// let distance = covariance_distance(&[2.0, 1.0, 1.0, 3.0], &[1.0, -1.0, -1.0, 3.0]).unwrap();
/// assert!((distance - 3.0).abs() < 1e-15);
/// ```
pub fn covariance_distance(covariance: &[f64], other: &[f64]) -> Result<f64> {
    size("distance of covariances", covariance, other)?;
    Ok(distance(covariance, other))
}

/// The difference of the log generalised variances of two posteriors, $\lvert\log\det\Sigma - \log\det\Sigma'\rvert$
/// with $\Sigma$ = `covariance` and $\Sigma'$ = `other`, in nats.
///
/// It does not depend on the units of the latents: 0.7 means that the volume of one ellipsoid is 1.4 times the other's,
/// $e^{0.7/2}$. The *standard* generalised variance is $(\det\Sigma)^{1/d}$ of $d$ components, and the difference of
/// its logarithm this one divided by $d$; tables that are said to report it often leave out the division, as this
/// function does.
///
/// # Shapes
/// Both `[components, components]`, row by row: what `CovarianceMatrix::dense` gives.
///
/// # Errors
/// Unless both are positive definite matrices of the same size.
///
/// # Example
/// ```
/// use partita_studies::measures::generalised_variance_difference;
/// // Determinants 5 and 2.
/// let difference = generalised_variance_difference(&[2.0, 1.0, 1.0, 3.0], &[1.0, 0.0, 0.0, 2.0]).unwrap();
/// assert!((difference - 2.5_f64.ln()).abs() < 1e-14);
/// ```
///
/// # References
/// Wilks (1932), Certain generalizations in the analysis of variance; SenGupta (1987), Tests for standardized
/// generalized variances of multivariate normal populations of possibly different dimensions.
pub fn generalised_variance_difference(covariance: &[f64], other: &[f64]) -> Result<f64> {
    let size = size("difference of generalised variances", covariance, other)?;
    Ok((log_determinant(covariance, size)? - log_determinant(other, size)?).abs())
}

/// The log determinant of a covariance, from the entropy of a normal density that has it.
fn log_determinant(covariance: &[f64], size: usize) -> Result<f64> {
    let family = NormalFamily::full(size);
    let packed = (0..size).flat_map(|row| &covariance[row * size..=row * size + row]);
    let standard: Vec<f64> = std::iter::repeat_n(&0.0, size).chain(packed).copied().collect();
    let natural = family.natural_of_standard(&standard)?;
    Ok(2.0 * family.entropy(&natural) - real(size as u64) * (1.0 + std::f64::consts::TAU.ln()))
}

/// The number of components of two covariances.
fn size(operation: &str, covariance: &[f64], other: &[f64]) -> Result<usize> {
    let size = covariance.len().isqrt();
    if covariance.is_empty() || size * size != covariance.len() || covariance.len() != other.len() {
        let lengths = format!("matrices of {} and {} entries", covariance.len(), other.len());
        return Err(format!("{operation}: found {lengths}, expected two square ones of one size, row by row.").into());
    }
    Ok(size)
}

fn distance(values: &[f64], other: &[f64]) -> f64 {
    values.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}
