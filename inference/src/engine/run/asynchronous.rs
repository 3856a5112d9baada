//! Runs an asynchronous algorithm: every silo is answered as soon as it has answered, with no round to wait for.

use std::path::Path;
use std::time::Instant;

use super::{Counters, Ending, Progress, RunOptions, RunRecord, save, saved, stop};
use crate::engine::algorithm::{Algorithm, StepInfo};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{AsynchronousExchange, Outcome, Request, Resumable};
use crate::engine::panic::{COORDINATOR, caught};

/// An algorithm whose silos need not wait for each other.
///
/// # Laws
/// Every request of [`Asynchronous::ask`] is followed by one [`Asynchronous::take`] or [`Asynchronous::discard`] of its
/// silo before the next. Whatever the order in which silos are taken, a run to convergence ends at the fixed point of
/// visits in turn (`tests/pvi/fixed_point.rs`, and over a network `tests/flower/asynchronous.rs`).
pub trait Asynchronous: Algorithm {
    /// The next request for a silo; none for one that takes no part.
    ///
    /// # Errors
    /// [`Error::Setting`] if the algorithm was not set up to be asynchronous.
    fn ask(&mut self, silo: usize) -> Result<Option<Request>>;

    /// Takes the outcome of the request that this silo was sent last.
    ///
    /// # Errors
    /// As for [`Algorithm::incoming`].
    fn take(&mut self, silo: usize, outcome: Outcome) -> Result<StepInfo>;

    /// Hears that the outcome of that request is not taken, since the run is over: the silo does not know.
    fn discard(&mut self, silo: usize);
}

/// Runs `algorithm` until its last step: all silos work at once, each from the posterior it was sent last.
///
/// The order of arrival is that of the machine: two runs differ, and converge to the same fixed point. For a run that
/// can be repeated use [`crate::SiloSchedule::Asynchronous`] with [`crate::run()`], which simulates the clock.
///
/// A checkpoint is written without waiting for anybody: work that is under way then is done again by a run that goes on
/// from it.
///
/// # Errors
/// [`Error::NoSilos`] if none takes part; [`Error::SiloLost`] with the names of all that were waited for, if none of
/// them answers before the deadline; [`Error::Setting`] for checkpoints every 0 steps, or of an exchange that cannot be
/// taken up again; what algorithm and exchange report; the last checkpoint stays on disk.
pub fn run_asynchronous(
    algorithm: &mut dyn Asynchronous,
    exchange: &mut dyn AsynchronousExchange,
    options: &RunOptions,
    progress: &mut dyn Progress,
) -> Result<RunRecord> {
    options.check()?;
    let start = Instant::now();
    let (mut record, mut stop) = (RunRecord::default(), stop::Watch::new(options.stop, options.tolerance));
    if options.checkpoint.is_some() {
        resumable(exchange)?;
    }
    let mut step = match options.resume {
        true => {
            let restore = |folder: &Path, _| resumable(exchange)?.restore(folder);
            saved::resume(algorithm, options, (&mut record, &mut stop), restore)?
        }
        false => 0,
    };
    let mut busy = vec![false; exchange.silos().len()];
    if step < options.steps {
        for (silo, busy) in busy.iter_mut().enumerate() {
            *busy = send(algorithm, exchange, silo, &mut record.counters)?;
        }
        if !busy.contains(&true) {
            return Err(Error::NoSilos);
        }
    }
    while busy.contains(&true) {
        let is_done = step >= options.steps || record.ending != Ending::Completed;
        let received = exchange.receive(algorithm.manifest(), options.deadline)?;
        if received.is_none() && is_done {
            // Nobody waits for work that is not taken.
            busy.iter().enumerate().filter(|(_, busy)| **busy).for_each(|(silo, _)| algorithm.discard(silo));
            break;
        }
        let Some((silo, outcome)) = received else {
            let waited = exchange.silos().iter().zip(&busy).filter(|(_, busy)| **busy);
            let silo = waited.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("`, `");
            return Err(Error::SiloLost { silo, step, reason: "no answer before the deadline".into() });
        };
        busy[silo] = false;
        if let Outcome::Reply(reply) = &outcome {
            record.counters.messages += 1;
            record.counters.bytes_from_silos += reply.size() as u64;
        }
        // Work that was still under way when the last step was done is not taken.
        if is_done {
            algorithm.discard(silo);
            continue;
        }
        let info = caught(COORDINATOR, || algorithm.take(silo, outcome))?;
        let before = std::mem::replace(&mut step, info.step);
        record.counters.rounds += 1;
        record.counters.add(&info);
        // An answer that did not come is no step.
        let is_step = step > before;
        if is_step {
            if options.is_traced(before, step) {
                record.trace.push((step, info.elbo));
            }
            progress.step(&info, &record.counters);
        }
        let is_over = is_step && stop.is_over(&info);
        let is_interrupted = options.is_interrupted();
        if let Some((root, every)) = &options.checkpoint
            && (options.is_due(*every, before, step) || is_interrupted)
        {
            save(algorithm, root, (&record, &stop), |folder, _| resumable(exchange)?.save(folder))?;
        }
        if is_interrupted {
            record.ending = Ending::Interrupted;
        } else if is_over {
            record.ending = Ending::Converged;
        } else if step < options.steps {
            busy[silo] = send(algorithm, exchange, silo, &mut record.counters)?;
        }
    }
    record.seconds = start.elapsed().as_secs_f64();
    progress.end(&record);
    Ok(record)
}

/// What saves where an exchange is, where something does.
fn resumable(exchange: &mut dyn AsynchronousExchange) -> Result<&mut dyn Resumable> {
    exchange.resumable().ok_or_else(|| Error::Setting {
        setting: "checkpoint",
        found: "a folder, for silos on threads that keep their state in memory".into(),
        expected: "none; or the simulated clock of SiloSchedule::Asynchronous with `run`, which saves every silo",
    })
}

/// Sends a silo its next request, and says whether there is one.
fn send(
    algorithm: &mut dyn Asynchronous,
    exchange: &mut dyn AsynchronousExchange,
    silo: usize,
    counters: &mut Counters,
) -> Result<bool> {
    let Some(request) = caught(COORDINATOR, || algorithm.ask(silo))? else { return Ok(false) };
    counters.messages += 1;
    counters.bytes_to_silos += request.message.size() as u64;
    exchange.send(request)?;
    Ok(true)
}
