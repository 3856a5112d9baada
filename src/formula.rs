//! Fits regressions from a formula and the CSV file of each silo, in one process.
#![cfg_attr(not(feature = "cli"), allow(dead_code, reason = "commands ask further questions"))]

pub(crate) mod contrast;
mod contrast_text;
pub(crate) mod csv;
mod error;
mod family;
mod groups;
mod known_groups;
mod names;
mod new_groups;
mod notes;
mod outcome;
#[cfg(feature = "cli")]
mod pooled;
pub(crate) mod predict;
mod predictors;
pub(crate) mod prepare;
mod prior_predictive;
mod priors;
pub(crate) mod shared_model;
mod simulate;
pub(crate) mod stand_in;
mod stated_prior;
mod summary;

pub use contrast::Contrasted;
pub use contrast_text::Contrast;
pub use error::StudyError;
pub use family::ResponseFamily;
pub use partita_formula::*;
pub use partita_inference::PriorLine;
pub use predict::{Prediction, Whose};
pub use prepare::{Plan, Prepared, SiloTable, Study};
pub use prior_predictive::PriorPredictive;
pub use simulate::Simulated;
pub use stand_in::DeclaredColumn;
pub use stated_prior::StatedPrior;
pub(crate) use summary::Agreed;
pub use summary::{CrossedGroupings, DesignSummary, RandomSummary};
