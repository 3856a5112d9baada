//! Holds a silo that comes back in the midst of a run to the rows with which it began.

use std::path::Path;

use partita_flower::ObjectId;
use partita_inference::{Error, Result};
use serde::{Deserialize, Serialize};

use super::agree::{read, write};
use crate::formula::Columns;

/// The rows that the state of a silo is of.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedRows {
    rows: usize,
    /// A hash of the cells that the study uses.
    cells: String,
}

impl SavedRows {
    /// The file of a silo's state.
    const FILE: &str = "rows.json";

    pub(super) fn of(columns: &Columns) -> Self {
        let cells = ObjectId::of(columns.csv_with(&[]).as_bytes()).to_string();
        Self { rows: columns.rows(), cells }
    }

    /// Writes it into a folder.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        write(self, &folder.join(Self::FILE))
    }

    /// Refuses a state of other rows.
    ///
    /// # Errors
    /// [`Error::Declined`], with both numbers of rows.
    pub(super) fn check(&self, folder: &Path) -> Result<()> {
        match read::<Self>(&folder.join(Self::FILE))? {
            Some(saved) if saved != *self => Err(Error::Declined {
                problem: format!(
                    "going on with a run: `data` has other rows now ({}) than when this silo began it ({}), and an answer of both \
                     would be of neither. Put the file back as it was; for the new rows the coordinator begins anew, by `--restart`.",
                    self.rows, saved.rows
                ),
            }),
            _ => Ok(()),
        }
    }
}
