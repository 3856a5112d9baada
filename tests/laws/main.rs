//! Holds every implementation to the laws of its trait, and formulas to golden numbers.

mod bijectors;
mod cumulatives;
mod densities;
mod exponential_families;
mod families;
mod generalised;
mod golden;
mod losses;
mod messages;
mod metrics;
mod models;
mod operations;
mod plugs;
mod readings;
mod reference;
mod supports;
