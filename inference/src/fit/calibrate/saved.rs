//! Keeps finished fits of a calibration in a folder, and refuses those of other settings, models or data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::CalibrationOptions;
use super::replicate::Outcome;
use crate::engine::checkpoint::write_atomically;
use crate::engine::error::{Error, Result};
use crate::engine::settings::Settings;

/// A folder with `settings.json` and one `fit-N.json` for each fit that is done.
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder of these settings: a new one, or the one that they had before.
    pub(super) fn open(path: &Path, options: &CalibrationOptions, fingerprint: &str) -> Result<Self> {
        let (folder, file) = (Self { path: path.to_owned() }, path.join("settings.json"));
        let text = format!("{:#}", settings(options, fingerprint)?);
        match std::fs::read_to_string(&file) {
            Ok(found) if found == text => {}
            Ok(_) => {
                let problem = "the fits kept here are of other settings, another model or other data. Name another folder, or take the settings back.";
                return Err(Error::Checkpoint { path: file, problem: problem.into() });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => write_atomically(&file, text.as_bytes())?,
            Err(error) => return Err(Error::file("reading", &file, error)),
        }
        Ok(folder)
    }

    fn file(&self, number: u32) -> PathBuf {
        self.path.join(format!("fit-{number:06}.json"))
    }

    /// The fits that are done, of the first `fits`.
    pub(super) fn read(&self, fits: u32) -> Result<BTreeMap<u32, Outcome>> {
        let mut done = BTreeMap::new();
        for number in 0..fits {
            let file = self.file(number);
            let text = match std::fs::read_to_string(&file) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::file("reading", &file, error)),
            };
            let outcome = serde_json::from_str(&text).map_err(|error| Error::Checkpoint {
                path: file,
                problem: format!("it is damaged ({error}). Delete it: the fit is then done again."),
            })?;
            done.insert(number, outcome);
        }
        Ok(done)
    }

    /// Keeps one fit.
    pub(super) fn write(&self, number: u32, outcome: &Outcome) -> Result<()> {
        let file = self.file(number);
        let text = serde_json::to_string(outcome).map_err(|error| Error::file("writing", &file, error))?;
        write_atomically(&file, text.as_bytes())
    }
}

/// What fits depend on; neither their number nor threads.
fn settings(options: &CalibrationOptions, fingerprint: &str) -> Result<Value> {
    let fit = &options.fit;
    let settings = Settings { threads: None, ..fit.settings.clone() };
    let written =
        serde_json::to_value(&fit.algorithm).and_then(|algorithm| Ok((algorithm, serde_json::to_value(settings)?)));
    let (algorithm, settings) = written.map_err(|error| Error::Setting {
        setting: "folder",
        found: format!("options of a fit that cannot be written ({error})"),
        expected: "options that can be written, or no folder",
    })?;
    Ok(json!({
        "draws": options.draws,
        "seed": options.seed,
        "first_data_set": fingerprint,
        "algorithm": algorithm,
        "settings": settings,
        "starts": fit.starts,
        "trust_draws": fit.trust_draws,
        "summary_draws": fit.summary_draws,
        "elbo_draws": fit.elbo_draws,
        "tolerance": fit.tolerance.map(|tolerance| (tolerance.change, tolerance.exchanges)),
    }))
}
