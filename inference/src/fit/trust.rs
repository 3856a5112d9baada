//! Holds the round of trust of a fit, with further looks where draws leave too much open.

use rayon::ThreadPool;

use super::FitOptions;
use crate::engine::algorithm::Algorithm;
use crate::engine::error::Result;
use crate::engine::exchange::Exchange;
use crate::engine::report::summary::NaturalDraws;
use crate::engine::run::{Counters, Judging, Progress};
use crate::engine::trust::correction::Wide;
use crate::engine::trust::known::Known;
use crate::engine::trust::proposal::{OF_ALL, Proposal};
use crate::engine::trust::round::{Answers, Asking, Round, first};
use crate::engine::trust::verdict::NoRound;

impl FitOptions {
    /// How silos are asked in the round of trust.
    pub(super) fn asking(&self, algorithm: &dyn Algorithm, seed: u64) -> Asking {
        // As many draws of each kind as their density says.
        let draws = self.trust_draws.unwrap_or_else(|| algorithm.trust_draws()).next_multiple_of(OF_ALL);
        Asking { draws, seed, deadline: self.deadline }
    }
}

/// What a round of trust is held with.
pub(super) struct Looking<'a> {
    pub(super) pool: &'a ThreadPool,
    pub(super) asking: Asking,
    pub(super) known: &'a dyn Known,
    pub(super) progress: &'a mut dyn Progress,
}

impl Looking<'_> {
    /// The first look; in words why there is none where there is none.
    pub(super) fn round(
        &mut self,
        algorithm: &dyn Algorithm,
        exchange: &mut dyn Exchange,
        counters: &mut Counters,
    ) -> Result<std::result::Result<Round, NoRound>> {
        if self.asking.draws == 0 {
            let reason = match algorithm.privacy() {
                Some(_) => "a private fit holds no round of trust, whose answers are sums without noise",
                None => "the options ask for no round of trust",
            };
            return Ok(Err(reason.to_owned().into()));
        }
        match first(&algorithm.posterior(), self.asking.seed) {
            Ok(proposal) => self.look(proposal, algorithm, exchange, counters),
            Err(none) => Ok(Err(none)),
        }
    }

    /// The draws of a round with their weights, and further looks as long as they call for them and silos answer.
    pub(super) fn further(
        &mut self,
        round: Round,
        before: &NaturalDraws,
        algorithm: &dyn Algorithm,
        exchange: &mut dyn Exchange,
        counters: &mut Counters,
    ) -> Result<Wide> {
        let is_reweighted = round.log_posterior.is_none();
        let mut wide = Wide::new(round, self.known, before)?;
        while let Some(proposal) = wide.next(before) {
            // What the looks so far said stands where a further one fails.
            let Ok(mut other) = self.look(proposal, algorithm, exchange, counters)? else { break };
            if is_reweighted {
                other.log_posterior = None;
            }
            wide = wide.joined(other, self.known, before)?;
        }
        Ok(wide)
    }

    fn look(
        &mut self,
        proposal: Proposal,
        algorithm: &dyn Algorithm,
        exchange: &mut dyn Exchange,
        counters: &mut Counters,
    ) -> Result<std::result::Result<Round, NoRound>> {
        self.progress.judging(Judging::Look(proposal.offset + 1));
        let posterior = algorithm.posterior();
        let (asking, theta) = (self.asking, posterior.theta);
        match self.pool.install(|| Answers::ask(proposal, theta, exchange, asking, counters))? {
            Ok(answers) => Ok(Ok(Round::of(answers, &posterior, self.known)?)),
            Err(reason) => Ok(Err(reason)),
        }
    }
}
