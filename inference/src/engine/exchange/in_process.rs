//! Runs silos inside this process, in parallel on threads, with the same bits for any number of threads.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use partita_core::{at_work, keep_awake};
use rayon::prelude::*;

use super::{Arrival, Exchange, Outcome, Request, SiloProgram, check_names, nothing_asked};
use crate::engine::error::{Error, Result};
use crate::engine::panic::caught;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// Silos in this process, which answer as soon as they are asked.
///
/// Replies are put in the order of the requests before anyone sees them, so neither the number of threads nor the order
/// of arrival can change a bit of a result. Deadlines are not used: a silo in this process always answers.
pub struct InProcess {
    names: Vec<String>,
    silos: Vec<Box<dyn SiloProgram>>,
    threads: usize,
    order: fn(usize) -> Vec<usize>,
    /// What was answered and not handed over yet.
    answered: VecDeque<Arrival>,
}

impl fmt::Debug for InProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("InProcess")
            .field("names", &self.names)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl InProcess {
    /// Silos that answer on up to `threads` threads at once.
    ///
    /// # Errors
    /// [`Error::NoSilos`], [`Error::DuplicateSilo`], [`Error::Setting`] for zero threads.
    pub fn new(silos: Vec<Box<dyn SiloProgram>>, threads: usize) -> Result<Self> {
        let names: Vec<String> = silos.iter().map(|silo| silo.name().to_owned()).collect();
        check_names(&names)?;
        Error::unless(threads > 0, "threads", threads, "at least 1")?;
        Ok(Self { names, silos, threads, order: |count| (0..count).collect(), answered: VecDeque::new() })
    }

    /// Answers requests one after another in the order `order` gives for their number: for tests of order independence.
    #[must_use]
    pub fn with_order(mut self, order: fn(usize) -> Vec<usize>) -> Self {
        self.order = order;
        self
    }

    /// The silos' programs, to read local results inside each party.
    pub fn programs(&mut self) -> &mut [Box<dyn SiloProgram>] {
        &mut self.silos
    }

    /// The outcomes of requests, in their order.
    fn answers(&mut self, requests: &[Request]) -> Vec<Outcome> {
        // Silos in their order, each at most once, may answer side by side.
        let in_order = requests.windows(2).all(|pair| pair[0].silo < pair[1].silo)
            && requests.last().is_some_and(|last| last.silo < self.silos.len());
        if self.threads > 1 && requests.len() > 1 && in_order {
            let mut asked = requests.iter().peekable();
            let silos = self.silos.iter_mut().enumerate().filter_map(|(place, silo)| {
                let request = asked.next_if(|request| request.silo == place)?;
                Some((silo, request))
            });
            let pairs: Vec<_> = silos.collect();
            let others = self.threads.min(pairs.len()) - 1;
            let one = |(silo, request): (&mut Box<dyn SiloProgram>, &Request)| {
                at_work(|| answer(silo.as_mut(), &request.message))
            };
            let outcomes = pairs.into_par_iter().map(one).collect();
            keep_awake(others);
            return outcomes;
        }
        let mut slots: Vec<Option<Outcome>> = requests.iter().map(|_| None).collect();
        for index in (self.order)(requests.len()) {
            let Request { silo, message } = &requests[index];
            slots[index] = Some(match self.silos.get_mut(*silo) {
                Some(own) => answer(own.as_mut(), message),
                None => Outcome::Lost { reason: format!("there is no silo {silo}") },
            });
        }
        slots.into_iter().map(|slot| slot.unwrap_or(Outcome::Timeout)).collect()
    }
}

fn answer(silo: &mut dyn SiloProgram, request: &Message) -> Outcome {
    let name = silo.name().to_owned();
    caught(&name, || silo.answer(request)).map_or_else(Outcome::Failed, Outcome::Reply)
}

impl Exchange for InProcess {
    fn silos(&self) -> &[String] {
        &self.names
    }

    fn send(&mut self, requests: Vec<Request>, _: Option<Duration>) -> Result<()> {
        self.answered.retain(|old| requests.iter().all(|request| request.silo != old.silo));
        let outcomes = self.answers(&requests);
        let arrival = |(request, outcome): (Request, Outcome)| Arrival { silo: request.silo, outcome };
        self.answered.extend(requests.into_iter().zip(outcomes).map(arrival));
        Ok(())
    }

    fn receive(&mut self, manifest: &Manifest, _: Option<Duration>) -> Result<Option<Arrival>> {
        let arrival = self.answered.pop_front().ok_or_else(nothing_asked)?;
        if let Outcome::Reply(reply) = &arrival.outcome {
            manifest.check(&self.names[arrival.silo], reply)?;
        }
        Ok(Some(arrival))
    }
}
