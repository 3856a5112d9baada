//! Holds what every method uses and none changes: families, estimators, messages, the run loop and the report.
//!
//! Nothing here names a method; `tests/architecture` holds that arrow.

pub(crate) mod algorithm;
pub(crate) mod apart;
#[cfg(feature = "arviz")]
pub(crate) mod arviz;
pub(crate) mod belief;
pub(crate) mod believing;
pub(crate) mod checkpoint;
pub(crate) mod climb;
pub(crate) mod clipped;
pub(crate) mod divergence;
#[cfg(test)]
pub(crate) mod effects;
pub(crate) mod error;
pub(crate) mod estimator;
pub(crate) mod exchange;
pub(crate) mod explosion;
pub(crate) mod family;
pub(crate) mod gauss_hermite;
pub(crate) mod integral;
pub(crate) mod limited_memory;
pub(crate) mod listed_party;
pub(crate) mod mechanism;
pub mod metrics;

pub(crate) mod moments;
pub(crate) mod natural;
pub(crate) mod normal;
pub(crate) mod on_device;
pub(crate) mod optimiser;
pub(crate) mod panic;
pub(crate) mod party;
pub(crate) mod plug;
pub(crate) mod private_party;
pub(crate) mod private_steps;
pub(crate) mod report;
pub(crate) mod rows;
pub(crate) mod run;
pub(crate) mod settings;
pub(crate) mod start_width;
pub(crate) mod symmetric;
pub(crate) mod terms;
pub(crate) mod trainer;
pub(crate) mod trust;
pub(crate) mod turn;
pub(crate) mod whitened;
pub(crate) mod wire;

/// Numbers of a long vector that one thread takes at a time. What is summed by such parts has the same bits for any number of
/// threads, and other bits in parts of another length.
pub(crate) const PART: usize = 16_384;
