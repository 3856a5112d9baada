//! Says what became of a claim that stood before the run: where, whether it was met, and by what numbers.

use std::fmt;

use serde::Serialize;

/// What became of a claim in one place.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) claim: &'static str,
    pub(crate) place: String,
    pub(crate) met: bool,
    pub(crate) found: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = if self.met { "met" } else { "NOT met" };
        write!(formatter, "{:<4} {:<34} {met:<8} {}", self.claim, self.place, self.found)
    }
}
