//! Gives the application bundle that the engine requires: a stub, since each party runs its own installation.

use sha2::{Digest, Sha256};

use crate::object::hexadecimal;

/// Written by `fab/stub.py`.
const STUB: &[u8] = include_bytes!("fab/stub.fab");

/// A bundle that holds only its name; returns its hash and its bytes.
pub(crate) fn stub() -> (String, Vec<u8>) {
    (hexadecimal(&Sha256::digest(STUB)), STUB.to_vec())
}
