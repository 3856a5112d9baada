//! Says in a checkpoint where a run is, so that its coordinator goes on from there.

use std::path::Path;

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
        let wrong = |problem: String| Error::File { path: path.clone(), problem };
        let text = serde_json::to_string_pretty(self).map_err(|error| wrong(error.to_string()))?;
        write_atomically(&path, format!("{text}\n{}\n", digest(&text)).as_bytes())?;
        Ok(())
    }
}

/// The place of the run that a checkpoint is of.
pub(super) fn read_place(folder: &Path) -> Result<Place> {
    let path = folder.join(PLACE);
    let wrong = |problem: String| Error::File { path: path.clone(), problem };
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let whole = text.trim_end().rsplit_once('\n').filter(|(place, last)| digest(place) == *last);
    let Some((place, _)) = whole else {
        return Err(wrong(
            "the SHA-256 in its last line is not that of what stands above: it is damaged. Resume from the `step-N` folder before \
             it by writing its name into `latest`, or start anew with `--restart`"
                .into(),
        ));
    };
    serde_json::from_str(place).map_err(|error| wrong(error.to_string()))
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
    }
}
