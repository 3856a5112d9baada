//! Runs an algorithm over an exchange: the one loop for every algorithm, every exchange, and whoever is waited for.

mod pace;
mod progress;
mod saved;
mod stop;
mod tenth;

use pace::{Arrivals, Pace};
pub use progress::{Judging, Metrics, Progress, Silent};
pub use stop::Tolerance;
pub(crate) use tenth::LateMovement;

use std::ops::AddAssign;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::engine::algorithm::{Algorithm, Ending, StepInfo};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Exchange, InTurn, Outcome, Request};
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::wire::manifest::Manifest;

/// How a run is carried out; none of it changes a number of the fit, except where it stops.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Steps of the whole run.
    pub steps: u64,
    /// Where checkpoints go, and every how many steps.
    pub checkpoint: Option<(PathBuf, u64)>,
    /// Go on from the latest checkpoint there.
    pub resume: bool,
    /// Stop early when the posterior no longer moves.
    pub tolerance: Option<Tolerance>,
    /// How long to wait for a silo.
    pub deadline: Option<Duration>,
    /// Set from outside to end the run after the present step.
    pub interrupt: Option<Arc<AtomicBool>>,
}

impl RunOptions {
    fn check(&self) -> Result<()> {
        let has_steps = !matches!(self.checkpoint, Some((_, 0)));
        Error::unless(has_steps, "checkpoint", "every 0 steps", "every step or more: at least 1")
    }

    /// Whether a checkpoint is due that comes every so many steps, and at the end.
    fn is_due(&self, every: u64, before: u64, step: u64) -> bool {
        passes(every, before, step) || (step >= self.steps && step > before)
    }

    /// Whether a step is kept in the trace: some thousands of them, and the first hundred, so that a run cut short has
    /// a trace too; and every exchange of many steps.
    fn is_traced(&self, before: u64, step: u64) -> bool {
        step <= 100 || passes((self.steps / 2_000).max(1), before, step) || step >= self.steps
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// What crossed between the parties, and what was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Exchanges with all silos.
    pub rounds: u64,
    /// Messages, both ways.
    pub messages: u64,
    /// Bytes of encoded messages from the coordinator to silos.
    pub bytes_to_silos: u64,
    /// Bytes of encoded messages from silos to the coordinator.
    pub bytes_from_silos: u64,
    /// Optimiser steps of the globals that pass one after another; in rounds of local steps, of the silo that takes
    /// most.
    pub gradient_steps: u64,
    /// Steps whose gradient was clipped.
    pub clipped_steps: u64,
    /// Gradient steps of all silos together.
    pub silo_steps: u64,
}

impl Counters {
    /// All of them, in the order in which checkpoints hold them.
    fn each(&mut self) -> [&mut u64; 7] {
        [
            &mut self.rounds,
            &mut self.messages,
            &mut self.bytes_to_silos,
            &mut self.bytes_from_silos,
            &mut self.gradient_steps,
            &mut self.clipped_steps,
            &mut self.silo_steps,
        ]
    }

    /// Adds what a step took.
    fn add(&mut self, info: &StepInfo) {
        self.gradient_steps += info.tally.parallel_steps;
        self.silo_steps += info.tally.silo_steps;
        self.clipped_steps += info.clipped_steps;
    }

    /// Adds a request.
    fn sent(&mut self, request: &Request) {
        self.messages += 1;
        self.bytes_to_silos += request.message.size() as u64;
    }

    /// Adds an answer, if it is one.
    fn heard(&mut self, outcome: &Outcome) {
        if let Outcome::Reply(reply) = outcome {
            self.messages += 1;
            self.bytes_from_silos += reply.size() as u64;
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, mut more: Self) {
        for (sum, more) in self.each().into_iter().zip(more.each()) {
            *sum += *more;
        }
    }
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunRecord {
    /// Why it ended.
    pub ending: Ending,
    /// What was exchanged.
    pub counters: Counters,
    /// Step and sampled bound, thinned to at most a few thousand points.
    pub trace: Vec<(u64, f64)>,
    /// Wall time in seconds, of a resumed run with that of the sessions before.
    pub seconds: f64,
    /// How far the mean of one global moved over the last tenth of the steps, the one that moved farthest in standard
    /// deviations of the posterior; `None` of a shorter run, of a point, and of more globals than 200.
    pub(crate) last_tenth: Option<LateMovement>,
}

/// How far a run has come.
struct Course {
    began: Instant,
    step: u64,
    record: RunRecord,
    stop: stop::Watch,
    marks: tenth::Marks,
}

impl Course {
    /// Seconds of this run, with those before it was resumed.
    fn seconds(&self) -> f64 {
        self.record.seconds + self.began.elapsed().as_secs_f64()
    }
}

/// Runs `algorithm` to its last step, to convergence or to an interruption: all silos of a round are waited for.
///
/// # Errors
/// [`Error::Setting`] for checkpoints every 0 steps; what algorithm and exchange report; the last checkpoint stays on
/// disk.
pub fn run(
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    options: &RunOptions,
    progress: &mut dyn Progress,
) -> Result<RunRecord> {
    run_at(Pace::Rounds(algorithm), exchange, options, progress)
}

/// Runs `algorithm` as [`run`] does, but all silos work at once, each from the posterior it was sent last.
///
/// The order of arrival is that of the machine: two runs differ, and converge to the same fixed point. For a run that
/// can be repeated use [`crate::SiloSchedule::Asynchronous`] with [`crate::run()`], which simulates the clock.
///
/// A checkpoint is written without waiting for anybody: work that is under way then is done again by a run that goes on
/// from it.
///
/// # Errors
/// As for [`run`]; [`Error::Setting`] for an algorithm that is not [`crate::Asynchronous`], and for checkpoints of an
/// exchange that cannot be taken up again; [`Error::NoSilos`] if none takes part; [`Error::SiloLost`] with the names of
/// all that were waited for, if none of them answers before the deadline.
pub fn run_asynchronous(
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    options: &RunOptions,
    progress: &mut dyn Progress,
) -> Result<RunRecord> {
    let arrivals = Arrivals::new(algorithm, exchange.silos().len())?;
    run_at(Pace::Arrivals(arrivals), exchange, options, progress)
}

/// The loop of every run.
fn run_at(
    mut pace: Pace<'_>,
    exchange: &mut dyn Exchange,
    options: &RunOptions,
    progress: &mut dyn Progress,
) -> Result<RunRecord> {
    options.check()?;
    let (began, stop) = (Instant::now(), stop::Watch::new(options.tolerance));
    let mut course = Course { began, step: 0, record: RunRecord::default(), stop, marks: tenth::Marks::default() };
    if options.checkpoint.is_some() {
        pace.check_checkpoints(exchange)?;
    }
    if options.resume {
        saved::resume(pace.algorithm(), exchange, options, &mut course)?;
    }
    course.record.ending = pace.algorithm().ended().unwrap_or_default();
    while course.step < options.steps && course.record.ending == Ending::Completed {
        let info = pace.next(exchange, course.step, options.deadline, &mut course.record.counters)?;
        let before = std::mem::replace(&mut course.step, info.step);
        // A step of several exchanges is over with the last of them, and an answer that did not come is no step.
        let is_step = info.step > before;
        if is_step {
            if options.is_traced(before, info.step) {
                course.record.trace.push((info.step, info.elbo));
            }
            progress.step(&info, &course.record.counters);
            course.marks.take(info.step, || pace.algorithm().posterior());
        }
        let is_over = is_step && course.stop.is_over(&info);
        let own = if is_step { pace.algorithm().ended() } else { None };
        // Where no silo answers an interruption is heard all the same.
        let is_interrupted = (is_step || info.tally.missed_answers > 0) && options.is_interrupted();
        course.record.ending = match (own, is_over, is_interrupted) {
            (Some(own), _, _) => own,
            (None, true, _) => Ending::Converged,
            (None, false, true) => Ending::Interrupted,
            (None, false, false) => Ending::Completed,
        };
        // Silos that do not answer cannot be asked to save themselves: the last checkpoint stays.
        let is_saved = is_interrupted && (is_step || exchange.resumable().is_some());
        if let Some((root, every)) = &options.checkpoint
            && (is_saved || options.is_due(*every, before, info.step))
        {
            saved::save(pace.algorithm(), exchange, root, options.deadline, &course)?;
        }
    }
    let seconds = course.seconds();
    let mut record = RunRecord { seconds, ..course.record };
    record.last_tenth = course.marks.movement(course.step, &pace.algorithm().posterior());
    pace.end(exchange, options.deadline, &mut record.counters)?;
    progress.end(&record);
    Ok(record)
}

/// Whether a run passes a multiple of `every` between two steps: an exchange may take several at once.
fn passes(every: u64, before: u64, step: u64) -> bool {
    step / every > before / every
}

/// One exchange of an algorithm with its silos; a step of some algorithms takes several.
///
/// # Errors
/// What algorithm and exchange report.
pub fn step(
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    deadline: Option<Duration>,
    counters: &mut Counters,
) -> Result<StepInfo> {
    let requests = caught(COORDINATOR, || algorithm.outgoing())?;
    counters.rounds += 1;
    requests.iter().for_each(|request| counters.sent(request));
    let manifest = algorithm.manifest().clone();
    let outcomes = InTurn::send(exchange, requests, &manifest, deadline)?;
    let mut outcomes = outcomes.inspect(|outcome| outcome.iter().for_each(|outcome| counters.heard(outcome)));
    let info = caught(COORDINATOR, || algorithm.incoming_in_turn(&mut outcomes))?;
    // What a method did not look at has crossed all the same.
    outcomes.try_for_each(|outcome| outcome.map(drop))?;
    counters.add(&info);
    Ok(info)
}

/// One exchange, with its messages and bytes counted.
pub(crate) fn counted(
    exchange: &mut dyn Exchange,
    requests: Vec<Request>,
    manifest: &Manifest,
    deadline: Option<Duration>,
    counters: &mut Counters,
) -> Result<Vec<Outcome>> {
    counters.rounds += 1;
    requests.iter().for_each(|request| counters.sent(request));
    let outcomes = exchange.exchange(requests, manifest, deadline)?;
    outcomes.iter().for_each(|outcome| counters.heard(outcome));
    Ok(outcomes)
}
