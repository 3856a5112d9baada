//! Reads and writes the files that a party keeps for itself, with the path of the file in every error.

use std::io::ErrorKind;
use std::path::Path;

use partita_inference::write_atomically;

use crate::error::{Error, Result};

/// The bytes of a file; `None` where there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|error| Error::file(path, error)),
    }
}

/// Writes a file, whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(path, bytes).map_err(|error| Error::file(path, error))
}
