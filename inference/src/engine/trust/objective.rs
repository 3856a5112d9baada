//! Names the number that a method maximises: what is a bound of the evidence, and what is not.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the number printed as the objective of a fit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Objective {
    /// The evidence lower bound.
    Elbo,
    /// The bound by the average of so many importance weights: it is higher than the evidence lower bound of the same
    /// posterior, and compares with bounds of as many draws only.
    ImportanceWeighted {
        /// How many.
        draws: usize,
    },
    /// The log joint density at a point, which bounds nothing.
    LogJoint,
    /// Minus a generalised objective, which bounds no evidence.
    Generalised,
}

impl fmt::Display for Objective {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elbo => formatter.write_str("ELBO"),
            Self::ImportanceWeighted { draws } => write!(formatter, "importance-weighted bound of {draws} draws"),
            Self::LogJoint => formatter.write_str("log joint density, which bounds nothing,"),
            Self::Generalised => formatter.write_str("generalised objective, which bounds no evidence,"),
        }
    }
}
