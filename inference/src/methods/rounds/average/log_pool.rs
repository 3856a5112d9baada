//! Averages natural parameters: the normalised weighted geometric mean of densities.

use faer::Mat;

use super::means::independent;
use super::{Averaging, Means, inverse, is_diagonal, moments};
use crate::engine::error::{Error, Result};
use crate::engine::family::{CovarianceMatrix, Family};

/// The logarithmic pool, $`q^* \propto \prod_j q_j^{w_j}`$: a precision-weighted mean.
///
/// ```math
/// \Lambda^* = \sum_j w_j\Lambda_j, \qquad \mu^* = (\Lambda^*)^{-1}\sum_j w_j\Lambda_j\mu_j
/// ```
/// with $\Lambda_j = \Sigma_j^{-1}$, so that a silo that knows more about a latent counts more for it.
///
/// # References
/// Genest and Zidek (1986), Combining probability distributions.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogPool;

impl Averaging for LogPool {
    fn average(&self, family: &dyn Family, members: &[Vec<f64>], weights: &[f64]) -> Result<Vec<f64>> {
        if let Some(means) = members.first().and_then(|first| self.means(family, first)) {
            return means.average(family, members, weights);
        }
        let members = moments(family, members);
        let size = family.len();
        let (mut total, mut shift) = (Mat::<f64>::zeros(size, size), vec![0.0; size]);
        for ((mean, covariance), weight) in members.iter().zip(weights) {
            let precision = inverse(covariance)?;
            for i in 0..size {
                for j in 0..size {
                    total[(i, j)] += weight * precision[(i, j)];
                    shift[i] += weight * precision[(i, j)] * mean[j];
                }
            }
        }
        let covariance = inverse(&total)?;
        let mean: Vec<f64> = (0..size).map(|i| (0..size).map(|j| covariance[(i, j)] * shift[j]).sum()).collect();
        family.with_moments(&mean, &CovarianceMatrix::from_matrix(&covariance))
    }

    /// Of diagonal families precisions, and means times precisions.
    fn means(&self, family: &dyn Family, member: &[f64]) -> Option<Means> {
        let of = |family: &dyn Family, member: &[f64]| {
            let (mean, sds) = independent(family, member)?;
            let mut numbers: Vec<f64> = sds.iter().map(|sd| sd.powi(-2)).collect();
            if numbers.iter().any(|precision| !precision.is_finite()) {
                let problem = "a standard deviation is zero; a point mass has no precision to pool".to_owned();
                return Err(Error::Average { operation: "logarithmic pool", problem });
            }
            numbers.extend(mean.iter().zip(&sds).map(|(mean, sd)| mean * sd.powi(-2)));
            Ok(numbers)
        };
        let back = |family: &dyn Family, numbers: &[f64]| {
            let (total, shift) = numbers.split_at(family.len());
            let mean: Vec<f64> = shift.iter().zip(total).map(|(shift, total)| shift / total).collect();
            family.with_moments(&mean, &CovarianceMatrix::Diagonal(total.iter().map(|t| t.powf(-0.5)).collect()))
        };
        is_diagonal(family, member).then_some(Means { of, back })
    }
}
