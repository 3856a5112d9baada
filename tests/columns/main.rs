//! Claims the properties of fits to parties with different columns of the same rows.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod failure;
mod fit;
mod messages;
mod models;
mod parts;
mod precision;
mod privacy;
mod soul;
mod weights;
