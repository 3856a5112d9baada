//! Repeats a thesis on federated learning under misspecification: robust losses, other divergences, silos in the plane.

pub(crate) mod clutter;
mod problem;
pub(crate) mod tables;

pub use problem::{
    Clutter, ClutterPosterior, ClutterSettings, PlanarClutter, PlanarClutterSettings, PlanarCovariance, PlanarPosterior,
};
