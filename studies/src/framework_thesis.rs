//! Repeats both experiments of a bachelor thesis on a framework for partitioned inference, by every schedule.

pub(crate) mod gaussian_mean;
mod legacy_normal;
pub(crate) mod ruggedness;
mod schedules;
mod silos;

pub use silos::gaussian_mean_silos;
