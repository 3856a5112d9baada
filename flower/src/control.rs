//! Starts a run on the engine, with a bundle that holds no program.

use sha2::{Digest, Sha256};

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::object::hexadecimal;
use crate::wire::{Fab, StartRunRequest, StartRunResponse};

/// A bundle that holds only its name, since each party runs its own installation; written by `fab/stub.py`.
const STUB: &[u8] = include_bytes!("fab/stub.fab");

/// Starts a run; returns its number.
pub(crate) fn start_run(connection: &Connection) -> Result<u64> {
    let stub = Fab { hash_str: hexadecimal(&Sha256::digest(STUB)), content: STUB.to_vec() };
    let request = StartRunRequest { fab: Some(stub) };
    let answer: StartRunResponse = connection.call("starting a run", "control/start-run", &request)?;
    answer.run_id.ok_or_else(|| Error::Refused {
        operation: "starting a run",
        status: 200,
        detail: answer.note.unwrap_or_else(|| "no run was made".into()),
        remedy: "See the engine's log.",
    })
}
