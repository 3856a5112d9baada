//! Says how well draws show the spread of each number, and where to look further where they do not.

use faer::Mat;

use super::correction::Wide;
use super::proposal::Proposal;
use super::sample::Sample;
use crate::engine::family::real;
use crate::engine::metrics::{SmoothedWeights, shape_beyond};
use crate::engine::report::summary::NaturalDraws;

/// How well the standard deviation of a number is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    /// Its Monte Carlo standard error, as a part of it.
    pub(super) error: f64,
    /// The shape of the tail of what draws correct in the variance; `None` where that is next to nothing.
    pub(super) pareto_k: Option<f64>,
}

/// The part of the draws of a look that they have to be worth together.
const ENOUGH: f64 = 0.25;
/// After so many looks a shape below its threshold is left within its error of it where the standard deviation has a small
/// error: an exchange costs more than a verdict without limits.
const SOME_LOOKS: usize = 3;
const SMALL: f64 = 0.03;
/// The error of a standard deviation above which a further look is worth an exchange.
const LARGE: f64 = 0.06;
/// The part of a variance that has to be corrected for the tail of what corrects it to matter.
const MATTERS: f64 = 0.1;
/// The looks there are at most.
const MOST_LOOKS: usize = 8;

impl Wide {
    /// How well the standard deviation of the number of this index is known, of whose draws under the posterior `before`
    /// tells.
    ///
    /// With the weights $`w^p_s`$ of the model and $`w^q_s`$ of the posterior, and standardised values $`x_s`$, draw $`s`$
    /// corrects the variance by $`|w^p_s - w^q_s| x_s^2`$. A heavy tail of these, as of importance ratios, says that what
    /// matters is farther out than the draws are.
    pub(super) fn spread(&self, index: usize, before: &[f64]) -> Spread {
        let sample = self.sample(index, before);
        let (mean, deviation) = (sample.mean(), sample.deviation());
        let square = |value: f64| Sample::in_deviations(value - mean, deviation).powi(2);
        let corrects =
            self.unsmoothed.iter().zip(&self.values[index]).map(|(weight, value)| weight.abs() * square(*value));
        let corrects: Vec<f64> = corrects.collect();
        let matters = corrects.iter().sum::<f64>() > MATTERS;
        let logs = || corrects.iter().map(|own| own.ln()).collect::<Vec<_>>();
        Spread { error: sample.deviation_error(), pareto_k: matters.then(|| SmoothedWeights::of(&logs()).pareto_k) }
    }

    /// What further draws are from, where these leave too much open: Student's t with the weighted mean and covariance of
    /// the draws. Where the spread of a number is open, weights are those of what draws add to its variance, from which
    /// draws estimate it best, so that looks reach out to where that comes from.
    pub(crate) fn next(&self, before: &NaturalDraws) -> Option<Proposal> {
        let first = self.round.first_look()?;
        let (looks, len) = (self.round.looks(), first.around.len());
        let worth = self.smoothed.effective_sample_size();
        // Weights on a handful of draws say nothing of scales. On few they say little, and the next look is drawn to this one.
        if looks == MOST_LOOKS || worth < 2.0 * real(len) {
            return None;
        }
        let threshold = self.smoothed.threshold();
        let is_light = |shape: f64| shape_beyond(shape, self.round.draws.len()) < threshold;
        let is_known = |own: &Spread, shape: f64| looks >= SOME_LOOKS && own.error < SMALL && shape < threshold;
        let spreads = before.iter().enumerate().map(|(index, (_, _, draws))| (index, self.spread(index, draws)));
        let is_open = |own: &Spread| {
            own.error > LARGE || own.pareto_k.is_some_and(|shape| !is_light(shape) && !is_known(own, shape))
        };
        let open = spreads.filter(|(_, own)| is_open(own)).max_by(|(_, a), (_, b)| a.error.total_cmp(&b.error));
        let is_enough = worth >= ENOUGH * real(self.round.draws.len() / looks);
        let is_settled = if looks == 1 { is_light(self.smoothed.pareto_k) } else { self.smoothed.pareto_k < threshold };
        if open.is_none() && is_enough && is_settled {
            return None;
        }
        let weights: Vec<f64> = match open {
            None => self.weights.clone(),
            Some((index, _)) => {
                let sample = Sample::new(self.values[index].clone(), self.weights.clone());
                let mean = sample.mean();
                self.values[index].iter().zip(&self.weights).map(|(value, own)| own * (value - mean).powi(2)).collect()
            }
        };
        let (mean, factor) = self.moments(first, &weights)?;
        let around = first.around.moved(&mean, &factor);
        Some(Proposal { around, offset: looks as u64, ..first.clone() })
    }

    /// The mean of draws in whitened coordinates, and a factor of their covariance, drawn to the identity as far as the
    /// draws are few.
    fn moments(&self, first: &Proposal, weights: &[f64]) -> Option<(Vec<f64>, Mat<f64>)> {
        let len = first.around.len();
        let total: f64 = weights.iter().sum();
        let white: Vec<Vec<f64>> =
            self.places.iter().map(|place| first.around.whiten(&self.round.draws[*place])).collect();
        let mut mean = vec![0.0; len];
        for (white, weight) in white.iter().zip(weights) {
            mean.iter_mut().zip(white).for_each(|(sum, own)| *sum += weight / total * own);
        }
        let count = total * total / weights.iter().map(|own| own * own).sum::<f64>();
        let known = real(len) * (real(len) / 10.0).max(1.0);
        let mut covariance = Mat::from_fn(len, len, |i, j| if i == j { known } else { 0.0 });
        for (white, weight) in white.iter().zip(weights) {
            let own: Vec<f64> = white.iter().zip(&mean).map(|(own, mean)| own - mean).collect();
            for i in 0..len {
                for j in 0..=i {
                    covariance[(i, j)] += count * weight / total * own[i] * own[j];
                }
            }
        }
        let covariance = Mat::from_fn(len, len, |i, j| covariance[(i.max(j), i.min(j))] / (count + known));
        let factor = covariance.llt(faer::Side::Lower).ok()?.L().to_owned();
        Some((mean, factor))
    }
}
