//! Reads one silo's CSV file into typed columns, and refuses what would be read wrongly without a word.

mod cells;
mod columns;
mod contents;
mod decode;
mod delimiter;
mod doubts;
mod error;
mod frame;
mod heading;
mod write;

pub use columns::{ColumnKind, Columns, MissingCells};
pub(crate) use columns::{Factor, SILO};
pub use error::{CellPlace, FrameError, FrameProblem};
pub use frame::{Decimal, Delimiter, Encoding, Frame, ReadOptions};
