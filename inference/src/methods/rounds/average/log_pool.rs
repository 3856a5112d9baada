//! Averages natural parameters: the normalised weighted geometric mean of densities.

use faer::Mat;

use super::{Averaging, Members, inverse, weighted};
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
        match Members::of(family, members) {
            Members::Diagonal(members) => {
                let precisions: Vec<Vec<f64>> =
                    members.iter().map(|(_, sds)| sds.iter().map(|sd| sd.powi(-2)).collect()).collect();
                if precisions.iter().flatten().any(|precision| !precision.is_finite()) {
                    let problem = "a standard deviation is zero; a point mass has no precision to pool".to_owned();
                    return Err(Error::Average { operation: "logarithmic pool", problem });
                }
                let total = weighted(precisions.iter().map(Vec::as_slice), weights);
                let shifted: Vec<Vec<f64>> = members
                    .iter()
                    .zip(&precisions)
                    .map(|((mean, _), precision)| mean.iter().zip(precision).map(|(m, p)| m * p).collect())
                    .collect();
                let sum = weighted(shifted.iter().map(Vec::as_slice), weights);
                let mean: Vec<f64> = sum.iter().zip(&total).map(|(s, t)| s / t).collect();
                family.with_moments(&mean, &CovarianceMatrix::Diagonal(total.iter().map(|t| t.powf(-0.5)).collect()))
            }
            Members::Full(members) => {
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
                let mean: Vec<f64> =
                    (0..size).map(|i| (0..size).map(|j| covariance[(i, j)] * shift[j]).sum()).collect();
                family.with_moments(&mean, &CovarianceMatrix::from_matrix(&covariance))
            }
        }
    }
}
