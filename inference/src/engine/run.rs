//! Runs an algorithm over an exchange: the one loop for every algorithm and every transport.

mod asynchronous;
mod progress;
mod saved;
mod stop;

pub use asynchronous::{Asynchronous, run_asynchronous};
pub use progress::{Metrics, Progress, Silent};
use saved::save;
pub use stop::{StopRule, Tolerance};

use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::engine::algorithm::{Algorithm, StepInfo, replies};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Exchange, Outcome, Request};
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// How a run is carried out; none of it changes a number of the fit, except where it stops.
#[derive(Debug, Default)]
pub struct RunOptions {
    /// Steps of the whole run.
    pub steps: u64,
    /// Where checkpoints go, and every how many steps.
    pub checkpoint: Option<(PathBuf, u64)>,
    /// Go on from the latest checkpoint there.
    pub resume: bool,
    /// Stop early when the bound no longer rises.
    pub stop: Option<StopRule>,
    /// Stop early when the posterior no longer moves.
    pub tolerance: Option<Tolerance>,
    /// How long to wait for a silo.
    pub deadline: Option<Duration>,
    /// Set from outside to end the run after the present step.
    pub interrupt: Option<Arc<AtomicBool>>,
}

impl RunOptions {
    fn check(&self) -> Result<()> {
        if let Some((_, 0)) = self.checkpoint {
            let expected = "every step or more: at least 1";
            return Err(Error::Setting { setting: "checkpoint", found: "every 0 steps".into(), expected });
        }
        Ok(())
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

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Ending {
    /// All steps were done.
    #[default]
    Completed,
    /// The bound no longer rose, or the posterior no longer moved.
    Converged,
    /// The user interrupted.
    Interrupted,
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
    /// Local problems of PVI whose cavity was no density.
    pub improper_cavities: u64,
    /// Rounds of PVI whose answers were shortened by backtracking.
    pub shortened_rounds: u64,
    /// Local steps of PVI that were halved to stay where the divergence exists.
    pub shortened_steps: u64,
    /// Components of factors of PVI that stayed what they were, since their new precision would have been negative.
    pub held_components: u64,
    /// Answers to PVI that did not come, without which the run went on.
    #[serde(default)]
    pub missed_answers: u64,
}

impl Counters {
    /// All of them, in the order in which checkpoints hold them.
    fn each(&mut self) -> [&mut u64; 12] {
        [
            &mut self.rounds,
            &mut self.messages,
            &mut self.bytes_to_silos,
            &mut self.bytes_from_silos,
            &mut self.gradient_steps,
            &mut self.clipped_steps,
            &mut self.silo_steps,
            &mut self.improper_cavities,
            &mut self.shortened_rounds,
            &mut self.shortened_steps,
            &mut self.held_components,
            &mut self.missed_answers,
        ]
    }

    /// Adds what a step took.
    fn add(&mut self, info: &StepInfo) {
        self.gradient_steps += info.tally.parallel_steps;
        self.silo_steps += info.tally.silo_steps;
        self.improper_cavities += info.tally.improper_cavities;
        self.shortened_rounds += info.tally.shortened_rounds;
        self.shortened_steps += info.tally.shortened_steps;
        self.held_components += info.tally.held_components;
        self.missed_answers += info.tally.missed_answers;
        self.clipped_steps += u64::from(info.clipped);
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
    /// Wall time in seconds.
    pub seconds: f64,
}

/// Runs `algorithm` to its last step, to convergence or to an interruption.
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
    options.check()?;
    let start = Instant::now();
    let (mut record, mut stop) = (RunRecord::default(), stop::Watch::new(options.stop, options.tolerance));
    let mut step = match options.resume {
        true => {
            let restore = |folder: &Path, step| keep(exchange, Keep::Restore, folder, options, step);
            saved::resume(algorithm, options, (&mut record, &mut stop), restore)?
        }
        false => 0,
    };
    while step < options.steps {
        let info = self::step(algorithm, exchange, options.deadline, &mut record.counters)?;
        // A step of several exchanges is over with the last of them.
        if info.step == step {
            // Where nobody answers an interruption is heard all the same; the last checkpoint stays.
            if info.tally.missed_answers > 0 && options.is_interrupted() {
                record.ending = Ending::Interrupted;
                break;
            }
            continue;
        }
        let before = std::mem::replace(&mut step, info.step);
        if options.is_traced(before, step) {
            record.trace.push((step, info.elbo));
        }
        progress.step(&info, &record.counters);
        let is_over = stop.is_over(&info);
        if let Some((root, every)) = &options.checkpoint
            && options.is_due(*every, before, step)
        {
            save(algorithm, root, (&record, &stop), |folder, step| keep(exchange, Keep::Save, folder, options, step))?;
        }
        if is_over {
            record.ending = Ending::Converged;
            break;
        }
        if options.is_interrupted() {
            record.ending = Ending::Interrupted;
            if let Some((root, _)) = &options.checkpoint {
                save(algorithm, root, (&record, &stop), |folder, step| {
                    keep(exchange, Keep::Save, folder, options, step)
                })?;
            }
            break;
        }
    }
    record.seconds = start.elapsed().as_secs_f64();
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
    let outcomes = counted(exchange, requests, algorithm.manifest(), deadline, counters)?;
    let info = caught(COORDINATOR, || algorithm.incoming(outcomes))?;
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
    counters.messages += requests.len() as u64;
    counters.bytes_to_silos += requests.iter().map(|request| request.message.size() as u64).sum::<u64>();
    let outcomes = exchange.exchange(requests, manifest, deadline)?;
    for outcome in &outcomes {
        if let Outcome::Reply(reply) = outcome {
            counters.messages += 1;
            counters.bytes_from_silos += reply.size() as u64;
        }
    }
    Ok(outcomes)
}

/// What is done with the folder of a checkpoint.
#[derive(Clone, Copy)]
enum Keep {
    Save,
    Restore,
}

/// Has all silos save their state in the folder of a checkpoint, or restore it from there.
fn keep(exchange: &mut dyn Exchange, what: Keep, folder: &Path, options: &RunOptions, step: u64) -> Result<()> {
    let kind = match (exchange.resumable(), what) {
        (Some(own), Keep::Save) => return own.save(folder),
        (Some(own), Keep::Restore) => return own.restore(folder),
        (None, Keep::Save) => "silo.save",
        (None, Keep::Restore) => "silo.restore",
    };
    let message = Message::new(kind).setting("folder", &folder.to_string_lossy());
    let names = exchange.silos().to_vec();
    let requests = (0..names.len()).map(|silo| Request { silo, message: message.clone() }).collect();
    // Nothing may leave a silo with such an answer: the manifest is empty.
    let outcomes = exchange.exchange(requests, &Manifest::default(), options.deadline)?;
    replies(outcomes, &names, step).map(drop)
}
