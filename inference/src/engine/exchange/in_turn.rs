//! Gives the outcomes of requests one by one in the order of the requests, whichever comes first.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Arrival, Exchange, Outcome, Request};
use crate::engine::error::Result;
use crate::engine::wire::manifest::Manifest;

/// The outcomes of requests that were sent. Those that come before their turn are kept.
pub(crate) struct InTurn<'a, E: Exchange + ?Sized> {
    exchange: &'a mut E,
    manifest: &'a Manifest,
    /// The silos whose outcomes were not given yet, in the order of the requests.
    open: VecDeque<usize>,
    early: Vec<Arrival>,
    /// Whether nothing more comes.
    is_over: bool,
}

impl<'a, E: Exchange + ?Sized> InTurn<'a, E> {
    /// Sends requests, each of which is to be answered within `deadline`.
    pub(crate) fn send(
        exchange: &'a mut E,
        requests: Vec<Request>,
        manifest: &'a Manifest,
        deadline: Option<Duration>,
    ) -> Result<Self> {
        let open = requests.iter().map(|request| request.silo).collect();
        exchange.send(requests, deadline)?;
        Ok(Self { exchange, manifest, open, early: Vec::new(), is_over: false })
    }

    /// Keeps an outcome, unless it is that of a silo that is not asked here: of a round that was given up.
    fn keep(&mut self, arrival: Arrival) {
        let asked = self.open.iter().filter(|silo| **silo == arrival.silo).count();
        let known = self.early.iter().filter(|early| early.silo == arrival.silo).count();
        if known < asked {
            self.early.push(arrival);
        }
    }
}

impl<E: Exchange + ?Sized> Iterator for InTurn<'_, E> {
    type Item = Result<Outcome>;

    fn next(&mut self) -> Option<Result<Outcome>> {
        let silo = *self.open.front()?;
        self.exchange.next_is(silo);
        loop {
            if let Some(place) = self.early.iter().position(|early| early.silo == silo) {
                self.open.pop_front();
                return Some(Ok(self.early.remove(place).outcome));
            }
            if self.is_over {
                self.open.pop_front();
                return Some(Ok(Outcome::Timeout));
            }
            match self.exchange.receive(self.manifest, None) {
                Ok(Some(arrival)) => self.keep(arrival),
                Ok(None) => self.is_over = true,
                Err(error) => {
                    self.open.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
