//! States a reason to doubt a report: what is wrong, what was measured, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::algorithm::Ending;

/// A reason to doubt a part of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// What is wrong, in a sentence.
    pub problem: String,
    /// The site that it is about; `None` for all of the report.
    pub site: Option<String>,
    /// What was measured, where something was.
    pub number: Option<f64>,
    /// What to do.
    pub remedy: String,
}

impl Warning {
    /// What is wrong with the answer of a run that ended so.
    pub(crate) fn of_ending(ending: Ending) -> Option<Self> {
        (ending == Ending::NotConverged).then(|| Self {
            problem: "the run did not converge, and its answer is not to be trusted".into(),
            site: None,
            number: None,
            remedy: "The posterior may be far from normal: take `Sfvi`, or sample with `Nuts`.".into(),
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "warning: {}", self.problem)?;
        if let Some(site) = &self.site {
            write!(formatter, " (`{site}`)")?;
        }
        if let Some(number) = self.number {
            write!(formatter, " ({number:.4})")?;
        }
        write!(formatter, ". {}", self.remedy)
    }
}
