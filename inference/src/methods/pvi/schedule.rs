//! Chooses which silos PVI visits next, and from which posterior: one, some or all of them, or whichever is ready.

use crate::engine::turn::subset;
use partita_core::{Key, Noise, Purpose};
use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};

/// In which order a sequential schedule goes round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Order {
    /// The order of the silos.
    #[default]
    Fixed,
    /// A new random order in every sweep.
    Random,
    /// The silo whose last visit moved the posterior most, in nats of divergence; silos not yet visited first.
    Residual,
}

/// Which silos PVI visits in one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SiloSchedule {
    /// One silo at a time. Messages go furthest, and the other silos wait.
    Sequential(Order),
    /// All silos at once.
    Synchronous,
    /// So many silos at once, drawn anew without replacement.
    Subset(usize),
    /// Every silo works on what it was last sent and is answered when it is ready, on a seeded virtual clock: the same
    /// run every time, with the stale answers of a real one. A clock of its own drives
    /// [`run_asynchronous`](crate::run_asynchronous()).
    Asynchronous(Delays),
}

/// How long silos of an asynchronous schedule take, on a virtual clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// A visit takes a uniform time between 1 and this.
    pub longest: f64,
    /// The last silo is this many times slower than the first, the others between: stragglers.
    pub straggle: f64,
    /// The probability that an answer is lost on its way.
    pub loss: f64,
    /// The seed of the clock.
    pub seed: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Self { longest: 8.0, straggle: 1.0, loss: 0.0, seed: 1 }
    }
}

impl SiloSchedule {
    /// Refuses a schedule that visits no silo.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(self) -> Result<()> {
        match self {
            Self::Subset(silos) => {
                Error::unless(silos > 0, "schedule", format_args!("a subset of {silos} silos"), "at least 1 silo")
            }
            Self::Asynchronous(delays) => {
                let is_delay = |own: f64| own >= 1.0 && own.is_finite();
                let are_sound =
                    is_delay(delays.longest) && is_delay(delays.straggle) && (0.0..1.0).contains(&delays.loss);
                let expected = "a longest delay >= 1, straggling >= 1 and a loss in [0, 1), all finite";
                Error::unless(are_sound, "schedule", format_args!("{delays:?}"), expected)
            }
            _ => Ok(()),
        }
    }
}

/// A silo's work in an asynchronous run: what it was sent, and when it will have answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Work {
    pub(crate) until: f64,
    /// The version of the posterior sent, and its natural parameters.
    pub(crate) version: u64,
    pub(crate) natural: Vec<f64>,
    /// Those of the prior at that time.
    pub(crate) prior: Vec<f64>,
}

/// Who is next.
#[derive(Debug)]
pub(crate) struct Turn {
    schedule: SiloSchedule,
    noise: Noise,
    /// Exchanges so far.
    pub(crate) turn: u64,
    /// How far each silo's last visit moved the posterior, in nats; infinite before the first.
    pub(crate) residuals: Vec<f64>,
    /// The exchange before which a silo that did not answer is not asked again, if others are there.
    pub(crate) not_before: Vec<u64>,
}

impl Turn {
    pub(crate) fn new(schedule: SiloSchedule, silos: usize, seed: u64) -> Self {
        Self {
            schedule,
            noise: Noise::new(seed),
            turn: 0,
            residuals: vec![f64::INFINITY; silos],
            not_before: vec![0; silos],
        }
    }

    /// The silos of the next exchange among those present, in their order; empty for an asynchronous schedule.
    pub(crate) fn silos(&self, present: &[bool]) -> Vec<usize> {
        let here: Vec<usize> = (0..present.len()).filter(|&silo| present[silo]).collect();
        let count = here.len().max(1);
        let key = |step: u64| Key::new(Purpose::Schedule, step);
        let in_sweep = |turn: u64| usize::try_from(turn % count as u64).unwrap_or(0);
        match self.schedule {
            SiloSchedule::Synchronous => here,
            SiloSchedule::Asynchronous(_) => Vec::new(),
            SiloSchedule::Subset(size) => subset(here, size, self.noise, self.turn),
            SiloSchedule::Sequential(Order::Fixed) => here.get(in_sweep(self.turn)).copied().into_iter().collect(),
            SiloSchedule::Sequential(Order::Random) => {
                let mut order = here;
                self.noise.stream(key(self.turn / count as u64)).shuffle(&mut order);
                order.get(in_sweep(self.turn)).copied().into_iter().collect()
            }
            SiloSchedule::Sequential(Order::Residual) => {
                // The first of those with the largest residual.
                let larger = |best: usize, silo: usize| {
                    if self.residuals[silo] > self.residuals[best] { silo } else { best }
                };
                let is_due = |silo: &usize| self.not_before[*silo] <= self.turn;
                let due = here.iter().copied().filter(is_due).reduce(larger);
                let best = due.or_else(|| here.iter().copied().min_by_key(|silo| self.not_before[*silo]));
                best.into_iter().collect()
            }
        }
    }

    /// Lets the others present go first once, where the order is by residual: a silo that did not answer keeps its own.
    pub(crate) fn put_off(&mut self, silo: usize, present: &[bool]) {
        self.not_before[silo] = self.turn + present.iter().filter(|here| **here).count() as u64;
    }

    /// How long the `visit`-th visit of a silo takes.
    pub(crate) fn delay(delays: Delays, silo: usize, silos: usize, update: u64) -> f64 {
        let uniform = Self::clock(delays, silo, update, 0);
        let place = silo as f64 / (silos.max(2) - 1) as f64;
        (1.0 + (delays.longest - 1.0) * uniform) * (1.0 + (delays.straggle - 1.0) * place)
    }

    /// Whether the answer of the `visit`-th visit of a silo is lost.
    pub(crate) fn is_lost(delays: Delays, silo: usize, update: u64) -> bool {
        Self::clock(delays, silo, update, 1) < delays.loss
    }

    fn clock(delays: Delays, silo: usize, update: u64, block: u32) -> f64 {
        let silo = u32::try_from(silo).unwrap_or(u32::MAX);
        Noise::new(delays.seed).stream(Key::new(Purpose::Schedule, update).silo(silo).block(block)).uniform()
    }
}
