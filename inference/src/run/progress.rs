//! Shows a run while it goes on: a progress bar for people, JSON lines for programs, or nothing.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

use super::{Counters, RunRecord, passes};
use crate::algorithm::StepInfo;
use crate::error::{Error, Result};

/// Is told of every step.
pub trait Progress: Send {
    /// A step was done.
    fn step(&mut self, info: &StepInfo, counters: &Counters);

    /// The run ended.
    fn end(&mut self, record: &RunRecord);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _: &StepInfo, _: &Counters) {}
    fn end(&mut self, _: &RunRecord) {}
}

/// Shows a progress bar on standard error and writes metrics as JSON lines to a file.
#[derive(Debug)]
pub struct Metrics {
    bar: ProgressBar,
    file: Option<BufWriter<File>>,
    every: u64,
    /// The step that was shown last.
    last: u64,
    smoothed: Option<f64>,
}

impl Metrics {
    /// A bar for `steps` steps (hidden where standard error is no terminal); every `every` steps one JSON line in `path`.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be made.
    pub fn new(steps: u64, path: Option<&Path>, every: u64) -> Result<Self> {
        let open = |path: &Path| {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            File::create(path)
        };
        let file = path.map(|path| {
            open(path).map(BufWriter::new).map_err(|error| Error::File {
                operation: "creating",
                path: path.to_owned(),
                reason: error.to_string(),
            })
        });
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} steps, {msg}, {elapsed} (left {eta})") {
            bar.set_style(style);
        }
        Ok(Self { bar, file: file.transpose()?, every: every.max(1), last: 0, smoothed: None })
    }
}

impl Progress for Metrics {
    fn step(&mut self, info: &StepInfo, counters: &Counters) {
        let known = self.smoothed.filter(|before| before.is_finite());
        let smoothed = known.map_or(info.elbo, |before| 0.98 * before + 0.02 * info.elbo);
        self.smoothed = Some(smoothed);
        let before = std::mem::replace(&mut self.last, info.step);
        if !passes(self.every, before, info.step) {
            return;
        }
        self.bar.set_position(info.step);
        self.bar.set_message(format!("ELBO {smoothed:.2} nats"));
        if let Some(file) = &mut self.file {
            let line = serde_json::json!({
                "step": info.step,
                "elbo": info.elbo,
                "elbo_smoothed": smoothed,
                "gradient_norm": info.gradient_norm,
                "clipped": info.clipped,
                "rate": info.rate,
                "bytes": counters.bytes_to_silos + counters.bytes_from_silos,
            });
            // Metrics are a convenience: a full disk must not end a run, the checkpoint reports it.
            let _ = writeln!(file, "{line}").and_then(|()| file.flush());
        }
    }

    fn end(&mut self, _: &RunRecord) {
        self.bar.finish_and_clear();
        if let Some(file) = &mut self.file {
            let _ = file.flush();
        }
    }
}
