//! Holds every implementation to the laws of its trait, and formulas to golden numbers.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod adam;
mod adam_rows;
mod bijectors;
mod composites;
mod cumulatives;
mod custom_operations;
mod densities;
mod exponential_families;
mod families;
mod generalised;
mod golden;
mod kernels;
mod losses;
mod messages;
mod metrics;
mod models;
mod noise;
mod operations;
mod plugs;
mod readings;
mod recurrences;
mod reference;

mod simulation;
mod special;
mod supports;
