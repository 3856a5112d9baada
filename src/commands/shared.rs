//! Finds the file that all parties of a federated run share, a study or a run, and gives the lines of their logs a time.

use std::error::Error;
use std::path::{Path, PathBuf};

use crate::flower::read_toml;
use clap::Args;
use serde::Deserialize;

/// The time of a line in a log, universal.
pub(super) fn clock() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

/// A party's own file; where there is none, the error says what writes it.
pub(super) fn own_file<T: for<'a> Deserialize<'a>>(path: &Path, init: &str) -> Result<T, Box<dyn Error>> {
    if path.exists() {
        return Ok(read_toml(path)?);
    }
    Err(format!("{}: No such file. `partita init {init}` writes it", path.display()).into())
}

/// The file that all parties share.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub(super) struct SharedFile {
    /// The study's file, the same at all parties; `study.toml` if neither this nor `--run` is given and there is one.
    #[arg(long)]
    study: Option<PathBuf>,
    /// The file of a run of a model that is compiled in, the same at all parties; else `run.toml`.
    #[arg(long)]
    run: Option<PathBuf>,
}

/// What it is.
pub(super) enum Shared {
    Study(PathBuf),
    Run(PathBuf),
}

impl SharedFile {
    /// The file that was named, or the one that is in this folder.
    pub(super) fn find(&self) -> Result<Shared, String> {
        match (&self.study, &self.run) {
            (Some(path), _) => Ok(Shared::Study(path.clone())),
            (None, Some(path)) => Ok(Shared::Run(path.clone())),
            (None, None) if Path::new("study.toml").is_file() => Ok(Shared::Study("study.toml".into())),
            (None, None) if Path::new("run.toml").is_file() => Ok(Shared::Run("run.toml".into())),
            (None, None) => Err("this folder has no study.toml and no run.toml. Name the file that all parties share \
                                 with --study or --run; `partita init study FORMULA` writes one"
                .into()),
        }
    }
}
