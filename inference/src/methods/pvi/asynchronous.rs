//! Lets PVI be asked silo by silo, for runs in which no silo waits for the others.

use crate::engine::algorithm::{Asynchronous, StepInfo};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::methods::pvi::{Asked, Pvi, SiloSchedule};

impl Asynchronous for Pvi {
    fn ask(&mut self, silo: usize) -> Result<Option<Request>> {
        let is_asynchronous = matches!(self.options.schedule, SiloSchedule::Asynchronous(_));
        let found = format_args!("{:?} for a run by arrival", self.options.schedule);
        let expected = "SiloSchedule::Asynchronous, whose damping it needs";
        Error::unless(is_asynchronous, "schedule", found, expected)?;
        let has_steps = !self.coordinator.trainer.theta().is_empty() && self.options.theta_every > 0;
        let found = format_args!("every {} exchanges for a run by arrival", self.options.theta_every);
        let expected = "0, since a step of θ needs all silos at one posterior";
        Error::unless(!has_steps, "theta_every", found, expected)?;
        if !self.ledger.present[silo] {
            return Ok(None);
        }
        let request = self.local_update(silo, self.version, &self.natural, &self.prior);
        self.asked.push(Asked { silo, version: self.version, is_void: false });
        Ok(Some(request))
    }

    fn take(&mut self, silo: usize, outcome: Outcome) -> Result<StepInfo> {
        let Some(place) = self.asked.iter().position(|asked| asked.silo == silo) else {
            return Err(Error::malformed("pvi.answer", format_args!("silo {silo} was not asked anything")));
        };
        let asked = self.asked.remove(place);
        self.visited(vec![(asked, outcome)])
    }

    fn discard(&mut self, silo: usize) {
        self.asked.retain(|asked| asked.silo != silo);
        self.ledger.in_doubt(silo);
    }
}
