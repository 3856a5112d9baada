//! Gives the divergence of Kullback and Leibler from the posterior's side, for cavities that need be no density.

use super::axes::Axes;
use super::{Diverged, Divergence};
use crate::error::Result;
use crate::exponential_family::{ExponentialFamily, NormalFamily, dot};

/// $`\mathrm{KL}(q \,\|\, p) = \mathrm{E}_q[\log q - \log p]`$, mode seeking.
///
/// Where $`p`$ is no density its logarithm has no constant, and the value is up to that constant; the gradient exists all
/// the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KullbackLeibler;

impl Divergence for KullbackLeibler {
    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged> {
        let value = if family.impropriety(p).is_none() {
            let axes = Axes::new("Kullback-Leibler divergence", family, q, p)?;
            let pairs = axes.offset.iter().zip(&axes.ratio);
            pairs.map(|(w, r)| 0.5 * ((1.0 + w * w) / r - 1.0 + r.ln())).sum()
        } else {
            family.check("Kullback-Leibler divergence of a posterior from its cavity: the posterior", q)?;
            -family.entropy(q) - dot(p, &family.mean_parameters(q))
        };
        let gradient = family.by_moments(&self.by_mean_parameters(family, q, p)?, &family.moments(q).0);
        Ok(Diverged { value, gradient })
    }

    fn by_mean_parameters(&self, _: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Vec<f64>> {
        Ok(q.iter().zip(p).map(|(q, p)| q - p).collect())
    }
}
