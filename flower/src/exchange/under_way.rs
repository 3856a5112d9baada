//! Sends requests to silos behind an engine, keeps what is under way, and hands over whichever outcome comes first.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use partita_inference::{Arrival, Exchange, Manifest, Outcome, Request, Resumable};

use super::round::{BREATH, Waiting};
use super::{Flower, PAUSE};
use crate::error::{Error, Result};
use crate::transit::Next;

/// Requests that are under way, and outcomes that were not handed over yet.
pub(super) struct UnderWay {
    pub(super) waiting: Vec<Waiting>,
    over: VecDeque<Over>,
    /// The silo whose outcome is taken next, where there is an order.
    next: Option<usize>,
    /// How long to wait before the next look: short rounds do not wait for the clock, and long ones do not keep the
    /// engine busy.
    pause: Duration,
}

/// An outcome that was not handed over yet.
struct Over {
    arrival: Arrival,
    /// The round of the silo's answer before it.
    before: u64,
}

impl UnderWay {
    pub(super) fn new() -> Self {
        Self { waiting: Vec::new(), over: VecDeque::new(), next: None, pause: PAUSE }
    }

    /// Keeps an outcome of a silo whose last answer before it was that of round `before`.
    pub(super) fn end(&mut self, silo: usize, outcome: Outcome, before: u64) {
        self.over.push_back(Over { arrival: Arrival { silo, outcome }, before });
    }

    /// Whose answer comes next, and how much is held for others. None where there is no order, and where somebody's
    /// answer has waited for half of its time: what waits too long is lost.
    pub(super) fn turn(&self) -> Option<Next> {
        let now = Instant::now();
        let next = self.waiting.iter().find(|one| Some(one.request.silo) == self.next)?;
        if self.waiting.iter().any(|one| one.is_half_over(now)) {
            return None;
        }
        let size = |Over { arrival, .. }: &Over| match &arrival.outcome {
            Outcome::Reply(reply) => reply.size(),
            _ => 0,
        };
        Some(Next { ids: next.ids.clone(), held: self.over.iter().map(size).sum() })
    }

    /// The place of the outcome that may be handed over.
    fn ready(&self) -> Option<usize> {
        let place = self.over.iter().position(|over| Some(over.arrival.silo) == self.next);
        let is_awaited = self.waiting.iter().any(|one| Some(one.request.silo) == self.next);
        place.or_else(|| (!is_awaited && !self.over.is_empty()).then_some(0))
    }

    /// The latest round of each silo whose answer was handed over, where `accepted` is that of the last that came.
    pub(super) fn handed_over(&self, accepted: &[u64]) -> Vec<u64> {
        let mut rounds = accepted.to_vec();
        for Over { arrival, before } in &self.over {
            if let Some(round) = rounds.get_mut(arrival.silo) {
                *round = *before;
            }
        }
        rounds
    }
}

impl Flower {
    /// Waits for a silo's answer no more; what it has answered and was not handed over was never given.
    fn forget(&mut self, silo: usize) {
        let UnderWay { waiting, over, .. } = &mut self.under_way;
        waiting.retain(|one| one.request.silo != silo);
        let given_up = over.iter().position(|over| over.arrival.silo == silo).and_then(|place| over.remove(place));
        if let (Some(accepted), Some(given_up)) = (self.place.accepted.get_mut(silo), given_up) {
            *accepted = given_up.before;
        }
    }

    /// Sends requests that are a round of their own: a silo refuses what is older than what it has answered.
    fn ask(&mut self, requests: Vec<Request>, deadline: Option<Duration>) -> Result<()> {
        requests.iter().for_each(|request| self.forget(request.silo));
        self.under_way.next = None;
        self.place.round += 1;
        self.under_way.pause = PAUSE / 16;
        self.wait.restart();
        let are_others_at_work = !(self.under_way.waiting.is_empty() && self.under_way.over.is_empty());
        for request in requests {
            let silo = request.silo;
            let Some(is_missing) = self.missing.get(silo).copied() else {
                let reason = format!("there are {} silos", self.missing.len());
                self.under_way.end(silo, Outcome::Lost { reason }, 0);
                continue;
            };
            if self.under_way.waiting.iter().any(|one| one.request.silo == silo) {
                let problem = format!("silo `{}` was asked twice in one round", self.options.silos[silo]);
                return Err(partita_inference::Error::Exchange { problem }.into());
            }
            let mut waiting = self.waiting(request, deadline);
            if is_missing && are_others_at_work {
                // A silo that is gone is not asked again at once: the others would do nothing but hear of it.
                waiting.not_before += BREATH;
            }
            self.under_way.waiting.push(waiting);
        }
        self.send_waiting()
    }

    /// The next outcome; `None` if none comes before the deadline.
    fn next(&mut self, manifest: &Manifest, deadline: Option<Duration>) -> Result<Option<Arrival>> {
        let until = deadline.map(|deadline| Instant::now() + deadline);
        loop {
            let ready = self.under_way.ready();
            if let Some(Over { arrival, .. }) = ready.and_then(|place| self.under_way.over.remove(place)) {
                self.wait.restart();
                return Ok(Some(arrival));
            }
            if self.under_way.waiting.is_empty() {
                return Err(partita_inference::Error::Exchange { problem: "no silo was asked anything".into() }.into());
            }
            self.look_after(manifest)?;
            if self.under_way.ready().is_none() {
                if until.is_some_and(|until| Instant::now() > until) {
                    return Ok(None);
                }
                let names = &self.options.silos;
                let asked = || self.under_way.waiting.iter().map(|one| names[one.request.silo].as_str());
                self.wait.look(&self.user, || asked().collect::<Vec<_>>().join(", "))?;
                std::thread::sleep(self.under_way.pause);
                self.under_way.pause = (2 * self.under_way.pause).min(PAUSE);
            }
        }
    }
}

impl Exchange for Flower {
    fn silos(&self) -> &[String] {
        &self.options.silos
    }

    fn send(&mut self, requests: Vec<Request>, deadline: Option<Duration>) -> partita_inference::Result<()> {
        self.ask(requests, deadline).map_err(outside)
    }

    fn receive(
        &mut self,
        manifest: &Manifest,
        deadline: Option<Duration>,
    ) -> partita_inference::Result<Option<Arrival>> {
        self.next(manifest, deadline).map_err(outside)
    }

    /// Large answers of others stay at the engine until their turn.
    fn next_is(&mut self, silo: usize) {
        self.under_way.next = Some(silo);
    }

    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        Some(self)
    }
}

impl Resumable for Flower {
    /// Silos save their state after every answer: what is left to save is whose answers were taken.
    fn save(&mut self, folder: &Path) -> partita_inference::Result<()> {
        self.save_place(folder).map_err(outside)
    }

    fn restore(&mut self, folder: &Path) -> partita_inference::Result<()> {
        self.restore_place(folder).map_err(outside)
    }
}

/// An error as those see it who know of no engine.
fn outside(error: Error) -> partita_inference::Error {
    match error {
        Error::Inference(error) => error,
        other => partita_inference::Error::Exchange { problem: other.to_string() },
    }
}
