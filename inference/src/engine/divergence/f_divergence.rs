//! Estimates any f-divergence by draws, for those that have no closed form.

use std::fmt::Debug;

use partita_core::{Key, Noise, Purpose};
use serde::{Deserialize, Serialize};

use super::{Diverged, Divergence};
use crate::engine::error::{Error, Result};
use crate::engine::family::{CovarianceGradient, MomentGradient};
use crate::engine::moments::mean_and_variance;
use crate::engine::natural::{ExponentialFamily, NormalFamily, dot};
use crate::engine::plug::Plug;

/// What makes an f-divergence, $`D_f(q \,\|\, p) = \mathrm{E}_q[f(p/q)]`$ with convex $`f`$ and $`f(1) = 0`$.
///
/// Both methods are given $`x = \log q - \log p`$, so that $`u = e^{-x}`$ is the ratio, and divide by $`1 + u`$, with
/// which no density ratio grows without bound.
///
/// # Laws
/// `laws::generator` checks that $`f(1) = 0`$, that $`f'' \ge 0`$, and that the two methods are of one $`f`$.
pub trait Generator: Debug + Send + Sync {
    /// $`f(u)/(1 + u)`$.
    fn value(&self, log_ratio: f64) -> f64;

    /// $`u^2 f''(u)/(1 + u)`$.
    fn curvature(&self, log_ratio: f64) -> f64;
}

/// An f-divergence by as many draws from $`q`$ as from $`p`$, a sample of their mixture.
///
/// The draws are those of a key, which a fit sets for every step, and the estimate is unbiased over keys:
/// ```math
/// \nabla D_f = \mathrm{E}_q\Bigl[u^2 f''(u)\,(\partial\theta/\partial\eta)^\top \nabla_\theta(\log q - \log p)\Bigr],
/// \qquad u = p/q,
/// ```
/// the path derivative, exactly zero at $`q = p`$ for every draw. With $`\theta = \mu + \Sigma^{1/2}\varepsilon`$ it is
/// $`\nabla_\theta`$ by the mean and $`\tfrac12\nabla_\theta\,\varepsilon^\top\Sigma^{-1/2}`$, symmetrised, by the
/// covariance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FDivergence<G: Generator> {
    /// What makes the divergence.
    #[serde(skip)]
    pub generator: G,
    /// Draws from each of the two densities.
    pub draws: u32,
    /// What the draws are made from.
    #[serde(skip, default = "first_noise")]
    pub noise: Noise,
    /// Which draws.
    #[serde(skip, default = "first_key")]
    pub key: Key,
}

/// The noise of a divergence that no fit has given any.
fn first_noise() -> Noise {
    Noise::new(0)
}

fn first_key() -> Key {
    Key::new(Purpose::Fit, 0)
}

impl<G: Generator> FDivergence<G> {
    /// The divergence by so many draws from each of the two densities.
    #[must_use]
    pub fn new(generator: G, draws: u32) -> Self {
        Self { generator, draws, noise: first_noise(), key: first_key() }
    }

    /// Refuses so few draws that nothing is known of their error.
    fn check_draws(&self) -> Result<()> {
        let expected = "at least 2, and hundreds for a useful gradient";
        Error::unless(self.draws >= 2, "draws of an f-divergence", self.draws, expected)
    }

    /// The estimate with the standard error of its value, in nats.
    ///
    /// # Errors
    /// [`Error::Improper`] if one of the two is no density; [`Error::Setting`] for fewer than two draws.
    pub fn estimate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<(Diverged, f64)> {
        self.check_draws()?;
        family.check("an f-divergence of a posterior from its cavity: the posterior", q)?;
        family.check("an f-divergence of a posterior from its cavity: the cavity", p)?;
        let size = family.len();
        let constant = family.log_partition(p) - family.log_partition(q);
        let difference: Vec<f64> = q.iter().zip(p).map(|(q, p)| q - p).collect();
        let weight = 1.0 / f64::from(self.draws);
        let stride = if family.is_diagonal() { size + 1 } else { 1 };
        let mut mean = vec![0.0; size];
        let mut covariance = vec![0.0; if family.is_diagonal() { size } else { size * size }];
        let mut stream = self.noise.stream(self.key);
        let values: Vec<f64> = (0..self.draws)
            .map(|_| {
                let mut value = 0.0;
                for natural in [q, p] {
                    let point = family.draw(natural, &mut stream);
                    let log_ratio = dot(&difference, &family.statistics(&point)) + constant;
                    value += self.generator.value(log_ratio);
                    let factor = weight * self.generator.curvature(log_ratio);
                    let (slope, score) = (family.score(&difference, &point), family.score(q, &point));
                    mean.iter_mut().zip(&slope).for_each(|(slot, slope)| *slot += factor * slope);
                    // The score of q is -Σ^{-1/2}ε.
                    let cell = |i: usize, j: usize| -0.25 * (slope[i] * score[j] + slope[j] * score[i]);
                    let cells = (0..size * size).step_by(stride).map(|place| cell(place / size, place % size));
                    covariance.iter_mut().zip(cells).for_each(|(slot, cell)| *slot += factor * cell);
                }
                value
            })
            .collect();
        let form = if family.is_diagonal() { CovarianceGradient::Diagonal } else { CovarianceGradient::Full };
        let (value, variance) = mean_and_variance(&values);
        let gradient = MomentGradient { mean, covariance: form(covariance) };
        Ok((Diverged { value, gradient }, (variance * weight).sqrt()))
    }
}

impl<G: Generator + Clone + 'static> Divergence for FDivergence<G> {
    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged> {
        Ok(self.estimate(family, q, p)?.0)
    }

    fn keyed(&self, noise: Noise, key: Key) -> Option<Plug<dyn Divergence>> {
        Some(Self { noise, key, ..self.clone() }.into())
    }

    fn check(&self) -> Result<()> {
        self.check_draws()
    }
}
