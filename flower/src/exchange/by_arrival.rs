//! Lets silos behind an engine be asked one by one, and hands over whichever answer comes first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use partita_inference::{ByArrival, Manifest, Outcome, Request};

use super::round::{BREATH, Finished, Waiting};
use super::{Flower, PAUSE, outside};

/// Requests that are under way, and answers that nobody has asked for yet.
#[derive(Default)]
pub(super) struct ByArrivalState {
    waiting: Vec<Waiting>,
    finished: VecDeque<Finished>,
}

impl ByArrival for Flower {
    fn silos(&self) -> &[String] {
        &self.options.silos
    }

    /// Every request is a round of its own: silos refuse what is older than what they have answered, each by itself.
    fn send(&mut self, request: Request) -> partita_inference::Result<()> {
        let silo = request.silo;
        let Some(is_missing) = self.missing.get(silo).copied() else {
            let reason = format!("there are {} silos", self.missing.len());
            return Err(partita_inference::Error::SiloLost { silo: silo.to_string(), step: 0, reason });
        };
        if self.by_arrival.waiting.iter().any(|one| one.silo() == silo) {
            let problem = format!("silo `{}` was asked again before it had answered", self.options.silos[silo]);
            return Err(partita_inference::Error::Exchange { problem });
        }
        self.place.round += 1;
        // A silo that is gone is not asked again at once: the others would do nothing but hear of it.
        let not_before = Instant::now() + if is_missing { BREATH } else { Duration::ZERO };
        let waiting = Waiting::new((request, 0), self.place.round, not_before, self.patience());
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
            let mut waiting = std::mem::take(&mut self.by_arrival.waiting);
            let passed = self.pass(&mut waiting, manifest, self.patience());
            self.by_arrival.waiting = waiting;
            self.by_arrival.finished.extend(passed.map_err(outside)?);
            if let Some(Finished { silo, round, outcome, .. }) = self.by_arrival.finished.pop_front() {
                if matches!(outcome, Outcome::Reply(_)) {
                    self.taken(silo, round);
                }
                return Ok(Some((silo, outcome)));
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
