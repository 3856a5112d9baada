//! Holds the arguments of an executable: the run, and the files and callbacks of its party.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use partita_flower::{Log, LongRuns, RunFile};
use partita_inference::{Progress, Settings};

use super::CoordinatorFile;

/// A run: its file, and the usual settings of its model.
#[derive(Debug, Clone, Copy)]
pub struct Planned<'a> {
    /// The file that all parties share.
    pub file: &'a RunFile,
    /// The settings of the model that the file does not override.
    pub base: &'a Settings,
}

/// The callbacks of a silo's owner.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Set from outside to end it.
    pub stop: &'a Arc<AtomicBool>,
    /// Receives one line for each event.
    pub log: &'a Log,
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watch").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// What a coordinator that does not resume does where its folder has the checkpoint of a run that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnfinishedRun {
    /// It refuses to start.
    #[default]
    Kept,
    /// It replaces that run.
    Replaced,
}

/// The options with which a coordinator is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Start {
    /// Whether to resume from the latest checkpoint.
    pub resume: bool,
    /// What becomes of a run in the folder that has not ended, without `resume`.
    pub unfinished: UnfinishedRun,
    /// Whether to begin a run that will take days.
    pub long: LongRuns,
}

/// The files and callbacks of a coordinator.
pub struct Desk<'a> {
    /// Its own file.
    pub file: &'a CoordinatorFile,
    /// How it is started.
    pub start: Start,
    /// Set from outside to end the run after a checkpoint.
    pub interrupt: Arc<AtomicBool>,
    /// Receives every step.
    pub progress: &'a mut dyn Progress,
    /// Receives one line for each event.
    pub log: &'a Log,
}

impl fmt::Debug for Desk<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Desk").field("file", &self.file).field("start", &self.start).finish_non_exhaustive()
    }
}
