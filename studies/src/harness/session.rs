//! Holds one run of a study: its folder, the results kept there for a later run, its device, and its interruption.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use partita::Device;
use partita::inference::{latest_checkpoint, write_atomically};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Failure, Result, Shared};

/// One run of a study.
#[derive(Debug, Clone)]
pub struct Session {
    /// The options that every study has.
    pub shared: Shared,
    folder: PathBuf,
    interrupted: Arc<AtomicBool>,
}

/// The checkpoints of a fit.
#[derive(Debug, Clone)]
pub struct State {
    /// Their folder.
    pub folder: PathBuf,
    /// Whether there is one to resume from.
    pub resume: bool,
}

/// A kept result, with the settings that it depends on.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    settings: Value,
    found: T,
}

impl Session {
    /// Makes the output folder, and lets Ctrl-C end the study at the next point from which it can be resumed.
    ///
    /// # Errors
    /// For a folder that cannot be made.
    pub fn start(name: &str, shared: &Shared) -> Result<Self> {
        let folder = shared.output.clone().unwrap_or_else(|| PathBuf::from("output").join(name));
        std::fs::create_dir_all(&folder)?;
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        ctrlc::set_handler(move || {
            // A second Ctrl-C ends it at once.
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        })?;
        Ok(Self { shared: shared.clone(), folder, interrupted })
    }

    /// The device requested.
    ///
    /// # Errors
    /// For a device that does not exist.
    pub fn device(&self) -> Result<Device> {
        Ok(partita::gpu::device(self.shared.device.as_deref())?)
    }

    /// A file of the output folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The flag by which a fit sees that the user ends it.
    #[must_use]
    pub fn interrupt(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupted)
    }

    /// Whether the user wants the study to end.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// # Errors
    /// If the user wants the study to end.
    pub fn check(&self) -> Result<()> {
        match self.is_interrupted() {
            true => Err("interrupted: the same command with --resume goes on with what is kept".into()),
            false => Ok(()),
        }
    }

    /// The folder of a fit's checkpoints: empty unless the study is resumed.
    ///
    /// # Errors
    /// For a folder that cannot be emptied or read.
    pub fn state(&self, name: &str) -> Result<State> {
        let folder = self.file("state").join(name);
        if folder.exists() && !self.shared.resume {
            std::fs::remove_dir_all(&folder)?;
        }
        let resume = folder.exists() && latest_checkpoint(&folder)?.is_some();
        Ok(State { folder, resume })
    }

    /// The result of an earlier run with equal settings if the study is resumed, else that of `make`, which is kept.
    ///
    /// # Errors
    /// As `make`; for a file that cannot be read or written; if the user wants the study to end.
    pub fn kept<T, S>(&self, name: &str, settings: &S, make: impl FnOnce() -> Result<T>) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
        S: Serialize,
    {
        self.check()?;
        let (path, settings) = (self.file(name).with_extension("json"), serde_json::to_value(settings)?);
        if self.shared.resume && path.exists() {
            let kept: Kept<Value> = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
            if kept.settings == settings {
                return Ok(serde_json::from_value(kept.found)?);
            }
        }
        let kept = Kept { settings, found: make()? };
        write_atomically(&path, serde_json::to_string(&kept)?.as_bytes())?;
        Ok(kept.found)
    }

    /// Writes `result.json` and prints what is in the folder.
    ///
    /// # Errors
    /// For a file that cannot be written.
    pub fn finish(&self, result: &impl Serialize, pictures: &str) -> std::result::Result<(), Failure> {
        let path = self.file("result.json");
        write_atomically(&path, serde_json::to_string_pretty(result)?.as_bytes())?;
        println!("\nWrote result.json{pictures} to {}", self.folder.display());
        Ok(())
    }
}
