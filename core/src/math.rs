//! Computes what Burn lacks: special functions, vectorised loops, and numbers with derivatives, host functions as nodes of the tape.

pub(crate) mod awake;
pub mod kernel;
pub(crate) mod logistic;
pub(crate) mod operation;
pub(crate) mod parts;
#[cfg(feature = "flex")]
pub(crate) mod product;
pub(crate) mod real;
pub mod special;
