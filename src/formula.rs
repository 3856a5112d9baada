//! Fits regressions from a formula and the CSV file of each silo, in one process.

mod contrast;
mod contrast_text;
mod error;
mod family;
mod groups;
mod known_groups;
mod outcome;
mod predict;
mod predictors;
mod prepare;
mod prior_predictive;
mod priors;
mod stated_prior;
mod summary;

pub use contrast::Contrasted;
pub use contrast_text::Contrast;
pub use error::StudyError;
pub use family::ResponseFamily;
pub use partita_formula::*;
pub use predict::{Prediction, Whose};
pub use prepare::{Plan, Prepared, SiloTable, Study};
pub use prior_predictive::PriorPredictive;
pub use priors::PriorLine;
pub use stated_prior::StatedPrior;
pub use summary::{DesignSummary, RandomSummary};
