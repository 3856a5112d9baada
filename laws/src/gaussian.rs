//! Gives the log density of a Gaussian from its mean and covariance, as the slow truth that families are held against.

use faer::Mat;
use faer::linalg::solvers::{Llt, Solve};
use partita_core::special::HALF_LOG_TWO_PI;

/// A Gaussian whose components of variance zero are point masses, left out of its density by convention.
pub(super) struct Closed {
    mean: Vec<f64>,
    free: Vec<usize>,
    factor: Llt<f64>,
}

impl Closed {
    /// The Gaussian of this mean and covariance (row-major); `None` if what is left of it is not positive definite.
    pub(super) fn new(mean: Vec<f64>, covariance: &[f64]) -> Option<Self> {
        let length = mean.len();
        let free: Vec<usize> = (0..length).filter(|i| covariance[i * length + i] > 0.0).collect();
        let matrix = Mat::from_fn(free.len(), free.len(), |i, j| covariance[free[i] * length + free[j]]);
        let factor = Llt::new(matrix.as_ref(), faer::Side::Lower).ok()?;
        Some(Self { mean, free, factor })
    }

    /// The components that are no point masses.
    pub(super) fn free(&self) -> &[usize] {
        &self.free
    }

    /// $-\tfrac12 (z-\mu)^\top\Sigma^{-1}(z-\mu) - \tfrac12\log|\Sigma| - \tfrac n2\log 2\pi$ over those components.
    pub(super) fn log_density(&self, latent: &[f64]) -> f64 {
        let deviation = Mat::from_fn(self.free.len(), 1, |i, _| latent[self.free[i]] - self.mean[self.free[i]]);
        let solved = self.factor.solve(&deviation);
        let terms = (0..self.free.len()).map(|i| {
            let quadratic = deviation[(i, 0)] * solved[(i, 0)];
            -0.5 * quadratic - self.factor.L()[(i, i)].ln() - HALF_LOG_TWO_PI
        });
        terms.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_density_of_two_correlated_numbers_is_the_textbooks() {
        let closed = Closed::new(vec![1.0, -1.0, 9.0], &[4.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0]).unwrap();
        assert_eq!(closed.free(), [0, 1]);
        // Σ⁻¹ = [[2, -1], [-1, 4]]/7 and |Σ| = 7; the deviation is (1, 2).
        let expected = -0.5 * (2.0 - 4.0 + 16.0) / 7.0 - 0.5 * 7.0_f64.ln() - (2.0 * std::f64::consts::PI).ln();
        assert!((closed.log_density(&[2.0, 1.0, 9.0]) - expected).abs() < 1e-14);
    }
}
