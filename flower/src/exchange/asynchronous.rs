//! Lets silos behind an engine be asked one by one, and hands over whichever answer comes first.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use partita_inference::{AsynchronousExchange, Manifest, Outcome, Request, Resumable};

use super::round::{BREATH, Waiting};
use super::{Flower, PAUSE, outside};

/// Requests that are under way, and outcomes by their silos that nobody has asked for yet.
#[derive(Default)]
pub(super) struct UnderWay {
    waiting: Vec<Waiting>,
    over: VecDeque<Over>,
}

/// An outcome that was not handed over yet.
struct Over {
    silo: usize,
    outcome: Outcome,
    /// The round of the silo's answer before it.
    before: u64,
}

impl UnderWay {
    /// The latest round of each silo whose answer was handed over, where `accepted` is that of the last that came.
    pub(super) fn handed_over(&self, accepted: &[u64]) -> Vec<u64> {
        let mut rounds = accepted.to_vec();
        for over in &self.over {
            rounds[over.silo] = over.before;
        }
        rounds
    }
}

impl AsynchronousExchange for Flower {
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
        if self.asynchronous.waiting.iter().any(|one| one.request.silo == silo) {
            let problem = format!("silo `{}` was asked again before it had answered", self.options.silos[silo]);
            return Err(partita_inference::Error::Exchange { problem });
        }
        self.place.round += 1;
        let mut waiting = self.waiting(request, silo, None);
        if is_missing {
            // A silo that is gone is not asked again at once: the others would do nothing but hear of it.
            waiting.not_before += BREATH;
        }
        self.asynchronous.waiting.push(waiting);
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
            let mut waiting = std::mem::take(&mut self.asynchronous.waiting);
            let before = self.place.accepted.clone();
            let over = self.pass(&mut waiting, manifest);
            self.asynchronous.waiting = waiting;
            let over = over.map_err(outside)?.into_iter();
            self.asynchronous.over.extend(over.map(|(silo, outcome)| Over { silo, outcome, before: before[silo] }));
            if let Some(Over { silo, outcome, .. }) = self.asynchronous.over.pop_front() {
                return Ok(Some((silo, outcome)));
            }
            if self.asynchronous.waiting.is_empty() {
                return Err(partita_inference::Error::Exchange { problem: "no silo was asked anything".into() });
            }
            if until.is_some_and(|until| Instant::now() > until) {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSE);
        }
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
