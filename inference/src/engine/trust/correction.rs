//! Corrects a posterior by importance weights: what the model itself says beside what the approximation says.

use partita_core::special::log_sum_exp;
use serde::{Deserialize, Serialize};

use super::known::Known;
use super::left_out::LeftOut;
use super::round::Round;
use super::sample::Sample;
use crate::engine::error::Result;
use crate::engine::family::real;
use crate::engine::metrics::{SmoothedWeights, shape_beyond};
use crate::engine::report::number;
use crate::engine::report::summary::{NaturalDraws, SiteSummary};
use crate::engine::trust::estimate::ElboEstimate;

/// What one exchange with all silos says of a posterior: the round of trust.
///
/// Draws $`z_s`$ around the posterior $`q`$, with the heavier tails of Student's t, have the importance ratios
///
/// ```math
/// r_s = \frac{p(z_s) \prod_j p(y_j \mid z_s)}{t(z_s)}
/// ```
/// with the rows of silo $`j`$ integrated out. Their Pareto-smoothed weights correct the posterior, and the shape
/// $`\hat k`$ of their tail says whether to trust that.
///
/// # References
/// Vehtari, Simpson, Gelman, Yao and Gabry (2024), JMLR 25(72); Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it
/// work?, ICML.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// Draws.
    pub draws: usize,
    /// The shape $`\hat k`$ of the tail of the weights.
    #[serde(with = "number")]
    pub pareto_k: f64,
    /// The shape up to which corrected numbers are to be trusted.
    #[serde(with = "number")]
    pub threshold: f64,
    /// The number of independent draws that are worth as much.
    #[serde(with = "number")]
    pub effective_sample_size: f64,
    /// The logarithm of the evidence $`p(y)`$, in nats.
    #[serde(with = "number")]
    pub log_evidence: f64,
    /// Its Monte Carlo standard error, in nats.
    #[serde(with = "number")]
    pub log_evidence_se: f64,
    /// Draws at which the density is zero, or no number.
    pub impossible: usize,
    /// Every number of every global site, corrected.
    pub sites: Vec<CorrectedSite>,
    /// What the others say without each silo, and without the prior.
    pub left_out: Vec<LeftOut>,
}

/// One number of a site, corrected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorrectedSite {
    /// Its corrected summary.
    #[serde(flatten)]
    pub summary: SiteSummary,
    /// The Monte Carlo standard error of the corrected mean, in corrected standard deviations.
    #[serde(with = "number")]
    pub error: f64,
    /// How far the correction moved the mean, in corrected standard deviations.
    #[serde(with = "number")]
    pub moved: f64,
    /// The standard deviation before, in corrected ones.
    #[serde(with = "number")]
    pub sd_ratio: f64,
    /// The third standardised moment; 0 for a normal distribution.
    #[serde(with = "number")]
    pub skewness: f64,
    /// The Monte Carlo standard error of the corrected standard deviation, as a part of it.
    #[serde(with = "number")]
    pub sd_error: f64,
    /// The shape of the tail of what draws correct in the variance; `None` where that is less than a tenth of it.
    #[serde(default, with = "number::optional")]
    pub sd_pareto_k: Option<f64>,
}

impl Correction {
    /// What the draws of a round say with their weights, and draws of the posterior on the natural scale.
    pub(crate) fn of(wide: &Wide, silos: &[String], before: &NaturalDraws) -> Self {
        let Wide { round, smoothed, .. } = wide;
        let log_ratios = round.log_ratios();
        let count = real(log_ratios.len());
        let effective_sample_size = smoothed.effective_sample_size();
        let is_impossible = |at: &usize| round.is_near(*at) && log_ratios[*at] == f64::NEG_INFINITY;
        Self {
            draws: log_ratios.len(),
            pareto_k: smoothed.pareto_k,
            threshold: smoothed.threshold(),
            effective_sample_size,
            log_evidence: smoothed.log_sum - count.ln(),
            log_evidence_se: (1.0 / effective_sample_size - 1.0 / count).max(0.0).sqrt(),
            impossible: (0..log_ratios.len()).filter(is_impossible).count(),
            sites: before.iter().enumerate().map(|(index, own)| wide.corrected(index, own)).collect(),
            left_out: LeftOut::all(round, silos, &log_ratios, wide),
        }
    }

    /// The largest Monte Carlo standard error of a corrected mean or standard deviation, in standard deviations.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        let errors = self.sites.iter().map(|own| own.error.max(own.sd_error));
        errors.max_by(f64::total_cmp).unwrap_or(1.0 / self.effective_sample_size.sqrt())
    }

    /// Whether the corrected numbers are to be trusted, as far as the weights can say.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.pareto_k < self.threshold
    }

    /// What is left out in turn: the silo that moves the answer most first, and the prior last.
    pub(crate) fn by_influence(&self) -> Vec<&LeftOut> {
        let mut all: Vec<&LeftOut> = self.left_out.iter().collect();
        // What cannot be told is farther than all that can.
        let far = |own: &LeftOut| {
            if own.is_trusted() { own.farthest().map_or(0.0, |(_, moves)| moves.abs()) } else { f64::INFINITY }
        };
        all.sort_by(|a, b| a.silo.is_none().cmp(&b.silo.is_none()).then(far(b).total_cmp(&far(a))));
        all
    }

    /// Whether the shape of a tail is below the threshold by more than the error of its estimate.
    pub(super) fn is_surely_below(&self, shape: f64) -> bool {
        shape_beyond(shape, self.draws) < self.threshold
    }
}

/// The draws of a round on the natural scale, and the share of each that corrects draws of the posterior.
#[derive(Debug, Clone)]
pub(crate) struct Wide {
    pub(crate) round: Round,
    /// The weights of all draws under the model.
    pub(crate) smoothed: SmoothedWeights,
    /// The places of the draws that have any weight, under the model or under the posterior.
    pub(crate) places: Vec<usize>,
    /// Their values, number by number.
    pub(crate) values: Vec<Vec<f64>>,
    /// Weights under the model.
    pub(crate) weights: Vec<f64>,
    /// What weights as they are before the smoothing correct: those under the model less those under the posterior.
    pub(super) unsmoothed: Vec<f64>,
    /// Values of draws that have had any weight, each with all its numbers.
    seen: Vec<Option<Vec<f64>>>,
    /// Weights under the posterior; `None` where it is no normal distribution, and where the model has no numbers of a draw of
    /// it.
    posterior: Option<Vec<f64>>,
}

/// The weight, in the largest, below which a draw counts for nothing in double precision.
const NEGLIGIBLE: f64 = 1e-20;

impl Wide {
    /// The draws of a round, of whose numbers `before` has the names.
    ///
    /// # Errors
    /// What the model reports of a draw.
    pub(crate) fn new(round: Round, known: &dyn Known, before: &NaturalDraws) -> Result<Self> {
        Self::with(round, Vec::new(), known, before)
    }

    /// The same with another look.
    ///
    /// # Errors
    /// What the model reports of a draw.
    pub(crate) fn joined(self, other: Round, known: &dyn Known, before: &NaturalDraws) -> Result<Self> {
        Self::with(self.round.joined(other), self.seen, known, before)
    }

    fn with(round: Round, mut seen: Vec<Option<Vec<f64>>>, known: &dyn Known, before: &NaturalDraws) -> Result<Self> {
        let smoothed = SmoothedWeights::of(&round.log_ratios());
        let weights = smoothed.weights();
        let mut by_posterior = round.log_posterior_ratios().map(|ratios| SmoothedWeights::of(&ratios).weights());
        let has_weight = counting(&weights);
        let mut is_kept = has_weight.clone();
        seen.resize(round.draws.len(), None);
        // Weights of draws of the posterior are taken off, so that each counts where it has weight in either.
        if let Some(own) = by_posterior.as_deref().map(counting) {
            let alone = (0..own.len()).filter(|place| own[*place] && !has_weight[*place]);
            for place in alone {
                if see(&mut seen[place], &round.draws[place], known, before)? {
                    is_kept[place] = true;
                } else {
                    // Where the model has no value of a draw there is nothing to take off: weights alone are left.
                    by_posterior = None;
                    is_kept.clone_from(&has_weight);
                    break;
                }
            }
        }
        let places: Vec<usize> = (0..weights.len()).filter(|place| is_kept[*place]).collect();
        let mut values: Vec<Vec<f64>> = before.iter().map(|_| Vec::with_capacity(places.len())).collect();
        for place in places.iter().filter(|_| !before.is_empty()) {
            if seen[*place].is_none() {
                seen[*place] = Some(natural(&round.draws[*place], known)?);
            }
            let own = seen[*place].iter().flatten();
            values.iter_mut().zip(own).for_each(|(all, own)| all.push(*own));
        }
        let raw = normalised(&round.log_ratios());
        let raw_posterior = round.log_posterior_ratios().filter(|_| by_posterior.is_some());
        let raw_posterior = raw_posterior.map(|ratios| normalised(&ratios));
        let unsmoothed = |place: &usize| raw[*place] - raw_posterior.as_ref().map_or(0.0, |own| own[*place]);
        let unsmoothed = places.iter().map(unsmoothed).collect();
        let of = |all: &Vec<f64>| places.iter().map(|place| all[*place]).collect();
        let (weights, posterior) = (of(&weights), by_posterior.as_ref().map(of));
        Ok(Self { values, weights, unsmoothed, seen, posterior, places, round, smoothed })
    }

    /// The number of this index under the model, of whose draws under the posterior `before` tells.
    pub(super) fn sample(&self, index: usize, before: &[f64]) -> Sample {
        self.sample_of(&self.values[index], before)
    }

    /// The same of a number whose values at the places and in draws of the posterior are these.
    pub(crate) fn sample_of(&self, values: &[f64], before: &[f64]) -> Sample {
        let as_weighted = || Sample::new(values.to_vec(), self.weights.clone());
        let Some(posterior) = &self.posterior else { return as_weighted() };
        let share = 1.0 / real(before.len());
        let weights = self.weights.iter().zip(posterior).map(|(model, posterior)| model - posterior);
        let corrected = Sample::new(
            values.iter().chain(before).copied().collect(),
            weights.chain(before.iter().map(|_| share)).collect(),
        );
        // Where posterior and model have little in common, differences of weights are worse than weights.
        let is_worse = !corrected.deviation().is_finite();
        if is_worse { as_weighted() } else { corrected }
    }

    /// The corrected probability of what is below `value`; `None` where there is none, as without any weight.
    pub(crate) fn below(&self, index: usize, before: &[f64], value: f64) -> Option<f64> {
        let found = self.sample(index, before).below(value);
        found.is_finite().then(|| found.clamp(0.0, 1.0))
    }

    fn corrected(&self, index: usize, (site, label, before): &(String, String, Vec<f64>)) -> CorrectedSite {
        let sample = self.sample(index, before);
        let share = 1.0 / real(before.len());
        let posterior = Sample::new(before.clone(), vec![share; before.len()]);
        let (mean, sd) = (sample.mean(), sample.deviation());
        let quantiles = sample.percentiles();
        let spread = self.spread(index, before);
        CorrectedSite {
            summary: SiteSummary { site: site.clone(), label: label.clone(), mean, sd, quantiles },
            error: sample.error(),
            moved: Sample::in_deviations(mean - posterior.mean(), sd),
            sd_ratio: 1.0 + Sample::in_deviations(posterior.deviation() - sd, sd),
            skewness: sample.skewness(),
            sd_error: spread.error,
            sd_pareto_k: spread.pareto_k,
        }
    }
}

/// Which weights count beside the largest.
fn counting(weights: &[f64]) -> Vec<bool> {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    weights.iter().map(|own| *own > NEGLIGIBLE * largest).collect()
}

/// All numbers of a draw on the natural scale.
fn natural(draw: &[f64], known: &dyn Known) -> Result<Vec<f64>> {
    Ok(known.natural(draw)?.into_iter().flat_map(|(_, own)| own.values).collect())
}

/// Sees the numbers of a draw, where there is any to tell of; whether the model has finite ones there.
fn see(seen: &mut Option<Vec<f64>>, draw: &[f64], known: &dyn Known, before: &NaturalDraws) -> Result<bool> {
    if seen.is_none() && !before.is_empty() {
        *seen = match natural(draw, known) {
            Err(error) if error.is_outside() => return Ok(false),
            found => Some(found?),
        };
    }
    Ok(seen.iter().flatten().all(|own| own.is_finite()))
}

/// Weights of the sum one.
fn normalised(log_ratios: &[f64]) -> Vec<f64> {
    let total = log_sum_exp(log_ratios);
    log_ratios.iter().map(|own| (own - total).exp()).collect()
}

impl Round {
    /// The bound $`\mathrm{E}_q[\log p(z) + \sum_j \ell_j(z) - \log q(z)]`$ from the draws of the round; `None` where the
    /// posterior is no normal distribution.
    pub(crate) fn bound(&self) -> Option<ElboEstimate> {
        let posterior = self.log_posterior.as_ref()?;
        let joint = self.log_joint();
        let weights: Vec<f64> = self.log_posterior_ratios()?.into_iter().map(f64::exp).collect();
        let total: f64 = weights.iter().sum();
        let terms: Vec<f64> = joint.iter().zip(posterior).map(|(joint, own)| joint - own).collect();
        // Where the posterior has no weight but rounding, the density may be too small for a number: it counts for nothing.
        let is_seen = |weight: f64, term: f64| weight > if term.is_finite() { 0.0 } else { f64::EPSILON * total };
        let kept = || weights.iter().zip(&terms).filter(|(weight, term)| is_seen(**weight, **term));
        let elbo = kept().map(|(weight, term)| weight / total * term).sum::<f64>();
        let square: f64 = kept().map(|(weight, term)| (weight / total * (term - elbo)).powi(2)).sum();
        Some(ElboEstimate {
            elbo,
            standard_error: square.sqrt(),
            draws: terms.len(),
            gradient_variance: None,
            still_moving: None,
            still_widening: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use partita_core::special::HALF_LOG_TWO_PI;
    use partita_core::{Array, Key, Noise, NoiseKind, Purpose};

    use super::*;
    use crate::engine::error::Error;
    use crate::engine::normal::Normal;
    use crate::engine::trust::left_out::WithoutIt;
    use crate::engine::trust::proposal::Proposal;

    /// A number that is its own natural one; beyond `limit` the model refuses it.
    struct Line {
        limit: f64,
    }

    impl Known for Line {
        fn natural(&self, globals: &[f64]) -> Result<Vec<(String, Array)>> {
            if globals[0].abs() > self.limit {
                let found = f64::INFINITY;
                return Err(Error::Model(partita_core::Error::NotFiniteMade { operation: "exp".into(), found }));
            }
            Ok(vec![("z".into(), Array { values: globals.to_vec(), shape: vec![1] })])
        }

        fn log_prior(&self, globals: &[f64]) -> Result<f64> {
            Ok(-0.5 * globals[0] * globals[0] - HALF_LOG_TWO_PI)
        }
    }

    /// A model N(0, 1) whose posterior was found to be N(0, 25): draws around it, and of it.
    fn too_wide(limit: f64) -> (Wide, NaturalDraws) {
        let known = Line { limit };
        let wide = Proposal { around: Normal::independent(vec![0.0], 5.0), degrees: 3, seed: 1, offset: 1 };
        let posterior = Proposal { degrees: 0, ..wide.clone() };
        let draws: Vec<Vec<f64>> = (0..4_096).map(|index| wide.draw(index)).collect();
        let round = Round {
            log_proposal: draws.iter().map(|draw| wide.log_density(draw)).collect(),
            log_posterior: Some(draws.iter().map(|draw| posterior.log_density(draw)).collect()),
            log_prior: draws.iter().map(|draw| known.log_prior(draw).unwrap()).collect(),
            by_silo: vec![vec![0.0; draws.len()]],
            proposals: vec![wide],
            draws,
        };
        let of_posterior = |index| {
            let mut number = [0.0];
            Noise::new(2).kind(NoiseKind::Sobol).normal(Key::new(Purpose::Fit, 0).particle(index), &mut number);
            5.0 * number[0]
        };
        let before = vec![("z".to_owned(), "z".to_owned(), (0..2_048).map(of_posterior).collect())];
        (Wide::new(round, &known, &before).unwrap(), before)
    }

    #[test]
    fn weights_of_a_posterior_that_is_too_wide_are_one_together() {
        let (wide, before) = too_wide(f64::INFINITY);
        // What is beyond two deviations of the posterior has no weight under the model: a twentieth of the posterior.
        let far = |place: &&usize| wide.round.draws[**place][0].abs() > 10.5;
        assert!(wide.posterior.is_some() && wide.places.iter().filter(far).count() > 100);
        let sample = wide.sample(0, &before[0].2);
        assert!((sample.below(f64::INFINITY) - 1.0).abs() < 1e-9, "{}", sample.below(f64::INFINITY));
        assert!((sample.deviation() - 1.0).abs() < 0.3, "{}", sample.deviation());
    }

    #[test]
    fn a_silo_without_which_nothing_is_known_is_told_first() {
        let left_out = |silo: Option<&str>, pareto_k: f64, moves: f64| {
            let quantiles = SiteSummary::of("z".into(), "z".into(), &[0.0]).quantiles;
            let sites = vec![WithoutIt { mean: 0.0, sd: 1.0, quantiles, moves, conflict: f64::NAN }];
            let (silo, threshold, effective_sample_size) = (silo.map(str::to_owned), 0.7, 500.0);
            LeftOut { silo, pareto_k, threshold, effective_sample_size, sites }
        };
        let left_out = vec![
            left_out(None, 1.5, 9.0),
            left_out(Some("near"), 0.1, 0.1),
            left_out(Some("unknown"), 0.9, 0.2),
            left_out(Some("far"), 0.1, -3.0),
        ];
        let (wide, before) = too_wide(f64::INFINITY);
        let own = Correction { left_out, ..Correction::of(&wide, &[], &before) };
        let order: Vec<Option<&str>> = own.by_influence().into_iter().map(|own| own.silo.as_deref()).collect();
        assert_eq!(order, [Some("unknown"), Some("far"), Some("near"), None]);
    }

    #[test]
    fn a_draw_of_the_posterior_that_the_model_refuses_leaves_weights_alone() {
        let (wide, before) = too_wide(10.5);
        let sample = wide.sample(0, &before[0].2);
        assert!(wide.posterior.is_none() && (sample.below(f64::INFINITY) - 1.0).abs() < 1e-9);
        assert!((sample.deviation() - 1.0).abs() < 0.1, "{}", sample.deviation());
    }
}
