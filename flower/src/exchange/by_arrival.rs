//! Lets silos behind an engine be asked one by one, and hands over whichever answer comes first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use partita_inference::{ByArrival, Manifest, Outcome, Request};

use super::round::{BREATH, Waiting};
use super::{Flower, PAUSE, outside};

/// Requests that are under way, and outcomes by their silos that nobody has asked for yet.
#[derive(Default)]
pub(super) struct UnderWay {
    waiting: Vec<Waiting>,
    over: VecDeque<(usize, Outcome)>,
}

impl ByArrival for Flower {
    fn silos(&self) -> &[String] {
        &self.options.silos
    }

    /// Every request is a round of its own: a silo refuses what is older than what it has answered, each by itself.
    fn send(&mut self, request: Request) -> partita_inference::Result<()> {
        let silo = request.silo;
        let Some(is_missing) = self.missing.get(silo).copied() else {
            let reason = format!("there are {} silos", self.missing.len());
            return Err(partita_inference::Error::SiloLost { silo: silo.to_string(), step: 0, reason });
        };
        if self.by_arrival.waiting.iter().any(|one| one.request.silo == silo) {
            let problem = format!("silo `{}` was asked again before it had answered", self.options.silos[silo]);
            return Err(partita_inference::Error::Exchange { problem });
        }
        self.place.round += 1;
        let mut waiting = self.waiting(request, silo, None);
        if is_missing {
            // A silo that is gone is not asked again at once: the others would do nothing but hear of it.
            waiting.not_before += BREATH;
        }
        self.by_arrival.waiting.push(waiting);
        Ok(())
    }

    fn receive(
        &mut self,
        manifest: &Manifest,
        deadline: Option<Duration>,
    ) -> partita_inference::Result<Option<(usize, Outcome)>> {
        let until = deadline.map(|deadline| Instant::now() + deadline);
        let mut pause = PAUSE / 16;
        loop {
            // Whoever rests is asked before the answers of others are looked at.
            let mut waiting = std::mem::take(&mut self.by_arrival.waiting);
            let over = self.pass(&mut waiting, manifest);
            self.by_arrival.waiting = waiting;
            self.by_arrival.over.extend(over.map_err(outside)?);
            if let Some(first) = self.by_arrival.over.pop_front() {
                return Ok(Some(first));
            }
            if self.by_arrival.waiting.is_empty() {
                return Err(partita_inference::Error::Exchange { problem: "no silo was asked anything".into() });
            }
            if until.is_some_and(|until| Instant::now() > until) {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSE);
        }
    }
}
