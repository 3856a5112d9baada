//! Runs an asynchronous algorithm: every silo is answered as soon as it has answered, with no round to wait for.

use std::time::Instant;

use super::{Counters, Ending, Progress, RunOptions, RunRecord, save, saved, stop};
use crate::algorithm::{Algorithm, StepInfo};
use crate::error::{Error, Result};
use crate::exchange::{ByArrival, Outcome, Request, Resumable};

/// An algorithm whose silos need not wait for each other.
pub trait Asynchronous: Algorithm {
    /// The request for a silo that rests.
    ///
    /// # Errors
    /// [`Error::Setting`] if the algorithm was not set up to be asynchronous.
    fn ask(&mut self, silo: usize) -> Result<Request>;

    /// Takes the outcome of the request that this silo was sent last.
    ///
    /// # Errors
    /// As for [`Algorithm::incoming`].
    fn take(&mut self, silo: usize, outcome: Outcome) -> Result<StepInfo>;
}

/// Runs `algorithm` until its last step: all silos work at once, each from the posterior it was sent last.
///
/// The order of arrival is that of the machine: two runs differ, and converge to the same fixed point. For a run that can be
/// repeated use [`crate::VisitSchedule::Asynchronous`] with [`crate::run()`], which simulates the clock.
///
/// A checkpoint is written without waiting for anybody: work that is under way then is done again by a run that goes on from it.
///
/// # Errors
/// [`Error::Setting`] for checkpoints every 0 steps, or of an exchange that cannot be taken up again; what algorithm and exchange
/// report; the last checkpoint stays on disk.
pub fn run_by_arrival(
    algorithm: &mut dyn Asynchronous,
    exchange: &mut dyn ByArrival,
    options: &RunOptions,
    progress: &mut dyn Progress,
) -> Result<RunRecord> {
    options.check()?;
    let start = Instant::now();
    let mut record = RunRecord::default();
    if options.checkpoint.is_some() {
        resumable(exchange)?;
    }
    let mut step = match options.resume {
        true => saved::resume(algorithm, options, &mut record, |folder, _| resumable(exchange)?.restore(folder))?,
        false => 0,
    };
    let mut stop = stop::Watch::new(options.stop, options.still);
    let mut busy = 0_usize;
    if step < options.steps {
        for silo in 0..exchange.silos().len() {
            send(algorithm, exchange, silo, &mut record.counters)?;
            busy += 1;
        }
    }
    while busy > 0 {
        let Some((silo, outcome)) = exchange.receive(algorithm.manifest(), options.deadline)? else {
            return Err(Error::SiloLost { silo: "any".into(), step, reason: "no answer before the deadline".into() });
        };
        busy -= 1;
        if let Outcome::Reply(reply) = &outcome {
            record.counters.messages += 1;
            record.counters.bytes_from_silos += reply.size() as u64;
        }
        // Work that was still under way when the last step was done is not taken.
        if step >= options.steps || record.ending != Ending::Completed {
            continue;
        }
        let info = algorithm.take(silo, outcome)?;
        step = info.step;
        record.counters.rounds += 1;
        record.counters.add(&info);
        record.trace.push((step, info.elbo));
        progress.step(&info, &record.counters);
        let is_interrupted = options.is_interrupted();
        if let Some((root, every)) = &options.checkpoint
            && (step.is_multiple_of(*every) || step >= options.steps || is_interrupted)
        {
            save(algorithm, root, &record, |folder, _| resumable(exchange)?.save(folder))?;
        }
        if is_interrupted {
            record.ending = Ending::Interrupted;
        } else if stop.is_over(&info) {
            record.ending = Ending::Converged;
        } else if step < options.steps {
            send(algorithm, exchange, silo, &mut record.counters)?;
            busy += 1;
        }
    }
    record.seconds = start.elapsed().as_secs_f64();
    progress.end(&record);
    Ok(record)
}

/// What saves where an exchange is, where something does.
fn resumable(exchange: &mut dyn ByArrival) -> Result<&mut dyn Resumable> {
    exchange.resumable().ok_or_else(|| Error::Setting {
        setting: "checkpoint",
        found: "a folder, for silos on threads that keep their state in memory".into(),
        expected: "none; or the simulated clock of VisitSchedule::Asynchronous with `run`, which saves every silo",
    })
}

fn send(
    algorithm: &mut dyn Asynchronous,
    exchange: &mut dyn ByArrival,
    silo: usize,
    counters: &mut Counters,
) -> Result<()> {
    let request = algorithm.ask(silo)?;
    counters.messages += 1;
    counters.bytes_to_silos += request.message.size() as u64;
    exchange.send(request)
}
