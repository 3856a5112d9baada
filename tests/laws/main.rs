//! Holds every implementation to the laws of its trait, and formulas to golden numbers.

mod bijectors;
mod custom_operations;
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
mod recurrences;
