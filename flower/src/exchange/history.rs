//! Remembers what happened to silos in a run, for people who want to know who was missing when.

use serde::{Deserialize, Serialize};

/// Something that happened to a silo in a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The round; 0 before the first.
    pub round: u64,
    /// The silo.
    pub silo: String,
    /// What happened, by kind.
    pub kind: EventKind,
    /// What happened, in words.
    pub what: String,
}

/// A kind of event. A silo was missing from the round of a `Missing` until that of the next `Back`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A request got no answer that could be used, and was sent again or given up.
    Unanswered,
    /// The silo sat this round out, and those after it, or the run ended for want of it.
    Missing,
    /// A silo that was missing answered.
    Back,
    /// The silo refused what it was asked, or what it said was refused.
    Refused,
}

impl std::fmt::Display for Event {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { round, silo, what, .. } = self;
        write!(formatter, "round {round}, silo `{silo}`: {what}")
    }
}
