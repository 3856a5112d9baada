//! Computes what Burn lacks: special functions, vectorised loops, and host functions as nodes of Burn's tape.

pub mod kernel;
pub(crate) mod operation;
pub mod special;
