//! Chooses the wire format of the engine: one module a version, of which the newest is used.

pub(crate) mod v1_41;

pub(crate) use v1_41 as current;

/// The minor version of `flwr` whose wire format this crate uses.
pub const ENGINE_VERSION: &str = "1.41";
