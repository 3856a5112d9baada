//! Says whom a run asks next and whom it waits for: all silos of a round, or whichever answers first.

use std::time::Duration;

use super::{Counters, step};
use crate::engine::algorithm::{Algorithm, Asynchronous, StepInfo};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Arrival, Exchange};
use crate::engine::panic::{COORDINATOR, caught};

/// The two ways in which a run goes from one exchange to the next.
pub(super) enum Pace<'a> {
    /// The algorithm says who is asked, and all of them are waited for.
    Rounds(&'a mut dyn Algorithm),
    /// Every silo that rests is asked, and the first answer is taken.
    Arrivals(Arrivals<'a>),
}

impl Pace<'_> {
    pub(super) fn algorithm(&mut self) -> &mut dyn Algorithm {
        match self {
            Self::Rounds(algorithm) => *algorithm,
            Self::Arrivals(own) => own.algorithm,
        }
    }

    /// Refuses checkpoints of silos at work, of which none can save itself.
    pub(super) fn check_checkpoints(&self, exchange: &mut dyn Exchange) -> Result<()> {
        match self {
            Self::Arrivals(_) if exchange.resumable().is_none() => Err(Error::Setting {
                setting: "checkpoint",
                found: "a folder, for silos of this process that keep their state in memory".into(),
                expected: "none; or the simulated clock of SiloSchedule::Asynchronous with `run`, which saves every silo",
            }),
            _ => Ok(()),
        }
    }

    /// The next exchange, after so many steps.
    pub(super) fn next(
        &mut self,
        exchange: &mut dyn Exchange,
        steps: u64,
        deadline: Option<Duration>,
        counters: &mut Counters,
    ) -> Result<StepInfo> {
        match self {
            Self::Rounds(algorithm) => step(*algorithm, exchange, deadline, counters),
            Self::Arrivals(own) => own.next(exchange, steps, deadline, counters),
        }
    }

    /// Hears what is under way when a run is over, and takes none of it.
    pub(super) fn end(
        self,
        exchange: &mut dyn Exchange,
        deadline: Option<Duration>,
        counters: &mut Counters,
    ) -> Result<()> {
        match self {
            Self::Rounds(_) => Ok(()),
            Self::Arrivals(own) => own.end(exchange, deadline, counters),
        }
    }
}

/// A run in which every silo is answered as soon as it has answered.
pub(super) struct Arrivals<'a> {
    algorithm: &'a mut dyn Asynchronous,
    /// Which silos are at work.
    busy: Vec<bool>,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(algorithm: &'a mut dyn Algorithm, silos: usize) -> Result<Self> {
        let algorithm = algorithm.asynchronous().ok_or_else(|| Error::Setting {
            setting: "algorithm",
            found: "one that waits for all silos of a round".into(),
            expected: "AlgorithmChoice::Pvi, the one whose silos need not wait for each other",
        })?;
        Ok(Self { algorithm, busy: vec![false; silos] })
    }

    fn next(
        &mut self,
        exchange: &mut dyn Exchange,
        steps: u64,
        deadline: Option<Duration>,
        counters: &mut Counters,
    ) -> Result<StepInfo> {
        for (silo, busy) in self.busy.iter_mut().enumerate().filter(|(_, busy)| !**busy) {
            let Some(request) = caught(COORDINATOR, || self.algorithm.ask(silo))? else { continue };
            counters.sent(&request);
            exchange.send(vec![request], None)?;
            *busy = true;
        }
        if !self.busy.contains(&true) {
            return Err(Error::NoSilos);
        }
        let Some(arrival) = exchange.receive(self.algorithm.manifest(), deadline)? else {
            let waited = exchange.silos().iter().zip(&self.busy).filter(|(_, busy)| **busy);
            let silo = waited.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("`, `");
            return Err(Error::SiloLost { silo, step: steps, reason: "no answer before the deadline".into() });
        };
        let Arrival { silo, outcome } = arrival;
        self.busy[silo] = false;
        counters.heard(&outcome);
        let info = caught(COORDINATOR, || self.algorithm.take(silo, outcome))?;
        counters.rounds += 1;
        counters.add(&info);
        Ok(info)
    }

    fn end(mut self, exchange: &mut dyn Exchange, deadline: Option<Duration>, counters: &mut Counters) -> Result<()> {
        while self.busy.contains(&true) {
            let Some(Arrival { silo, outcome }) = exchange.receive(self.algorithm.manifest(), deadline)? else {
                // Work that is not taken is not waited for.
                let open = self.busy.iter().enumerate().filter(|(_, busy)| **busy);
                open.for_each(|(silo, _)| self.algorithm.discard(silo));
                return Ok(());
            };
            counters.heard(&outcome);
            self.busy[silo] = false;
            self.algorithm.discard(silo);
        }
        Ok(())
    }
}
