//! Fits regressions from a formula and the CSV file of each silo, in one process.

mod error;
mod family;
mod groups;
mod prepare;
mod priors;

pub use error::StudyError;
pub use family::ResponseFamily;
pub use partita_formula::*;
pub use prepare::{Prepared, SiloTable, Study};
pub use priors::PriorLine;
