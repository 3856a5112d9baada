//! Gives the application bundle that the engine asks for: a stub, since each party runs what its owner installed.

use sha2::{Digest, Sha256};

use crate::object::hexadecimal;

/// Made by `fab/stub.py`.
const STUB: &[u8] = include_bytes!("fab/stub.fab");

/// A bundle with nothing in it but its name; the hash it is known by and its bytes.
pub(crate) fn stub() -> (String, Vec<u8>) {
    (hexadecimal(&Sha256::digest(STUB)), STUB.to_vec())
}
