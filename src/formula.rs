//! Fits regressions from a formula and the CSV file of each silo, in one process.

mod error;
mod family;
mod groups;
mod outcome;
mod predictors;
mod prepare;
mod priors;
mod summary;

pub use error::StudyError;
pub use family::ResponseFamily;
pub use partita_formula::*;
pub use prepare::{Plan, Prepared, SiloTable, Study};
pub use priors::PriorLine;
pub use summary::{DesignSummary, RandomSummary};
