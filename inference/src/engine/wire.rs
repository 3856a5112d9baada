//! Gives the one form in which parties speak, declares its messages, and says what may leave a silo.

pub(crate) mod manifest;
pub(crate) mod message;
pub(crate) mod typed;
