//! Writes the coordinator's state and the record of a run into a checkpoint, and goes on from one.

use std::path::Path;

use super::stop::Watch;
use super::{RunOptions, RunRecord};
use crate::engine::algorithm::Algorithm;
use crate::engine::checkpoint;
use crate::engine::error::{Error, Result};
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// Saves a run under `root`; `parties` has everyone else save what they know in a folder at a step.
pub(super) fn save(
    algorithm: &dyn Algorithm,
    root: &Path,
    (record, stop): (&RunRecord, &Watch),
    parties: impl FnOnce(&Path, u64) -> Result<()>,
) -> Result<()> {
    let state = algorithm.save();
    let step = state.get_count("step", LARGEST_COUNT)?;
    let folder = checkpoint::begin(root, step);
    parties(&folder, step)?;
    let (steps, elbos): (Vec<f64>, Vec<f64>) = record.trace.iter().map(|(step, elbo)| (as_float(*step), *elbo)).unzip();
    let mut counters = record.counters;
    let counts = counters.each().map(|count| as_float(*count));
    let state =
        state.floats("run.counters", &counts).floats("run.trace.steps", &steps).floats("run.trace.elbos", &elbos);
    checkpoint::commit(root, &folder, &stop.save(state))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn as_float(count: u64) -> f64 {
    count as f64
}

/// Goes on from the latest checkpoint, at the step that is given back; `parties` has everyone else restore what they
/// saved.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saved from unsigned counts")]
pub(super) fn resume(
    algorithm: &mut dyn Algorithm,
    options: &RunOptions,
    (record, stop): (&mut RunRecord, &mut Watch),
    parties: impl FnOnce(&Path, u64) -> Result<()>,
) -> Result<u64> {
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
    let counters = record.counters.each();
    let counts = state.expect_floats("run.counters", counters.len())?;
    for (counter, count) in counters.into_iter().zip(counts) {
        *counter = count as u64;
    }
    let (steps, elbos) = (state.get_floats("run.trace.steps")?, state.get_floats("run.trace.elbos")?);
    record.trace = steps.into_iter().map(|step| step as u64).zip(elbos).collect();
    stop.load(&state)?;
    let step = state.get_count("step", LARGEST_COUNT)?;
    let rule_only =
        Message { records: state.records.iter().filter(|r| !r.name.starts_with("run.")).cloned().collect(), ..state };
    algorithm.load(&rule_only).map_err(|error| Error::Checkpoint {
        path: folder.join("coordinator.partita"),
        problem: format!("it does not fit this run ({error})"),
    })?;
    parties(&folder, step)?;
    Ok(step)
}
