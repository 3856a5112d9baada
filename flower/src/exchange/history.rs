//! Remembers what happened to silos in a run, for people who want to know who was missing when.

use serde::{Deserialize, Serialize};

use crate::error::set_in;

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

impl Event {
    /// An event in words of which some may be a silo's.
    pub(super) fn new(round: u64, silo: &str, kind: EventKind, what: &str) -> Self {
        Self { round, silo: silo.to_owned(), kind, what: set_in(what) }
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { round, silo, what, .. } = self;
        write!(formatter, "round {round}, silo `{silo}`: {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_silo_in_an_event_neither_move_a_terminal_nor_look_like_a_line_of_the_log() {
        let event = Event::new(3, "north", EventKind::Refused, "field `a\u{1b}[2K\r\n12:00 run finished`");
        assert_eq!(event.to_string(), "round 3, silo `north`: field `a[2K\n    12:00 run finished`");
        assert!(!event.what.contains(['\u{1b}', '\r']));
    }
}
