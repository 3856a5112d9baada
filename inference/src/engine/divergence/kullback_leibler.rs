//! Gives the divergence of Kullback and Leibler from the posterior's side, for cavities that need be no density.

use partita_core::kernel::logarithm;
use rayon::prelude::*;

use super::axes::Axes;
use super::{Diverged, Divergence};
use crate::engine::PART;
use crate::engine::error::Result;
use crate::engine::family::{CovarianceGradient, CovarianceMatrix, HALF_LOG_TWO_PI, MomentGradient};
use crate::engine::natural::{ExponentialFamily, NormalFamily, dot};

/// $`\mathrm{KL}(q \,\|\, p) = \mathrm{E}_q[\log q - \log p]`$, mode seeking.
///
/// Where $`p`$ is no density its logarithm has no constant, and the value is up to that constant; the gradient exists
/// all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KullbackLeibler;

impl Divergence for KullbackLeibler {
    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged> {
        family.check("Kullback-Leibler divergence of a posterior from its cavity: the posterior", q)?;
        let is_proper = family.impropriety(p).is_none();
        let (mean, spread) = family.moments(q);
        if let (CovarianceMatrix::Diagonal(deviations), true) = (&spread, family.is_plain()) {
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

    fn evaluate_at(
        &self,
        family: &NormalFamily,
        mean: &[f64],
        covariance: &CovarianceMatrix,
        p: &[f64],
    ) -> Result<Diverged> {
        match covariance {
            CovarianceMatrix::Diagonal(deviations) if family.is_plain() && is_density(mean, deviations) => {
                Ok(independent(mean, deviations, p, family.impropriety(p).is_none()))
            }
            _ => self.evaluate(family, &family.natural_of_moments(mean, covariance)?, p),
        }
    }

    fn by_mean_parameters(&self, _: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Vec<f64>> {
        Ok(q.iter().zip(p).map(|(q, p)| q - p).collect())
    }
}

/// Whether independent components with these moments have natural parameters; looked at without a branch.
fn is_density(mean: &[f64], deviations: &[f64]) -> bool {
    mean.par_chunks(PART).zip(deviations.par_chunks(PART)).all(|(mean, deviations)| {
        mean.iter().zip(deviations).fold(true, |all, (mean, deviation)| {
            let precision = (deviation * deviation).recip();
            all & (precision > 0.0) & precision.is_finite() & (precision * mean).is_finite()
        })
    })
}

/// The divergence of independent components in one pass, for the many weights of a network: by the mean $`\lambda_p
/// \mu - h_p`$, by the variance $`\tfrac12(\lambda_p - \sigma^{-2})`$. Parts are evaluated in parallel and summed in
/// order.
fn independent(mean: &[f64], deviations: &[f64], p: &[f64], is_proper: bool) -> Diverged {
    let (linear, second) = p.split_at(mean.len());
    let (mut by_mean, mut by_variance) = (vec![0.0; mean.len()], vec![0.0; mean.len()]);
    let inputs = mean.par_chunks(PART).zip(deviations.par_chunks(PART));
    let inputs = inputs.zip(linear.par_chunks(PART).zip(second.par_chunks(PART)));
    let outputs = by_mean.par_chunks_mut(PART).zip(by_variance.par_chunks_mut(PART));
    let values: Vec<f64> = inputs.zip(outputs).map(|((q, p), gradients)| part(q, p, gradients, is_proper)).collect();
    Diverged {
        value: values.iter().sum(),
        gradient: MomentGradient { mean: by_mean, covariance: CovarianceGradient::Diagonal(by_variance) },
    }
}

/// Numbers of a part whose logarithms are taken at once.
const FEW: usize = 1_024;

/// The divergence of some components, with its gradients written.
fn part(
    (mean, deviations): (&[f64], &[f64]),
    (linear, second): (&[f64], &[f64]),
    (by_mean, by_variance): (&mut [f64], &mut [f64]),
    is_proper: bool,
) -> f64 {
    let (mut value, mut logarithms) = (0.0, [0.0; FEW]);
    let inputs = mean.chunks(FEW).zip(deviations.chunks(FEW)).zip(linear.chunks(FEW).zip(second.chunks(FEW)));
    for (((mean, deviations), (linear, second)), (by_mean, by_variance)) in
        inputs.zip(by_mean.chunks_mut(FEW).zip(by_variance.chunks_mut(FEW)))
    {
        let logarithms = &mut logarithms[..mean.len()];
        let inputs = mean.iter().zip(deviations).zip(linear.iter().zip(second));
        let outputs = by_mean.iter_mut().zip(by_variance).zip(logarithms.iter_mut());
        for (((mean, deviation), (linear, second)), ((by_mean, by_variance), logarithm)) in inputs.zip(outputs) {
            let (variance, precision) = (deviation * deviation, -2.0 * second);
            let slope = precision * mean - linear;
            if is_proper {
                let ratio = precision * variance;
                value += 0.5 * (ratio - 1.0 + slope * slope / precision);
                *logarithm = ratio;
            } else {
                value -= 0.5 + HALF_LOG_TWO_PI + linear * mean + second * (mean * mean + variance);
                *logarithm = variance;
            }
            *by_mean = slope;
            *by_variance = 0.5 * (precision - variance.recip());
        }
        logarithm(logarithms);
        value -= 0.5 * logarithms.iter().sum::<f64>();
    }
    value
}
