//! Hides the sums of single silos behind masks that cancel, so that a coordinator learns the sum over all.

mod exchange;
mod messages;
mod parts;
mod silo;
#[cfg(test)]
pub(crate) use messages::corpus;
#[cfg(test)]
mod tests;

pub(crate) use exchange::SecureSums;
pub(crate) use messages::{is_key, is_masked, is_request};
pub(crate) use silo::{Departures, MaskedSilo, Masking};
