//! Gives the point-mass family: maximum a posteriori estimation of chosen latents.

use super::{CovarianceMatrix, Family, FamilyDraw, MomentGradient};
use crate::engine::error::Result;

/// All mass at one point, $Z = \mu$: its fit is the posterior mode on the unconstrained scale.
///
/// Its entropy is $-\infty$; by convention it contributes 0 nats, so that the "ELBO" is the log joint density there and
/// is not a bound on the evidence. Use it for nuisance latents only, and report no uncertainty from it.
///
/// # Shapes
/// Parameters: $[\mu\ (n)]$.
#[derive(Debug, Clone, Copy)]
pub struct Delta {
    len: usize,
}

impl Delta {
    /// The family over vectors of length `len`.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { len }
    }
}

impl Family for Delta {
    fn len(&self) -> usize {
        self.len
    }

    fn parameter_len(&self) -> usize {
        self.len
    }

    fn noise_len(&self) -> usize {
        0
    }

    fn initial(&self, _: f64) -> Vec<f64> {
        vec![0.0; self.len]
    }

    fn draw(&self, parameters: &[f64], _: &[f64]) -> FamilyDraw {
        let zeros = vec![0.0; self.len];
        FamilyDraw { latent: parameters.to_vec(), deviation: zeros.clone(), log_density: 0.0, score: zeros }
    }

    fn vjp(&self, _: &[f64], _: &[f64], grad_mean: &[f64], _: &[f64], out: &mut [f64]) {
        out.iter_mut().zip(grad_mean).for_each(|(slot, a)| *slot += a);
    }

    fn vjp_moments(&self, _: &[f64], gradient: &MomentGradient, out: &mut [f64]) {
        out.iter_mut().zip(&gradient.mean).for_each(|(slot, g)| *slot += g);
    }

    fn entropy(&self, _: &[f64]) -> f64 {
        0.0
    }

    fn add_entropy_gradient(&self, _: &[f64], _: &mut [f64]) {}

    fn covariance_matrix(&self, _: &[f64]) -> CovarianceMatrix {
        CovarianceMatrix::Diagonal(vec![0.0; self.len])
    }

    fn with_moments(&self, mean: &[f64], _: &CovarianceMatrix) -> Result<Vec<f64>> {
        Ok(mean.to_vec())
    }
}
