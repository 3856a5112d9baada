//! Holds the round of trust of a fit, with a second look where the first calls for one.

use rayon::ThreadPool;

use super::FitOptions;
use crate::engine::algorithm::Algorithm;
use crate::engine::error::Result;
use crate::engine::exchange::Exchange;
use crate::engine::run::Counters;
use crate::engine::trust::known::Known;
use crate::engine::trust::round::{Answers, Asking, Round, first};

impl FitOptions {
    /// How silos are asked in the round of trust.
    pub(super) fn asking(&self, algorithm: &dyn Algorithm, seed: u64) -> Asking {
        let draws = self.trust_draws.unwrap_or_else(|| algorithm.trust_draws());
        Asking { draws, seed, deadline: self.deadline }
    }
}

/// What a round of trust is held with.
pub(super) struct Looking<'a> {
    pub(super) pool: &'a ThreadPool,
    pub(super) asking: Asking,
    pub(super) known: &'a dyn Known,
}

impl Looking<'_> {
    /// The round; in words why there is none where there is none.
    pub(super) fn round(
        &self,
        algorithm: &dyn Algorithm,
        exchange: &mut dyn Exchange,
        counters: &mut Counters,
    ) -> Result<std::result::Result<Round, String>> {
        if self.asking.draws == 0 {
            return Ok(Err("the options ask for no round of trust".into()));
        }
        let posterior = algorithm.posterior();
        let (asking, theta) = (self.asking, posterior.theta);
        let mut ask = |proposal| self.pool.install(|| Answers::ask(proposal, theta, exchange, asking, counters));
        let proposal = match first(&posterior, self.asking.seed) {
            Ok(proposal) => proposal,
            Err(reason) => return Ok(Err(reason)),
        };
        let round = match ask(proposal)? {
            Ok(answers) => Round::of(answers, &posterior, self.known)?,
            Err(reason) => return Ok(Err(reason)),
        };
        let Some(second) = round.second() else { return Ok(Ok(round)) };
        Ok(match ask(second)? {
            Ok(answers) => Ok(round.joined(Round::of(answers, &posterior, self.known)?)),
            // What the first look said stands.
            Err(_) => Ok(round),
        })
    }
}
