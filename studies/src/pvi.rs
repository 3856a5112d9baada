//! Repeats the tables of the PVI paper: logistic regressions over ten silos, and a network on handwritten digits.

pub(crate) mod mnist;
pub(crate) mod uci;
