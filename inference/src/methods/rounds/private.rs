//! Lets the local steps of rounds know the rows by noised sums alone, or what they change leave a silo with noise.

use super::messages::RoundAnswer;
use super::silo::AveragingSilo;
use crate::engine::error::{Error, Result};
use crate::engine::mechanism::{Mechanism, RowSum};
use crate::engine::optimiser::Schedule;
use crate::engine::private_steps::PrivateSteps;
use crate::engine::terms::noised::noised_fields;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// What stands between all that a silo's local steps change in a round and what leaves it.
#[derive(Debug)]
pub(super) struct NoisedChange {
    mechanism: Box<dyn Mechanism>,
    how: PrivateSteps,
}

impl NoisedChange {
    /// Refuses rounds beyond those of the run, before their steps.
    pub(super) fn check(&self, round: u64) -> Result<()> {
        let sums = self.how.sums;
        if round < sums {
            return Ok(());
        }
        let problem = format!("round {round} of a run of {sums}: the budget is of so many");
        Err(Error::Declined { problem })
    }

    /// Where a round has led that changed `start` to `end`, with the change clipped and noised: it is the one row of a sum.
    pub(super) fn release(&mut self, request: &Message, start: &[f64], end: &[f64]) -> Result<Vec<f64>> {
        let PrivateSteps { noise, clip, rate, sums, .. } = self.how;
        let change = || end.iter().zip(start).map(|(end, start)| end - start).collect::<Vec<f64>>();
        let mut rows = |chosen: &[usize]| Ok(chosen.iter().map(|_| change()).collect());
        let length = start.len();
        let sum = RowSum { length, clip, noise, count: 1, rate, sums, rows: &mut rows };
        let released = self.mechanism.released(&request.ordered().encode(), sum)?;
        Ok(start.iter().zip(released).map(|(start, change)| start + change).collect())
    }
}

impl AveragingSilo {
    /// Lets the local steps know the rows by the noised sums of `mechanism` alone, or, with `whole_silo`, what they change
    /// leave the silo through it: the silo answers rounds, and nothing else.
    ///
    /// # Errors
    /// [`crate::Error::Setting`] for options that are not private, for models and settings by which one row would decide on
    /// what another contributes, and for an adaptive rate, which follows from bounds.
    pub fn private(mut self, options: Option<PrivateSteps>, mechanism: Box<dyn Mechanism>) -> Result<Self> {
        let Some(how) = options.filter(|own| own.whole_silo) else {
            self.silo.hide_rows(options, mechanism)?;
            return Ok(self);
        };
        how.check()?;
        let is_adaptive = matches!(self.silo.settings.schedule, Schedule::Adaptive { .. });
        let found = "Schedule::Adaptive in private rounds";
        Error::unless(!is_adaptive, "schedule", found, "a function of the step")?;
        self.noised_change = Some(NoisedChange { mechanism, how });
        Ok(self)
    }

    /// Whether all that leaves the silo follows from noised sums.
    pub(super) fn is_private(&self) -> bool {
        self.silo.noised.is_some() || self.noised_change.is_some()
    }

    /// How many rows it has, which everybody may know of a private silo.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.silo.row_count()
    }

    /// What may leave a private silo: all of its answer but the bound, which it does not tell.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        Manifest { fields: noised_fields(RoundAnswer::fields(&self.sizes())) }
    }
}
