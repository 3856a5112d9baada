//! Says what an executable is started with: the run, and what belongs to the party that it serves.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use partita_flower::{Log, LongRuns, RunFile};
use partita_inference::{Progress, Settings};

use super::CoordinatorFile;

/// A run: its file, and the settings that its model is usually fitted with.
#[derive(Debug, Clone, Copy)]
pub struct Planned<'a> {
    /// The file that all parties have alike.
    pub file: &'a RunFile,
    /// The settings of the model where the file says no others.
    pub base: &'a Settings,
}

/// How a silo's owner watches it.
pub struct Watch<'a> {
    /// Set from outside to end it.
    pub stop: &'a AtomicBool,
    /// Is told a line an event.
    pub log: &'a mut dyn FnMut(&str),
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watch").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// How a coordinator is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Start {
    /// Goes on from the latest checkpoint.
    pub resume: bool,
    /// Whether it begins a run that will take days.
    pub long: LongRuns,
}

/// What belongs to a coordinator.
pub struct Desk<'a> {
    /// Its own file.
    pub file: &'a CoordinatorFile,
    /// How it is started.
    pub start: Start,
    /// Set from outside to end the run cleanly.
    pub interrupt: Arc<AtomicBool>,
    /// Is told of every step.
    pub progress: &'a mut dyn Progress,
    /// Is told a line an event.
    pub log: &'a Log,
}

impl fmt::Debug for Desk<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Desk").field("file", &self.file).field("start", &self.start).finish_non_exhaustive()
    }
}
