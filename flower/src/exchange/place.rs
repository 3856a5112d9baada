//! Says in a checkpoint where a run is, so that its coordinator goes on from there.

use std::path::{Path, PathBuf};

use partita_inference::write_atomically;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::object::hexadecimal;
use crate::task::Leftover;

/// Where a run is: what `flower.json` in a checkpoint says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) run: String,
    pub(super) began: u64,
    /// How often the run has gone on from a checkpoint.
    pub(super) start: u64,
    pub(super) round: u64,
    /// The latest round of each silo whose answer was taken.
    pub(super) accepted: Vec<u64>,
    /// The engine's task of the coordinator that wrote this.
    pub(super) task: Leftover,
    /// The rows that each silo said first; 0 for one that has not appeared, and none in what an earlier version wrote.
    #[serde(default)]
    pub(super) rows: Vec<u64>,
    /// Whether the run has ended as it should: another may take its folder.
    #[serde(default)]
    pub(super) is_over: bool,
}

/// The file of a checkpoint that says where a run is.
pub(super) const PLACE: &str = "flower.json";

impl Place {
    /// Writes it into the folder of a checkpoint, with its SHA-256 behind it.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(PLACE);
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::file(&path, error))?;
        write_atomically(&path, format!("{text}\n{}\n", digest(&text)).as_bytes())?;
        Ok(())
    }

    /// The place at which the run goes on from this, that of the checkpoint in `folder`, and the oldest rounds to which a
    /// silo may have to return: it may be gone back to another checkpoint, if this one is damaged later.
    ///
    /// The start is after that of every checkpoint of the run, since silos refuse what is older than what they have seen;
    /// the others are told it, so that one of them that is gone back to is followed by a later one, too.
    ///
    /// # Errors
    /// [`Error::Inference`] for a checkpoint that cannot be written.
    pub(super) fn take_up(self, folder: &Path, task: Leftover) -> Result<(Self, Vec<u64>)> {
        let others = beside(folder, &self.run);
        let latest = others.iter().map(|(_, other)| other.start).fold(self.start, u64::max);
        let (start, mut oldest) = (latest.saturating_add(1), self.accepted.clone());
        for (path, other) in others {
            oldest.iter_mut().zip(&other.accepted).for_each(|(own, other)| *own = (*own).min(*other));
            Self { start, task: task.clone(), ..other }.write(&path)?;
        }
        Ok((Self { start, task, ..self }, oldest))
    }
}

/// The folders of the other checkpoints of a run beside this one, each with its place; those that cannot be read are no
/// help.
fn beside(folder: &Path, run: &str) -> Vec<(PathBuf, Place)> {
    let root = folder.parent().filter(|root| !root.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let paths = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_step = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("step-"));
    let others = paths.filter(|path| is_step(path) && path.file_name() != folder.file_name());
    let read = others.filter_map(|path| read_place(&path).ok().map(|place| (path, place)));
    read.filter(|(_, place)| place.run == run).collect()
}

/// The place of the run that a checkpoint is of.
pub(super) fn read_place(folder: &Path) -> Result<Place> {
    let path = folder.join(PLACE);
    let text = std::fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
    if text.trim_end().ends_with('}') {
        let problem = "it ends without a SHA-256: an earlier version of Partita wrote it. Go on with its run by that version, or \
                       start anew with `--restart`";
        return Err(Error::file(&path, problem));
    }
    let whole = text.trim_end().rsplit_once('\n').filter(|(place, last)| digest(place) == *last);
    let Some((place, _)) = whole else {
        let problem = "the SHA-256 in its last line is not that of what stands above: it is damaged. Resume from the `step-N` folder \
                       before it by writing its name into `latest`, or start anew with `--restart`";
        return Err(Error::file(&path, problem));
    };
    serde_json::from_str(place).map_err(|error| Error::file(&path, error))
}

/// The SHA-256 of a text, in hexadecimal.
fn digest(text: &str) -> String {
    hexadecimal(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_which_a_digit_has_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"run": "a", "began": 1, "start": 2, "round": 9, "accepted": [12], "task": {"token": "", "task_id": 0, "run_id": 0}}"#;
        let path = folder.path().join(PLACE);
        std::fs::write(&path, format!("{text}\n{}\n", digest(text))).unwrap();
        assert_eq!(read_place(folder.path()).unwrap().accepted, [12]);
        std::fs::write(&path, format!("{}\n{}\n", text.replace("[12]", "[13]"), digest(text))).unwrap();
        let error = read_place(folder.path()).unwrap_err().to_string();
        assert!(error.contains("damaged") && error.contains("`latest`"), "{error}");
        // As it was written before it had a SHA-256.
        std::fs::write(&path, text).unwrap();
        let error = read_place(folder.path()).unwrap_err().to_string();
        assert!(error.contains("an earlier version of Partita wrote it") && error.contains("`--restart`"), "{error}");
    }

    fn place(run: &str, start: u64, accepted: [u64; 2]) -> Place {
        let (run, accepted, rows) = (run.to_owned(), accepted.to_vec(), vec![5, 6]);
        Place { run, began: 1, start, round: 9, accepted, task: Leftover::default(), rows, is_over: false }
    }

    #[test]
    fn a_run_that_goes_on_has_a_later_start_than_each_of_its_checkpoints_and_keeps_what_each_needs() {
        let root = tempfile::tempdir().unwrap();
        let [older, latest, foreign] =
            ["step-000000001", "step-000000002", "step-000000003"].map(|name| root.path().join(name));
        place("a", 0, [3, 4]).write(&older).unwrap();
        place("a", 2, [6, 4]).write(&latest).unwrap();
        place("b", 8, [0, 0]).write(&foreign).unwrap();
        let take_up = |folder: &Path| read_place(folder).unwrap().take_up(folder, Leftover::default()).unwrap();
        // Gone back by one: silos have seen start 2.
        let (found, oldest) = take_up(&older);
        assert_eq!((found, oldest), (place("a", 3, [3, 4]), vec![3, 4]));
        // From the latest: silos keep what the one before it needs.
        let (found, oldest) = take_up(&latest);
        assert_eq!((&found, oldest), (&place("a", 4, [6, 4]), vec![3, 4]));
        found.write(&latest).unwrap();
        assert_eq!(read_place(&foreign).unwrap().start, 8);
        // The latest is damaged since then, and says nothing.
        std::fs::write(latest.join(PLACE), "{").unwrap();
        let (found, oldest) = take_up(&older);
        assert_eq!((found, oldest), (place("a", 5, [3, 4]), vec![3, 4]));
    }
}
