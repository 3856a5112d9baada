//! Gives the isotropic Gaussian family: independent components that share one standard deviation.

use partita_core::kernel::{add_scaled, dot};

use super::diagonal::real;
use super::{CovarianceMatrix, Family, FamilyDraw, HALF_LOG_TWO_PI, MomentGradient};
use crate::engine::error::Result;

/// The variance of the isotropic density $`q`$ with the least $`\mathrm{KL}(p \,\|\, q)`$ from a density $`p`$ of the
/// same mean with these standard deviations, of which there is at least one: the mean of their squares.
///
/// Up to a constant the divergence is $`\tfrac12(\sum_i \sigma_i^2/v + n\log v)`$, whatever the correlations of $`p`$,
/// which is least at $`v = \tfrac1n\sum_i\sigma_i^2`$.
pub(crate) fn shared_variance(deviations: &[f64]) -> f64 {
    deviations.iter().map(|sd| sd * sd).sum::<f64>() / real(deviations.len())
}

/// The Gaussian with independent components of one standard deviation, $`Z = \mu + \sigma\varepsilon`$ with a number
/// $`\sigma`$.
///
/// One uncertainty for all latents, with one number to learn and to send beside their means. It is not for latents on
/// different scales, of which it says what is true of their mean alone: [`crate::DiagonalGaussian`] is.
///
/// # Shapes
/// Parameters: $`[\mu\ (n), \log\sigma\ (1)]`$; none over no latent.
///
/// # Laws
/// It is [`crate::DiagonalGaussian`] with equal scales: what reaches $`\log\sigma`$ is the sum of what reaches theirs
/// (`tests/exactness/isotropic.rs`).
///
/// # Example
/// ```
/// use partita_inference::{Family, IsotropicGaussian, CovarianceMatrix};
/// let family = IsotropicGaussian::new(2);
/// let draw = family.draw(&[1.0, -1.0, 0.0], &[2.0, 0.5]);
/// assert_eq!(draw.latent, [3.0, -0.5]);
/// // The nearest member to variances of 1 and 7 has their mean.
/// let nearest = family.with_moments(&[1.0, -1.0], &CovarianceMatrix::Diagonal(vec![1.0, 7.0_f64.sqrt()]))?;
/// assert!((nearest[2] - 2.0_f64.ln()).abs() < 1e-15);
/// # Ok::<(), partita_inference::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct IsotropicGaussian {
    len: usize,
}

impl IsotropicGaussian {
    /// The family over vectors of length `len`.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { len }
    }

    /// Splits parameters into mean and log scale.
    fn split<'a>(&self, parameters: &'a [f64]) -> (&'a [f64], f64) {
        let (mean, log_scale) = parameters.split_at(self.len);
        (mean, log_scale.first().copied().unwrap_or_default())
    }

    /// Adds to the slot of the log scale, where there is one.
    fn add_to_scale(&self, slope: f64, out: &mut [f64]) {
        out[self.len..].iter_mut().for_each(|slot| *slot += slope);
    }

    /// Adds to `out` what a gradient by the variances is by the logarithm of the scale: d/d log σ = 2 σ² Σ d/dσᵢ².
    fn add_by_variance(&self, parameters: &[f64], gradient: &[f64], out: &mut [f64]) {
        let (_, log_scale) = self.split(parameters);
        self.add_to_scale(2.0 * (2.0 * log_scale).exp() * gradient.iter().sum::<f64>(), out);
    }
}

impl Family for IsotropicGaussian {
    fn len(&self) -> usize {
        self.len
    }

    fn parameter_len(&self) -> usize {
        self.len + self.len.min(1)
    }

    fn initial(&self, scale: f64) -> Vec<f64> {
        let mut parameters = vec![0.0; self.parameter_len()];
        parameters[self.len..].fill(scale.ln());
        parameters
    }

    fn draw(&self, parameters: &[f64], noise: &[f64]) -> FamilyDraw {
        let (mean, log_scale) = self.split(parameters);
        let scale = log_scale.exp();
        let deviation: Vec<f64> = noise.iter().map(|e| scale * e).collect();
        let latent = mean.iter().zip(&deviation).map(|(m, d)| m + d).collect();
        // log q = -½|ε|² - n log σ - ..., and ε = (Z - μ)/σ, so the score is -ε/σ.
        let score = noise.iter().map(|e| -e / scale).collect();
        let log_density = -0.5 * dot(noise, noise) - real(self.len) * (log_scale + HALF_LOG_TWO_PI);
        FamilyDraw { latent, deviation, log_density, score }
    }

    fn vjp(&self, parameters: &[f64], noise: &[f64], grad_mean: &[f64], grad_offset: &[f64], out: &mut [f64]) {
        let (_, log_scale) = self.split(parameters);
        add_scaled(&mut out[..self.len], 1.0, grad_mean);
        // Z - μ = σε, of which d/d log σ is itself.
        self.add_to_scale(log_scale.exp() * dot(grad_offset, noise), out);
    }

    fn vjp_variance(&self, parameters: &[f64], gradient: &[f64], out: &mut [f64]) -> Result<()> {
        self.add_by_variance(parameters, gradient, out);
        Ok(())
    }

    fn vjp_moments(&self, parameters: &[f64], gradient: &MomentGradient, out: &mut [f64]) {
        add_scaled(&mut out[..self.len], 1.0, &gradient.mean);
        self.add_by_variance(parameters, &gradient.covariance.by_variance(self.len), out);
    }

    fn mean(&self, parameters: &[f64]) -> Vec<f64> {
        parameters[..self.len].to_vec()
    }

    fn entropy(&self, parameters: &[f64]) -> f64 {
        let (_, log_scale) = self.split(parameters);
        real(self.len) * (log_scale + 0.5 + HALF_LOG_TWO_PI)
    }

    fn add_entropy_gradient(&self, _: &[f64], out: &mut [f64]) {
        self.add_to_scale(real(self.len), out);
    }

    fn covariance_matrix(&self, parameters: &[f64]) -> CovarianceMatrix {
        let (_, log_scale) = self.split(parameters);
        CovarianceMatrix::Diagonal(vec![log_scale.exp(); self.len])
    }

    /// The member with the mean of the variances.
    fn with_moments(&self, mean: &[f64], spread: &CovarianceMatrix) -> Result<Vec<f64>> {
        let log_scale = (!mean.is_empty()).then(|| 0.5 * shared_variance(&spread.deviations()).ln());
        Ok(mean.iter().copied().chain(log_scale).collect())
    }
}
