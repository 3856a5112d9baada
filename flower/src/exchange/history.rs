//! Remembers what happened to silos in a run, for people who want to know who was missing when.

use serde::{Deserialize, Serialize};

/// Something that happened to a silo in a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The round.
    pub round: u64,
    /// The silo.
    pub silo: String,
    /// What happened.
    pub what: String,
}
