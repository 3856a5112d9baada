//! Moves the states of a replaced run aside, so that a request to begin another run deletes nothing at once.

use std::path::{Path, PathBuf};

use super::State;
use crate::error::{Error, Result};
use crate::object::ObjectId;
use crate::own_file;

/// The folder within a silo's, and the most runs that it holds.
const ARCHIVE: &str = "archive";
const MOST_RUNS: usize = 3;

/// The folder of a run, in the order in which runs were made; the run's name is a peer's word, so its hash stands there.
fn folder_of(folder: &Path, state: &State) -> PathBuf {
    let hash = ObjectId::of(state.run.as_bytes()).to_string();
    folder.join(ARCHIVE).join(format!("{:020}-{}", state.began, &hash[..12]))
}

/// Moves the states of a run into the archive, and deletes the oldest run there beyond three.
///
/// `silo.json` still names the run until the next is begun: [`take_back`] undoes what a kill interrupts.
pub(super) fn put_away(folder: &Path, state: &State) -> Result<()> {
    let own = folder_of(folder, state);
    std::fs::create_dir_all(&own).map_err(|error| Error::file(&own, error))?;
    let record = own.join("silo.json");
    let bytes = serde_json::to_vec_pretty(state).map_err(|error| Error::file(&record, error))?;
    own_file::write(&record, &bytes)?;
    move_rounds(folder, &own)?;
    let mut runs: Vec<PathBuf> = entries(&folder.join(ARCHIVE)).collect();
    runs.sort();
    let many = runs.len().saturating_sub(MOST_RUNS);
    // A folder that cannot be deleted takes space and does no harm.
    runs.iter().take(many).filter(|run| **run != own).for_each(|run| drop(std::fs::remove_dir_all(run)));
    Ok(())
}

/// Moves the states of the run that `silo.json` names back, where a kill came between archiving it and the next run.
pub(super) fn take_back(folder: &Path) -> Result<()> {
    let bytes = std::fs::read(folder.join("silo.json")).ok();
    let Some(state) = bytes.and_then(|bytes| serde_json::from_slice::<State>(&bytes).ok()) else { return Ok(()) };
    let own = folder_of(folder, &state);
    if !own.exists() {
        return Ok(());
    }
    move_rounds(&own, folder)?;
    std::fs::remove_dir_all(&own).map_err(|error| Error::file(&own, error))
}

fn move_rounds(from: &Path, to: &Path) -> Result<()> {
    for path in entries(from) {
        let Some(name) = path.file_name().filter(|name| name.to_string_lossy().starts_with("round-")) else { continue };
        let target = to.join(name);
        // What a kill left of an earlier move.
        let _ = std::fs::remove_dir_all(&target);
        std::fs::rename(&path, &target).map_err(|error| Error::file(&target, error))?;
    }
    Ok(())
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}
