//! Writes a run into a checkpoint, the coordinator with the record and every silo, and goes on from one.

use std::path::Path;
use std::time::Duration;

use super::{Course, RunOptions};
use crate::engine::algorithm::{Algorithm, replies};
use crate::engine::checkpoint;
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Exchange, Request};
use crate::engine::explosion::{real, whole};
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// Saves a run under `root`: the coordinator, and everyone else within `deadline`.
pub(super) fn save(
    algorithm: &dyn Algorithm,
    exchange: &mut dyn Exchange,
    root: &Path,
    deadline: Option<Duration>,
    course: &Course,
) -> Result<()> {
    let Course { record, stop, marks, .. } = course;
    let state = algorithm.save();
    let step = state.get_count("step", LARGEST_COUNT)?;
    let folder = checkpoint::begin(root, step);
    match exchange.resumable() {
        Some(own) => own.save(&folder)?,
        None => tell(exchange, "silo.save", &folder, deadline, step)?,
    }
    let (steps, elbos): (Vec<f64>, Vec<f64>) = record.trace.iter().map(|(step, elbo)| (real(*step), *elbo)).unzip();
    let mut counters = record.counters;
    let counts = counters.each().map(|count| real(*count));
    let state = state
        .floats("run.counters", &counts)
        .floats("run.seconds", &[course.seconds()])
        .floats("run.trace.steps", &steps)
        .floats("run.trace.elbos", &elbos);
    checkpoint::commit(root, &folder, &marks.save(stop.save(state)))
}

/// Has every silo save its state in a folder, or restore it from there.
fn tell(
    exchange: &mut dyn Exchange,
    kind: &'static str,
    folder: &Path,
    deadline: Option<Duration>,
    step: u64,
) -> Result<()> {
    let message = Message::new(kind).setting("folder", &folder.to_string_lossy());
    let names = exchange.silos().to_vec();
    let requests = Request::to_all(names.len(), &message);
    // Nothing may leave a silo with such an answer: the manifest is empty.
    let outcomes = exchange.exchange(requests, &Manifest::default(), deadline)?;
    replies(outcomes, &names, step).map(drop)
}

/// Goes on from the latest checkpoint, with everyone as they were then.
pub(super) fn resume(
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    options: &RunOptions,
    course: &mut Course,
) -> Result<()> {
    let Some((root, _)) = &options.checkpoint else {
        return Err(Error::Setting {
            setting: "resume",
            found: "no checkpoint folder".into(),
            expected: "a checkpoint folder to resume from",
        });
    };
    let Some((folder, state)) = checkpoint::latest(root)? else {
        let problem = "there is no checkpoint there. Start without resuming, or name the right folder.".to_owned();
        return Err(Error::Checkpoint { path: root.clone(), problem });
    };
    let Course { record, stop, marks, .. } = &mut *course;
    let counters = record.counters.each();
    let counts = state.expect_floats("run.counters", counters.len())?;
    for (counter, count) in counters.into_iter().zip(counts) {
        *counter = whole(count);
    }
    record.seconds = state.expect_floats("run.seconds", 1)?[0];
    let (steps, elbos) = (state.get_floats("run.trace.steps")?, state.get_floats("run.trace.elbos")?);
    record.trace = steps.into_iter().map(whole).zip(elbos).collect();
    stop.load(&state)?;
    marks.load(&state)?;
    let step = state.get_count("step", LARGEST_COUNT)?;
    let rule_only =
        Message { records: state.records.iter().filter(|r| !r.name.starts_with("run.")).cloned().collect(), ..state };
    algorithm.load(&rule_only).map_err(|error| Error::Checkpoint {
        path: folder.join("coordinator.partita"),
        problem: format!("it does not fit this run ({error})"),
    })?;
    match exchange.resumable() {
        Some(own) => own.restore(&folder)?,
        None => tell(exchange, "silo.restore", &folder, options.deadline, step)?,
    }
    course.step = step;
    Ok(())
}
