//! Saves and restores a run: each party writes its own file, and a run resumes with the same bits.
//!
//! A checkpoint is a folder `step-N` with `coordinator.partita` and one `silo-NAME.partita` for each party; each of these
//! files ends with the SHA-256 of what stands before it. `silo-NAME.checks.json` is for the owner of a silo. The file `latest` names the folder that is whole; it is replaced
//! atomically after every file of the folder is on disk, so that a kill at any moment leaves a whole checkpoint behind.
//! The checkpoint before the latest is kept, for a disk that damages the latest.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use hmac_sha256::Hash;
use serde::Serialize;

use crate::engine::error::{Error, Result};
use crate::engine::report::OwnChecks;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// A party's state: vectors with their names.
pub type NamedVectors = Vec<(String, Vec<f64>)>;

/// The vector of this name.
pub(crate) fn named<'a>(state: &'a [(String, Vec<f64>)], name: &str) -> Option<&'a [f64]> {
    state.iter().find(|(known, _)| known == name).map(|(_, values)| values.as_slice())
}

/// The vectors with `prefix` before their names.
pub(crate) fn prefixed(prefix: &str, state: NamedVectors) -> impl Iterator<Item = (String, Vec<f64>)> {
    state.into_iter().map(move |(name, values)| (format!("{prefix}{name}"), values))
}

/// The vectors whose names begin with `prefix`, by the rest of their names.
pub(crate) fn with_prefix(state: &[(String, Vec<f64>)], prefix: &str) -> NamedVectors {
    state.iter().filter_map(|(name, values)| Some((name.strip_prefix(prefix)?.to_owned(), values.clone()))).collect()
}

const LATEST: &str = "latest";
/// The file that is written last, so that a folder with it is whole.
const COORDINATOR: &str = "coordinator.partita";

/// Writes `bytes` to `path` so that a reader sees the old file or the whole new one.
///
/// # Errors
/// [`Error::File`].
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fail = |error: std::io::Error| Error::file("writing", path, error);
    fs::create_dir_all(folder).map_err(fail)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    // The new name is on disk with its folder. Systems other than Unix write it with the file.
    #[cfg(unix)]
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(fail)?;
    Ok(())
}

/// Writes what can be serialised as JSON, atomically.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn write_json(value: &impl Serialize, path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::file("writing", path, error))?;
    write_atomically(path, text.as_bytes())
}

impl Message {
    /// Writes the message to `path` atomically, with its SHA-256 behind it, for [`Message::read_from`].
    ///
    /// # Errors
    /// [`Error::File`].
    ///
    /// # Example
    /// ```
    /// use partita_inference::Message;
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("state.partita");
    /// Message::new("state").word("step", 7).write_to(&path)?;
    /// assert_eq!(Message::read_from(&path, "Start anew")?.get_word("step")?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_to(&self, path: &Path) -> Result<()> {
        let mut bytes = self.encode();
        let digest = Hash::hash(&bytes);
        bytes.extend_from_slice(&digest);
        write_atomically(path, &bytes)
    }

    /// Reads what [`Message::write_to`] has written; `remedy` says what to do about a file that is damaged or gone.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a file that cannot be read, or whose bytes are not those that were written.
    pub fn read_from(path: &Path, remedy: &str) -> Result<Self> {
        let bytes = fs::read(path).map_err(|error| Error::Checkpoint {
            path: path.to_owned(),
            problem: format!("it cannot be read ({error}). {remedy}."),
        })?;
        let damaged = |problem: String| Error::Checkpoint {
            path: path.to_owned(),
            problem: format!("it is damaged ({problem}). {remedy}."),
        };
        let whole = bytes
            .split_last_chunk::<DIGEST>()
            .filter(|(content, digest)| Hash::hash(content).as_slice() == digest.as_slice());
        let Some((content, _)) = whole else {
            return Err(damaged(format!("the SHA-256 at its end is not that of its {} bytes", bytes.len())));
        };
        Self::decode(content).map_err(|error| damaged(error.to_string()))
    }
}

/// What to do about a file of a checkpoint that is damaged or gone.
const REMEDY: &str =
    "Resume from the `step-N` folder before it by writing its name into `latest`, name the right folder, or start anew";

/// The length of a SHA-256, in bytes.
const DIGEST: usize = 32;

/// The file of a silo; two names never share one, since what is no letter, digit or hyphen becomes its code.
fn silo_file(folder: &Path, name: &str) -> PathBuf {
    let escape = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' { c.to_string() } else { format!("_{:x}_", u32::from(c)) }
    };
    folder.join(format!("silo-{}.partita", name.chars().map(escape).collect::<String>()))
}

/// Writes one party's state into the folder of a checkpoint.
pub(crate) fn save_silo(folder: &Path, name: &str, step: u64, state: Vec<(String, Vec<f64>)>) -> Result<()> {
    let message = Message::new("silo.state").word("step", step).setting("silo", name);
    let message = state.iter().fold(message, |message, (name, values)| message.floats(name, values));
    message.write_to(&silo_file(folder, name))
}

/// Reads one party's state from the folder of a checkpoint.
pub(crate) fn load_silo(folder: &Path, name: &str) -> Result<(u64, NamedVectors)> {
    let message = Message::read_from(&silo_file(folder, name), REMEDY)?;
    if message.get_setting("silo")? != name {
        return Err(other_model(folder, name));
    }
    let mut state = Vec::new();
    for record in message.records.iter().filter(|record| record.name != "step") {
        state.push((record.name.clone(), message.get_floats(&record.name)?));
    }
    Ok((message.get_count("step", LARGEST_COUNT)?, state))
}

/// Where the folder of a checkpoint has what a silo's owner was told of checks.
fn checks_file(folder: &Path, name: &str) -> PathBuf {
    silo_file(folder, name).with_extension("checks.json")
}

/// Writes predictive checks of a silo, for its owner, into the folder of a checkpoint.
pub(crate) fn save_checks(folder: &Path, checks: &OwnChecks) -> Result<()> {
    write_json(checks, &checks_file(folder, &checks.silo))
}

/// Reads them, where there are any.
pub(crate) fn load_checks(folder: &Path, name: &str) -> Result<Option<OwnChecks>> {
    let path = checks_file(folder, name);
    if !path.exists() {
        return Ok(None);
    }
    let refuse = |problem: String| Error::Checkpoint { path: path.clone(), problem };
    let bytes = fs::read(&path).map_err(|error| refuse(format!("it cannot be read ({error})")))?;
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| refuse(format!("it is damaged ({error}): remove it, and its checks are lost alone")))
}

/// The error for a state that does not fit the party that reads it.
pub(crate) fn other_model(folder: &Path, name: &str) -> Error {
    Error::Checkpoint {
        path: silo_file(folder, name),
        problem: format!(
            "it does not fit silo `{name}`: it was made by another model, other data or other settings. Resume with those, or start anew."
        ),
    }
}

/// Starts a checkpoint at `step`: the folder parties write into. It is never a whole one, such as that which `latest` names:
/// a kill while they write would leave files of two runs, or of two moments, in it.
pub(crate) fn begin(root: &Path, step: u64) -> PathBuf {
    let name = format!("step-{step:09}");
    let (mut free, mut again) = (name.clone(), 0_u64);
    while root.join(&free).join(COORDINATOR).exists() {
        again += 1;
        free = format!("{name}.{again}");
    }
    root.join(free)
}

/// Ends a checkpoint: writes the coordinator's state, then names the folder the latest, then removes those older than the
/// one before.
pub(crate) fn commit(root: &Path, folder: &Path, state: &Message) -> Result<()> {
    state.write_to(&folder.join(COORDINATOR))?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // There is none before the first.
    let before = fs::read_to_string(root.join(LATEST)).unwrap_or_default();
    write_atomically(&root.join(LATEST), name.as_bytes())?;
    let entries = fs::read_dir(root).map_err(|error| Error::file("listing", root, error))?;
    for entry in entries.flatten() {
        let other = entry.file_name().to_string_lossy().into_owned();
        // A folder that cannot be removed costs disk, not correctness: `latest` names the right one.
        if other.starts_with("step-") && other != name && other != before.trim() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// The latest whole checkpoint under `root`, with the coordinator's state; `None` if there is none.
///
/// # Errors
/// [`Error::Checkpoint`] if there is one that cannot be read.
pub fn latest(root: &Path) -> Result<Option<(PathBuf, Message)>> {
    let pointer = root.join(LATEST);
    if !pointer.exists() {
        return Ok(None);
    }
    let name = fs::read_to_string(&pointer).map_err(|error| Error::Checkpoint {
        path: pointer.clone(),
        problem: format!("it cannot be read ({error})."),
    })?;
    let folder = root.join(name.trim());
    let state = Message::read_from(&folder.join(COORDINATOR), REMEDY)?;
    Ok(Some((folder, state)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_never_written_into_the_folder_that_is_the_latest() {
        let root = tempfile::tempdir().unwrap();
        let state = Message::new("coordinator");
        let mut before = PathBuf::new();
        for _ in 0..3 {
            let folder = begin(root.path(), 100);
            assert!(folder != before, "{}", folder.display());
            commit(root.path(), &folder, &state).unwrap();
            assert_eq!(latest(root.path()).unwrap().unwrap().0, folder);
            before = folder;
        }
    }

    #[test]
    fn a_checkpoint_is_never_written_into_the_one_before_the_latest_or_that_of_another_run() {
        let root = tempfile::tempdir().unwrap();
        let state = Message::new("coordinator");
        for step in [80, 100, 90] {
            commit(root.path(), &begin(root.path(), step), &state).unwrap();
        }
        // Another run comes to the steps of both that are kept.
        for (step, kept) in [(90, "step-000000090"), (100, "step-000000100")] {
            assert!(root.path().join(kept).join(COORDINATOR).exists(), "{kept}");
            let folder = begin(root.path(), step);
            assert!(!folder.exists() && !folder.ends_with(kept), "{}", folder.display());
        }
        // What a kill left unfinished is written anew.
        fs::create_dir(root.path().join("step-000000110")).unwrap();
        assert!(begin(root.path(), 110).ends_with("step-000000110"));
    }
}
