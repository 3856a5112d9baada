//! Averages distributions: the Gaussian nearest to all members in the 2-Wasserstein distance.

use faer::Mat;

use super::means::independent;
use super::{Averaging, Means, eigen, is_diagonal, moments, weighted};
use crate::engine::error::{Error, Result};
use crate::engine::family::{CovarianceMatrix, Family};

/// The 2-Wasserstein barycentre of Gaussians.
///
/// ```math
/// \mu^* = \sum_j w_j\mu_j, \qquad \Sigma^* = \sum_j w_j\left(\Sigma^{*1/2}\Sigma_j\Sigma^{*1/2}\right)^{1/2}
/// ```
/// For diagonal families the standard deviations average, $`\sigma^* = \sum_j w_j\sigma_j`$; otherwise the fixed point
/// is found by iterating $`\Sigma \leftarrow \Sigma^{-1/2}\left(\sum_j
/// w_j(\Sigma^{1/2}\Sigma_j\Sigma^{1/2})^{1/2}\right)^2\Sigma^{-1/2}`$. A low-rank family goes through the full
/// covariance and back.
///
/// # References
/// Agueh and Carlier (2011); Álvarez-Esteban et al. (2016), A fixed-point approach to barycenters in Wasserstein space.
#[derive(Debug, Clone, Copy, Default)]
pub struct Barycentre;

/// Relative change of the covariance at which the iteration has converged, and that at which it has where it no longer
/// falls: rounding leaves more of it the worse the covariances are conditioned.
const TOLERANCE: f64 = 1e-12;
const ROUNDING: f64 = 1e-7;
/// Iterations after which it has not: it contracts quickly, a handful is usual.
const MOST: usize = 500;

impl Averaging for Barycentre {
    fn average(&self, family: &dyn Family, members: &[Vec<f64>], weights: &[f64]) -> Result<Vec<f64>> {
        if let Some(means) = members.first().and_then(|first| self.means(family, first)) {
            return means.average(family, members, weights);
        }
        let members = moments(family, members);
        let mean = weighted(members.iter().map(|(mean, _)| mean.as_slice()), weights);
        // A component that is a point in every member is one in their average: it has no root that could be inverted.
        let free = |&i: &usize| members.iter().any(|(_, covariance)| covariance[(i, i)] != 0.0);
        let free: Vec<usize> = (0..family.len()).filter(free).collect();
        let part = |own: &Mat<f64>| Mat::from_fn(free.len(), free.len(), |i, j| own[(free[i], free[j])]);
        let covariances: Vec<Mat<f64>> = members.iter().map(|(_, covariance)| part(covariance)).collect();
        let found = CovarianceMatrix::from_matrix(&fixed_point(&covariances, weights)?);
        family.with_moments(&mean, &CovarianceMatrix::join(vec![(free, found)], family.len()))
    }

    /// Of diagonal families means and standard deviations.
    fn means(&self, family: &dyn Family, member: &[f64]) -> Option<Means> {
        let of = |family: &dyn Family, member: &[f64]| {
            let (mut numbers, sds) = independent(family, member)?;
            numbers.extend(sds);
            Ok(numbers)
        };
        let back = |family: &dyn Family, numbers: &[f64]| {
            let (mean, sds) = numbers.split_at(family.len());
            family.with_moments(mean, &CovarianceMatrix::Diagonal(sds.to_vec()))
        };
        is_diagonal(family, member).then_some(Means { of, back })
    }
}

/// The covariance of the barycentre.
fn fixed_point(covariances: &[Mat<f64>], weights: &[f64]) -> Result<Mat<f64>> {
    let size = covariances.first().map_or(0, |first| first.nrows());
    let sum = |terms: &dyn Fn(usize) -> Result<Mat<f64>>| -> Result<Mat<f64>> {
        let mut total = Mat::<f64>::zeros(size, size);
        for (index, weight) in weights.iter().enumerate() {
            total += faer::Scale(*weight) * terms(index)?;
        }
        Ok(total)
    };
    let mut current = sum(&|index| Ok(covariances[index].clone()))?;
    let mut before = f64::INFINITY;
    for _ in 0..MOST {
        let own = eigen(&current)?;
        let (root, inverse_root) = (own.function(f64::sqrt), own.function(|value| value.powf(-0.5)));
        let mean_root =
            sum(&|index| Ok(eigen(&(&root * &covariances[index] * &root))?.function(|value| value.max(0.0).sqrt())))?;
        let next = &inverse_root * &mean_root * &mean_root * &inverse_root;
        let change = (&next - &current).norm_l2() / current.norm_l2();
        current = next;
        if !change.is_finite() {
            let problem = "a covariance is not positive definite, or holds a number that is not finite".to_owned();
            return Err(Error::Average { operation: "Wasserstein barycentre", problem });
        }
        if change < TOLERANCE || change < ROUNDING && change >= before {
            return Ok(current);
        }
        before = change;
    }
    let problem = format!("the iteration has not converged in {MOST} rounds; are some covariances nearly singular?");
    Err(Error::Average { operation: "Wasserstein barycentre", problem })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::family::{Blocks, Delta, FullRankGaussian};

    #[test]
    fn a_point_mass_stays_one_beside_latents_that_are_correlated() {
        let parts: [Box<dyn Family>; 2] = [Box::new(Delta::new(1)), Box::new(FullRankGaussian::new(2))];
        let family = Blocks::new([vec![1], vec![0, 2]].into_iter().zip(parts).collect());
        let member = vec![0.7, 1.0, -2.0, 0.3, -0.5, 0.8];
        let average = Barycentre.average(&family, &vec![member.clone(); 3], &[0.2, 0.3, 0.5]).unwrap();
        assert!(average.iter().zip(&member).all(|(found, own)| (found - own).abs() < 1e-9), "{average:?}");
        // Apart in the point and in one mean alone: those are averaged.
        let other = vec![1.7, 1.0, 2.0, 0.3, -0.5, 0.8];
        let average = Barycentre.average(&family, &[member, other], &[0.25, 0.75]).unwrap();
        let expected = [1.45, 1.0, 1.0, 0.3, -0.5, 0.8];
        assert!(average.iter().zip(expected).all(|(found, own)| (found - own).abs() < 1e-9), "{average:?}");
    }
}
