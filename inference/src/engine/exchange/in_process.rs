//! Runs silos inside this process, in parallel on threads, with the same bits for any number of threads.

use std::fmt;
use std::time::Duration;

use rayon::prelude::*;

use super::{Exchange, Outcome, Request, SiloProgram};
use crate::engine::error::{Error, Result};
use crate::engine::panic::caught;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// Silos in this process.
///
/// Replies are put in the order of the requests before anyone sees them, so neither the number of threads nor the order
/// of arrival can change a bit of a result. Deadlines are not used: a silo in this process always answers.
pub struct InProcess {
    names: Vec<String>,
    silos: Vec<Box<dyn SiloProgram>>,
    threads: usize,
    order: fn(usize) -> Vec<usize>,
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
        if names.is_empty() {
            return Err(Error::NoSilos);
        }
        if let Some(name) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            return Err(Error::DuplicateSilo { name: name.1.clone() });
        }
        if threads == 0 {
            return Err(Error::Setting { setting: "threads", found: "0".into(), expected: "at least 1" });
        }
        Ok(Self { names, silos, threads, order: |count| (0..count).collect() })
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
}

fn answer(silo: &mut dyn SiloProgram, request: &Message) -> Outcome {
    let name = silo.name().to_owned();
    caught(&name, || silo.answer(request)).map_or_else(Outcome::Failed, Outcome::Reply)
}

impl Exchange for InProcess {
    fn silos(&self) -> &[String] {
        &self.names
    }

    fn exchange(&mut self, requests: Vec<Request>, manifest: &Manifest, _: Option<Duration>) -> Result<Vec<Outcome>> {
        let mut slots: Vec<Option<Outcome>> = Vec::new();
        slots.resize_with(requests.len(), || None);
        let order = (self.order)(requests.len());
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
            let one = |(silo, request): (&mut Box<dyn SiloProgram>, &Request)| answer(silo.as_mut(), &request.message);
            slots = pairs.into_par_iter().map(|pair| Some(one(pair))).collect();
        } else {
            for index in order {
                let request = &requests[index];
                slots[index] = Some(match self.silos.get_mut(request.silo) {
                    Some(silo) => answer(silo.as_mut(), &request.message),
                    None => Outcome::Lost { reason: format!("there is no silo {}", request.silo) },
                });
            }
        }
        let outcomes: Vec<Outcome> = slots.into_iter().map(|slot| slot.unwrap_or(Outcome::Timeout)).collect();
        for (request, outcome) in requests.iter().zip(&outcomes) {
            if let Outcome::Reply(reply) = outcome {
                manifest.check(&self.names[request.silo], reply)?;
            }
        }
        Ok(outcomes)
    }
}
