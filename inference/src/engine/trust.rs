//! Says how far an answer can be trusted: the bound with its error, and rows that silos keep to judge by.

pub(crate) mod estimate;
pub(crate) mod evaluate;
pub(crate) mod held_out;
