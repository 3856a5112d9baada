//! Gives the terms that a silo adds to the bound, with their gradients: what several methods ask of their silos.

pub(crate) mod climbing;
pub(crate) mod coordinator;
pub(crate) mod joint;
pub(crate) mod messages;
pub(crate) mod noised;
pub(crate) mod objective;
pub(crate) mod particles;
pub(crate) mod pending;
pub(crate) mod reweighted;
pub(crate) mod row_vectors;
pub(crate) mod silo;
mod total;

pub use silo::Silo;
