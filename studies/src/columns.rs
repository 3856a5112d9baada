//! Repeats the studies of the vertical paper: parties that hold different columns of the same rows.

pub(crate) mod heart;
pub(crate) mod logistic;
pub(crate) mod poisson;
mod soul;

pub use soul::{Soul, SoulCoordinator, SoulParty};
