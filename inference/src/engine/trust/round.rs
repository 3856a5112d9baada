//! Holds the round of trust: one exchange that compares draws around a posterior with the model itself.

use std::time::Duration;

use partita_core::special::log_sum_exp;

use super::known::Known;
use super::proposal::{Proposal, Reach};
use super::values::{MOST_VALUES, Refusal, Values, ValuesRequest};
use super::verdict::NoRound;
use crate::engine::algorithm::Posterior;
use crate::engine::error::Result;
use crate::engine::exchange::{Exchange, Outcome, Request};
use crate::engine::family::{Family, real};
use crate::engine::normal::Normal;
use crate::engine::report::Severity;
use crate::engine::run::{Counters, counted};
use crate::engine::wire::manifest::Manifest;

/// Draws around a posterior, with all that parties say of them.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    /// What the draws are from, in turn as many of each.
    pub(super) proposals: Vec<Proposal>,
    /// The draws of the globals.
    pub(crate) draws: Vec<Vec<f64>>,
    /// The log density of the mixture that they were drawn from.
    pub(crate) log_proposal: Vec<f64>,
    /// The log density of the posterior, where it is a normal distribution.
    pub(crate) log_posterior: Option<Vec<f64>>,
    pub(crate) log_prior: Vec<f64>,
    /// The log marginal likelihood of each silo's rows.
    pub(crate) by_silo: Vec<Vec<f64>>,
}

/// The most globals of which importance weights can judge.
pub(crate) const MOST_GLOBALS: usize = 200;
/// The fewest degrees of freedom of the draws.
const LEAST_DEGREES: u64 = 3;

/// Draws at which silos were asked, with their answers.
#[derive(Debug)]
pub(crate) struct Answers {
    proposal: Proposal,
    by_silo: Vec<Vec<f64>>,
}

/// How silos are asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking {
    pub(crate) draws: usize,
    pub(crate) seed: u64,
    pub(crate) deadline: Option<Duration>,
}

/// What the draws around a posterior are from; in words why there is no round of trust where there is none.
pub(crate) fn first(posterior: &Posterior<'_>, seed: u64) -> std::result::Result<Proposal, NoRound> {
    let around = around(posterior)?;
    let degrees = LEAST_DEGREES.max(around.len() as u64 / 2);
    Ok(Proposal { around, degrees, seed, offset: 0 })
}

impl Answers {
    /// Asks all silos; in words why they have no answer where one has none.
    ///
    /// # Errors
    /// What the exchange reports: a silo that refuses or fails is no error here.
    pub(crate) fn ask(
        proposal: Proposal,
        theta: &[f64],
        exchange: &mut dyn Exchange,
        asking: Asking,
        counters: &mut Counters,
    ) -> Result<std::result::Result<Self, NoRound>> {
        let count = asking.draws.min(MOST_VALUES);
        let message = ValuesRequest::of(&proposal, theta, count).write();
        let names = exchange.silos().to_vec();
        let manifest = Manifest { fields: Values::fields(&(count as u64)) };
        let requests = Request::to_all(names.len(), &message);
        let outcomes = counted(exchange, requests, &manifest, asking.deadline, counters)?;
        let mut by_silo = Vec::with_capacity(names.len());
        for (outcome, name) in outcomes.into_iter().zip(&names) {
            match values(outcome, count) {
                Ok(values) => by_silo.push(values),
                Err(NoRound { reason, severity }) => {
                    return Ok(Err(NoRound { reason: format!("silo `{name}` could not answer: {reason}"), severity }));
                }
            }
        }
        Ok(Ok(Self { proposal, by_silo }))
    }
}

impl Round {
    /// Joins answers with what the coordinator knows by itself.
    ///
    /// # Errors
    /// What the model reports of a draw, beside that its density is no number there.
    pub(crate) fn of(answers: Answers, posterior: &Posterior<'_>, known: &dyn Known) -> Result<Self> {
        let Answers { proposal, by_silo } = answers;
        let count = by_silo.first().map_or(0, Vec::len);
        let draws: Vec<Vec<f64>> = (0..count).map(|index| proposal.draw(index)).collect();
        let log_prior = draws.iter().map(|draw| match known.log_prior(draw) {
            Err(error) if error.is_outside() => Ok(f64::NEG_INFINITY),
            found => found,
        });
        let log_prior: Vec<f64> = log_prior.collect::<Result<_>>()?;
        let around = around(posterior).ok();
        let normal = around.map(|around| Proposal { around, degrees: 0, ..proposal.clone() });
        let normal = normal.filter(|normal| is_normal(posterior.family, posterior.parameters, normal));
        let log_posterior = normal.map(|normal| draws.iter().map(|draw| normal.log_density(draw)).collect());
        let mut round =
            Self { proposals: vec![proposal], draws, log_proposal: Vec::new(), log_posterior, log_prior, by_silo };
        round.mix();
        Ok(round)
    }

    /// The log density of what the draws are from, all proposals together.
    fn mix(&mut self) {
        let count = real(self.proposals.len());
        let at = |draw: &Vec<f64>| {
            let each: Vec<f64> = self.proposals.iter().map(|own| own.log_density(draw)).collect();
            log_sum_exp(&each) - count.ln()
        };
        self.log_proposal = self.draws.iter().map(at).collect();
    }

    /// This round and another of as many draws as one.
    pub(crate) fn joined(mut self, other: Self) -> Self {
        self.proposals.extend(other.proposals);
        self.draws.extend(other.draws);
        self.log_prior.extend(other.log_prior);
        self.by_silo.iter_mut().zip(other.by_silo).for_each(|(own, other)| own.extend(other));
        self.log_posterior = self.log_posterior.zip(other.log_posterior).map(|(own, other)| [own, other].concat());
        self.mix();
        self
    }

    /// How many looks there were.
    pub(crate) fn looks(&self) -> usize {
        self.proposals.len()
    }

    /// What the draws of the first look are from.
    pub(crate) fn first_look(&self) -> Option<&Proposal> {
        self.proposals.first()
    }

    /// Whether a draw is neither far away nor far along one global.
    pub(crate) fn is_near(&self, index: usize) -> bool {
        let each = (self.draws.len() / self.proposals.len().max(1)).max(1);
        self.proposals.get(index / each).is_none_or(|own| own.reach(index % each) == Reach::Near)
    }

    /// The log density of prior and all rows at each draw.
    pub(crate) fn log_joint(&self) -> Vec<f64> {
        let at = |index: usize| self.log_prior[index] + self.by_silo.iter().map(|own| own[index]).sum::<f64>();
        (0..self.draws.len()).map(at).collect()
    }

    /// The logarithms of the ratios of the posterior by what the draws are from, where it is a normal distribution.
    pub(crate) fn log_posterior_ratios(&self) -> Option<Vec<f64>> {
        let posterior = self.log_posterior.as_ref()?;
        Some(posterior.iter().zip(&self.log_proposal).map(|(own, wide)| own - wide).collect())
    }

    /// The logarithms of importance ratios: the model by what the draws are from.
    pub(crate) fn log_ratios(&self) -> Vec<f64> {
        self.log_joint().iter().zip(&self.log_proposal).map(|(joint, proposal)| joint - proposal).collect()
    }
}

/// The normal distribution with the moments of a posterior; in words why there is none to judge.
pub(crate) fn around(posterior: &Posterior<'_>) -> std::result::Result<Normal, NoRound> {
    let Posterior { family, parameters, .. } = posterior;
    match family.len() {
        0 => return Err("the model has no globals with a posterior".to_owned().into()),
        count if count > MOST_GLOBALS => {
            let reason = format!("of {count} globals, more than {MOST_GLOBALS}, importance weights cannot judge");
            return Err(reason.into());
        }
        _ => {}
    }
    let covariance = family.covariance_matrix(parameters);
    if covariance.deviations().contains(&0.0) {
        return Err("the answer is a point, which has no uncertainty to judge".to_owned().into());
    }
    match covariance.cholesky() {
        Ok(factor) => Ok(Normal { mean: family.mean(parameters), factor }),
        // No posterior is so: a fit that ends there has gone astray.
        Err(error) => {
            Err(NoRound { reason: format!("its covariance has no factor ({error})"), severity: Severity::Doubt })
        }
    }
}

/// Whether a family's own density is that of the normal distribution with its moments.
fn is_normal(family: &dyn Family, parameters: &[f64], normal: &Proposal) -> bool {
    [0.0, 1.0, -2.0].into_iter().all(|number| {
        let draw = family.draw(parameters, &vec![number; family.noise_len()]);
        (draw.log_density - normal.log_density(&draw.latent)).abs() < 1e-6 * (1.0 + draw.log_density.abs())
    })
}

/// A silo's values; in words why it has none.
fn values(outcome: Outcome, count: usize) -> std::result::Result<Vec<f64>, NoRound> {
    let reply = match outcome {
        Outcome::Reply(reply) => reply,
        Outcome::Failed(error) => return Err(error.to_string().into()),
        Outcome::Lost { reason } => return Err(reason.into()),
        Outcome::Timeout => return Err("the deadline passed".to_owned().into()),
    };
    let Values { values, refusal } = Values::read(&reply, &(count as u64)).map_err(|error| error.to_string())?;
    match (values, Refusal::of(refusal)) {
        (_, Some(refusal)) => Err(NoRound { reason: refusal.words().to_owned(), severity: refusal.severity() }),
        (Some(values), None) if values.iter().any(|value| value.is_nan() || *value == f64::INFINITY) => {
            Err("a log marginal likelihood is no number".to_owned().into())
        }
        (Some(values), None) => Ok(values),
        (None, None) => Err("its answer is empty".to_owned().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::family::{Delta, FullRankGaussian};
    use crate::engine::trust::verdict::{Trust, Verdict};

    #[test]
    fn rows_that_are_not_resolved_are_a_doubt_and_other_refusals_a_limit() {
        let verdict = |refusal: Refusal| {
            let reply = Values { values: None, refusal: refusal as u64 }.write();
            let found = values(Outcome::Reply(reply), 1).unwrap_err();
            assert_eq!(found.reason, refusal.words());
            Verdict::of(&Trust::from(found).warnings(None))
        };
        for refusal in [Refusal::Levels, Refusal::Points] {
            assert_eq!(verdict(refusal), Verdict::DoNotTrust, "{refusal:?}");
        }
        for refusal in [Refusal::Latents, Refusal::Loss, Refusal::Precision, Refusal::Draws] {
            assert_eq!(verdict(refusal), Verdict::TrustWithLimits, "{refusal:?}");
        }
        let silent = values(Outcome::Timeout, 1).unwrap_err();
        assert_eq!(Verdict::of(&Trust::from(silent).warnings(None)), Verdict::TrustWithLimits);
    }

    #[test]
    fn a_covariance_without_a_factor_is_a_doubt_and_its_numbers_are_short() {
        // Standard deviations of e^-300 and 1 with a correlation of nearly one.
        let (family, parameters) = (FullRankGaussian::new(2), [0.0, 0.0, 0.0, -300.0, 1e250]);
        let found = around(&Posterior { family: &family, parameters: &parameters, theta: &[] }).unwrap_err();
        assert!(found.severity == Severity::Doubt && found.reason.len() < 400, "{}", found.reason);
    }

    #[test]
    fn a_network_is_told_why_its_globals_are_not_judged() {
        let (family, parameters) = (Delta::new(MOST_GLOBALS + 1), vec![0.0; MOST_GLOBALS + 1]);
        let reason = around(&Posterior { family: &family, parameters: &parameters, theta: &[] }).unwrap_err().reason;
        assert!(reason.contains("201 globals") && reason.contains("cannot judge"), "{reason}");
    }
}
