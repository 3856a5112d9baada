//! Starts a run on the engine, with a bundle that holds no program.

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::fab;
use crate::wire::current::{Fab, StartRunRequest, StartRunResponse};

/// Starts a run; returns its number.
pub(crate) fn start_run(connection: &Connection) -> Result<u64> {
    let (hash_str, content) = fab::stub();
    let request = StartRunRequest { fab: Some(Fab { hash_str, content }), series_id: None };
    let answer: StartRunResponse = connection.call("starting a run", "control/start-run", &request)?;
    answer.run_id.ok_or_else(|| Error::Refused {
        operation: "starting a run",
        status: 200,
        detail: answer.note.unwrap_or_else(|| "no run was made".into()),
        remedy: "See the engine's log.",
    })
}
