//! Repeats the tables and figures of papers, each by one command, and judges the papers' claims.
#![allow(clippy::print_stdout, reason = "a study prints its tables")]

mod autoencoder;
mod columns;
mod command;
mod framework_thesis;
pub mod harness;
pub mod measures;
mod misspecification;
mod packages;
pub mod pictures;
mod private_adult;
mod private_six_cities;
mod pvi;
mod sfvi;
mod verdicts;
mod weight_uncertainty;

pub use columns::{Soul, SoulCoordinator, SoulParty};
pub use command::main;
pub use framework_thesis::gaussian_mean_silos;
pub use misspecification::{
    Clutter, ClutterPosterior, ClutterSettings, PlanarClutter, PlanarClutterSettings, PlanarCovariance, PlanarPosterior,
};
pub use packages::deal_in_three;
