//! Shows a run while it goes on: a progress bar for people, JSON lines for programs, or nothing.

mod bar;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use bar::Bar;

use super::{Counters, RunRecord, passes};
use crate::engine::algorithm::StepInfo;
use crate::engine::checkpoint::write_atomically;
use crate::engine::error::{Error, Result};

/// Is told of every step.
///
/// # Laws
/// It hears of every step once, in their order, of the end once, after the last, and of what a fit found once, after its verdict
/// (`tests/sfvi/run_loop.rs`).
pub trait Progress: Send {
    /// A step was done.
    fn step(&mut self, info: &StepInfo, counters: &Counters);

    /// The run ended.
    fn end(&mut self, record: &RunRecord);

    /// The answer of a run that ended is judged.
    fn judging(&mut self, _stage: Judging) {}

    /// The answer is there, after so many gradient steps of the globals: with this bound, both as the report has them.
    fn found(&mut self, _steps: u64, _bound: f64) {}
}

/// What is done after the last step of a run, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judging {
    /// A look of the round of trust begins, the first of which is 1.
    Look(u64),
    /// The answer has its verdict.
    Over,
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _: &StepInfo, _: &Counters) {}
    fn end(&mut self, _: &RunRecord) {}
}

/// Shows a progress bar on standard error (with the feature `progress`) and writes metrics as JSON lines to a file.
#[derive(Debug)]
pub struct Metrics {
    bar: Bar,
    file: Option<Lines>,
    every: u64,
    /// The step that was shown last.
    last: u64,
    smoothed: Option<f64>,
}

impl Metrics {
    /// A bar for `steps` steps (hidden where standard error is no terminal); every `every` steps one JSON line in
    /// `path`, whose earlier lines go with the first step.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be made.
    pub fn new(steps: u64, path: Option<&Path>, every: u64) -> Result<Self> {
        let file = path.map(Lines::new).transpose()?;
        Ok(Self { bar: Bar::new(steps), file, every: every.max(1), last: 0, smoothed: None })
    }

    /// A line that says what is done, where it is not known how many steps there are (hidden where standard error is no
    /// terminal), and no file.
    #[must_use]
    pub fn line() -> Self {
        Self { bar: Bar::line("starting"), file: None, every: 1, last: 0, smoothed: None }
    }

    /// Whether the run goes on from a checkpoint: then lines of the steps before stay.
    #[must_use]
    pub fn resume(mut self, resume: bool) -> Self {
        if let Some(file) = &mut self.file {
            file.resume = resume;
        }
        self
    }
}

impl Progress for Metrics {
    fn step(&mut self, info: &StepInfo, counters: &Counters) {
        let known = self.smoothed.filter(|before| before.is_finite());
        let smoothed = known.map_or(info.elbo, |before| 0.98 * before + 0.02 * info.elbo);
        self.smoothed = Some(smoothed);
        // Metrics are a convenience: a full disk must not end a run, the checkpoint reports it.
        if let Some(Ok(Some(last))) = self.file.as_mut().map(|file| file.begin(info.step)) {
            self.last = last;
        }
        let before = std::mem::replace(&mut self.last, info.step);
        if !passes(self.every, before, info.step) {
            return;
        }
        self.bar.show(info.step, smoothed);
        if let Some(file) = &mut self.file {
            let line = serde_json::json!({
                "step": info.step,
                "elbo": info.elbo,
                "elbo_smoothed": smoothed,
                "gradient_norm": info.gradient_norm,
                "clipped_steps": info.clipped_steps,
                "rate": info.rate,
                "bytes": counters.bytes_to_silos + counters.bytes_from_silos,
            });
            let _ = file.write(&line);
        }
    }

    fn end(&mut self, _: &RunRecord) {
        self.bar.clear();
    }

    fn judging(&mut self, stage: Judging) {
        self.bar.clear();
        if let Judging::Look(look) = stage {
            self.bar = Bar::line(&format!("round of trust, look {look}"));
        }
    }

    fn found(&mut self, steps: u64, bound: f64) {
        self.bar.last(steps, bound);
    }
}

/// A file of JSON lines, each of a step.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    /// Open for more lines once the first step is known, where it could be opened.
    file: Option<File>,
    /// Whether the first step is known.
    begun: bool,
    resume: bool,
}

impl Lines {
    fn new(path: &Path) -> Result<Self> {
        let make = || {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            // What is there stays until a step is done.
            OpenOptions::new().append(true).create(true).open(path)
        };
        make()
            .map(|_| Self { path: path.to_owned(), file: None, begun: false, resume: false })
            .map_err(|error| Error::file("creating", path, error))
    }

    /// Keeps what came before the first step of a run that is resumed, and nothing of another; gives the last step
    /// kept.
    fn begin(&mut self, step: u64) -> Result<Option<u64>> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(None);
        }
        let found = if self.resume { std::fs::read(&self.path).unwrap_or_default() } else { Vec::new() };
        let found = String::from_utf8_lossy(&found);
        let of = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?.get("step")?.as_u64();
        let earlier = || found.lines().filter(|line| of(line).is_some_and(|other| other < step));
        let text: String = earlier().flat_map(|line| [line, "\n"]).collect();
        write_atomically(&self.path, text.as_bytes())?;
        self.file = OpenOptions::new().append(true).open(&self.path).ok();
        Ok(earlier().next_back().and_then(of))
    }

    fn write(&mut self, line: &serde_json::Value) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| writeln!(file, "{line}"))
    }
}
