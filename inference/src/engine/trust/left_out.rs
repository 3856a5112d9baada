//! Says what the answer would be without each silo, and without the prior, from the numbers of the round of trust.

use serde::{Deserialize, Serialize};

use super::correction::Wide;
use super::round::Round;
use super::sample::Sample;
use crate::engine::metrics::SmoothedWeights;
use crate::engine::report::number;
use crate::engine::report::summary::Quantiles;

/// The answer without one silo, or without the prior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The silo; `None` for the prior.
    pub silo: Option<String>,
    /// The shape of the tail of the weights without it.
    #[serde(with = "number")]
    pub pareto_k: f64,
    /// The shape up to which the numbers without it are to be trusted.
    #[serde(with = "number")]
    pub threshold: f64,
    /// The number of independent draws that are worth as much.
    #[serde(with = "number")]
    pub effective_sample_size: f64,
    /// Every number of every global site without it, in the order of [`crate::Report::sites`].
    pub sites: Vec<WithoutIt>,
}

/// One number of a site without a silo, or without the prior.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WithoutIt {
    /// The mean.
    #[serde(with = "number")]
    pub mean: f64,
    /// The standard deviation.
    #[serde(with = "number")]
    pub sd: f64,
    /// Its quantiles: those of the weighted draws.
    pub quantiles: Quantiles,
    /// How far it moves the mean: that with it less that without it, in standard deviations with it.
    #[serde(with = "number")]
    pub moves: f64,
    /// The distance of the two means in standard deviations that it has where what is left out agrees with the rest; not
    /// a number where leaving it out does not widen the posterior beyond the error of its weights.
    #[serde(with = "number")]
    pub conflict: f64,
}

impl WithoutIt {
    fn of(without: &Sample, effective_sample_size: f64, with: With) -> Self {
        let (mean, sd) = (without.mean(), without.deviation());
        let apart = with.mean - mean;
        // What it adds to the precision has to be more than the error of the variances.
        let widened = sd * sd - with.sd * with.sd;
        let error = with.sd * with.sd * (2.0 / effective_sample_size).sqrt();
        let conflict = if widened > ERRORS * error { apart / widened.sqrt() } else { f64::NAN };
        Self { mean, sd, quantiles: without.percentiles(), moves: Sample::in_deviations(apart, with.sd), conflict }
    }
}

/// A number with everybody.
#[derive(Debug, Clone, Copy)]
struct With {
    mean: f64,
    sd: f64,
}

/// The errors of a difference of variances beyond which it is one.
const ERRORS: f64 = 4.0;

impl LeftOut {
    /// Without each silo in turn, where there are several, and without the prior.
    pub(super) fn all(round: &Round, silos: &[String], log_ratios: &[f64], wide: &Wide) -> Vec<Self> {
        let several = if silos.len() > 1 { silos } else { &[] };
        let with: Vec<With> = wide
            .values
            .iter()
            .map(|values| {
                let own = Sample::new(values.clone(), wide.weights.clone());
                With { mean: own.mean(), sd: own.deviation() }
            })
            .collect();
        let mut all: Vec<Self> = several
            .iter()
            .zip(&round.by_silo)
            .map(|(silo, own)| Self::without(Some(silo.clone()), own, log_ratios, wide, &with))
            .collect();
        all.push(Self::without(None, &round.log_prior, log_ratios, wide, &with));
        all
    }

    fn without(silo: Option<String>, own: &[f64], log_ratios: &[f64], wide: &Wide, with: &[With]) -> Self {
        let rest = |place: &usize| match log_ratios[*place] - own[*place] {
            rest if rest.is_nan() => f64::NEG_INFINITY,
            rest => rest,
        };
        // Draws without any weight in the whole answer have no values here.
        let smoothed = SmoothedWeights::of(&wide.places.iter().map(rest).collect::<Vec<_>>());
        let (weights, effective_sample_size) = (smoothed.weights(), smoothed.effective_sample_size());
        let site = |(values, with): (&Vec<f64>, &With)| {
            WithoutIt::of(&Sample::new(values.clone(), weights.clone()), effective_sample_size, *with)
        };
        Self {
            silo,
            pareto_k: smoothed.pareto_k,
            threshold: smoothed.threshold(),
            effective_sample_size,
            sites: wide.values.iter().zip(with).map(site).collect(),
        }
    }

    /// Whether the numbers without it are to be trusted, as far as the weights can say.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.pareto_k < self.threshold
    }

    /// The place of the number that it moves farthest, with how far.
    #[must_use]
    pub fn farthest(&self) -> Option<(usize, f64)> {
        let moves = self.sites.iter().map(|own| own.moves).enumerate().filter(|(_, moves)| moves.is_finite());
        moves.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_without_a_silo_are_those_of_a_skewed_posterior() {
        // Without the silo the posterior is exponential of rate 1: draws of rate 1.25 have these weights.
        let draws: Vec<f64> = (0..4_000).map(|index| -0.8 * (1.0 - (f64::from(index) + 0.5) / 4_000.0).ln()).collect();
        let raw: Vec<f64> = draws.iter().map(|z| (0.25 * z).exp()).collect();
        let sum: f64 = raw.iter().sum();
        let weights = raw.iter().map(|own| own / sum).collect();
        let found = WithoutIt::of(&Sample::new(draws, weights), 1_000.0, With { mean: 0.5, sd: 0.5 });
        let quantile = |probability: f64| -(1.0 - probability).ln();
        let own = &found.quantiles;
        // A mean of 1 and deviation of 1 have their 2.5 % at -0.96 by a normal distribution, and 97.5 % at 2.96.
        for (found, expected) in [(own.p2_5, quantile(0.025)), (own.p50, quantile(0.5)), (own.p97_5, quantile(0.975))] {
            assert!((found - expected).abs() < 0.02, "{found} {expected}");
        }
    }
}
