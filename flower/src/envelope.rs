//! Identifies the run, round and attempt of a message, so that stale and foreign messages are refused.

use serde::{Deserialize, Serialize};

use crate::signature::Signature;

/// The version of the content of messages; both sides must have the same.
pub const LAYOUT_VERSION: u64 = 3;

/// The identity of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The run's own name, made by its coordinator once and kept over restarts.
    pub run: String,
    /// When the run was made, in milliseconds since 1970: an older run never displaces a newer one.
    pub began: u64,
    /// How often the run's coordinator has resumed from a checkpoint.
    pub start: u64,
    /// The exchange, counted over the run.
    pub round: u64,
    /// How often it has been sent.
    pub attempt: u64,
    /// The latest round whose answer of this silo the coordinator has received.
    pub accepted: u64,
    /// The latest such round in the coordinator's checkpoint: the oldest state to which this silo may have to return.
    pub kept: u64,
    /// A hash of what the parties agree on: model, settings and algorithm.
    pub identity: String,
    /// The silo's name.
    pub silo: String,
    /// The coordinator's signature of a request, if it has a key.
    pub signature: Option<Signature>,
}
