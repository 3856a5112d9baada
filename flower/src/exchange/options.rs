//! Says how a coordinator reaches its silos, how long it waits for them, and what becomes of one that is lost.

use serde::{Deserialize, Serialize};

use crate::connection::Engine;
use crate::object::Limits;

/// How a coordinator reaches its silos.
#[derive(Debug, Clone, PartialEq)]
pub struct CoordinatorOptions {
    /// The SuperLink.
    pub engine: Engine,
    /// The silos, in the order in which sums run.
    pub silos: Vec<String>,
    /// How long it waits, and how much it reads.
    pub patience: Patience,
    /// The fewest silos that have to answer a round that all were asked in.
    pub quorum: usize,
}

/// How long a coordinator waits for its silos, and how much it reads of what they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Patience {
    /// How long to wait for all silos to appear, in seconds.
    pub appear_seconds: u64,
    /// How long an answer may take, in seconds.
    pub deadline_seconds: u64,
    /// How often a request is sent, after errors and deadlines again.
    pub attempts: u64,
    /// The most bytes of an answer.
    pub largest_answer: usize,
}

impl Default for Patience {
    /// Five minutes to appear, ten for an answer, ten attempts, a gigabyte.
    fn default() -> Self {
        Self { appear_seconds: 300, deadline_seconds: 600, attempts: 10, largest_answer: Limits::default().bytes }
    }
}
