//! Gives the divergence of Kullback and Leibler from the posterior's side, for cavities that need be no density.

use super::axes::Axes;
use super::{Diverged, Divergence};
use crate::error::Result;
use crate::exponential_family::{ExponentialFamily, NormalFamily, dot};
use crate::family::{CovarianceGradient, HALF_LOG_TWO_PI, MomentGradient, Spread};

/// $`\mathrm{KL}(q \,\|\, p) = \mathrm{E}_q[\log q - \log p]`$, mode seeking.
///
/// Where $`p`$ is no density its logarithm has no constant, and the value is up to that constant; the gradient exists all
/// the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KullbackLeibler;

impl Divergence for KullbackLeibler {
    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged> {
        family.check("Kullback-Leibler divergence of a posterior from its cavity: the posterior", q)?;
        let is_proper = family.impropriety(p).is_none();
        let (mean, spread) = family.moments(q);
        if let (Spread::Diagonal(deviations), true) = (&spread, family.is_plain()) {
            return Ok(independent(&mean, deviations, p, is_proper));
        }
        let value = if is_proper {
            let axes = Axes::new("Kullback-Leibler divergence", family, q, p)?;
            let pairs = axes.offset.iter().zip(&axes.ratio);
            pairs.map(|(w, r)| 0.5 * ((1.0 + w * w) / r - 1.0 + r.ln())).sum()
        } else {
            -family.entropy(q) - dot(p, &family.mean_parameters(q))
        };
        Ok(Diverged { value, gradient: family.by_moments(&self.by_mean_parameters(family, q, p)?, &mean) })
    }

    fn by_mean_parameters(&self, _: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Vec<f64>> {
        Ok(q.iter().zip(p).map(|(q, p)| q - p).collect())
    }
}

/// The divergence of independent components in one pass, for the many weights of a network: by the mean
/// $`\lambda_p \mu - h_p`$, by the variance $`\tfrac12(\lambda_p - \sigma^{-2})`$.
fn independent(mean: &[f64], deviations: &[f64], p: &[f64], is_proper: bool) -> Diverged {
    let (linear, second) = p.split_at(mean.len());
    let (mut value, mut by_mean, mut by_variance) = (0.0, Vec::with_capacity(mean.len()), Vec::new());
    by_variance.reserve(mean.len());
    for ((mean, deviation), (linear, second)) in mean.iter().zip(deviations).zip(linear.iter().zip(second)) {
        let (variance, precision) = (deviation * deviation, -2.0 * second);
        let slope = precision * mean - linear;
        value += if is_proper {
            let ratio = precision * variance;
            0.5 * (ratio - 1.0 - ratio.ln() + slope * slope / precision)
        } else {
            -(deviation.ln() + 0.5 + HALF_LOG_TWO_PI) - linear * mean - second * (mean * mean + variance)
        };
        by_mean.push(slope);
        by_variance.push(0.5 * (precision - variance.recip()));
    }
    Diverged {
        value,
        gradient: MomentGradient { mean: by_mean, covariance: CovarianceGradient::Diagonal(by_variance) },
    }
}
