//! Repeats a thesis on federated learning under misspecification: robust losses, other divergences, two-dimensional
//! silos.

pub(crate) mod clutter;
mod problem;
pub(crate) mod tables;

pub use problem::{
    Clutter, ClutterPosterior, ClutterSettings, PlanarClutter, PlanarClutterSettings, PlanarCovariance, PlanarPosterior,
};
