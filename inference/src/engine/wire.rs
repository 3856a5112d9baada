//! Gives the one form in which parties speak, and declares what may leave a silo.

pub(crate) mod manifest;
pub(crate) mod message;
