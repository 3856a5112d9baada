//! Chooses the wire of the engine: one module a version, of which the newest is spoken.

pub(crate) mod v1_41;

pub(crate) use v1_41 as current;

/// The minor version of `flwr` whose wire this crate speaks.
pub const ENGINE_VERSION: &str = "1.41";
