//! Says which run, round and attempt a message belongs to, so that what is stale or strange can be refused.

use serde::{Deserialize, Serialize};

/// The version of what Partita puts into a message; both sides must have the same.
pub const LAYOUT_VERSION: u64 = 2;

/// What every message says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Envelope {
    /// The run's own name, made by its coordinator once and kept over restarts.
    pub run: String,
    /// When the run was made, in milliseconds since 1970: an older run never displaces a newer one.
    pub began: u64,
    /// How often the run's coordinator has gone on from a checkpoint.
    pub start: u64,
    /// The exchange, counted over the run.
    pub round: u64,
    /// How often it has been sent.
    pub attempt: u64,
    /// The latest round whose answer of this silo the coordinator has taken.
    pub accepted: u64,
    /// The latest such round in the coordinator's checkpoint: the oldest state that this silo may be asked to go back
    /// to.
    pub kept: u64,
    /// What the parties agree on: a hash of model, settings and algorithm.
    pub identity: String,
    /// The silo's name.
    pub silo: String,
}
