//! Holds one room for each method: its coordinator, its silo, and what they say to each other.

pub(crate) mod columns;
pub(crate) mod few_rounds;
#[cfg(feature = "sampler")]
pub(crate) mod nuts;
pub(crate) mod pvi;
pub(crate) mod rounds;
pub(crate) mod sfvi;
