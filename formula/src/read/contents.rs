//! Says what a column of a file holds, whichever formula may use it: type, levels or range, missing cells.

use super::cells::{CellKind, Cells};
use super::doubts::{code, remedy};
use super::error::{FrameError, FrameProblem};
use super::frame::Frame;
use crate::error::nearest;

/// The most levels that are listed.
const LISTED: usize = 8;

impl Frame {
    /// What the column `name` holds, in words: its type, its range or levels, and how many cells are missing.
    ///
    /// # Errors
    /// [`FrameProblem::NoColumn`] for a name that the file does not have; [`FrameProblem::Thousands`] for commas and points that may
    /// be those of thousands.
    ///
    /// # Example
    /// ```
    /// use partita_formula::{Frame, ReadOptions};
    /// let frame = Frame::from_bytes("all.csv", b"x,s\n1,a\n3.5,b\nNA,a\n", ReadOptions::default())?;
    /// assert_eq!(frame.contents("x")?, "numbers from 1 to 3.5, 1 missing");
    /// assert_eq!(frame.contents("s")?, "text, 2 levels: a, b");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contents(&self, name: &str) -> Result<String, FrameError> {
        let lines: Vec<u64> = self.table.lines().collect();
        let refused = |problem: FrameProblem| FrameError::of(self.table.file(), problem);
        let unknown = || FrameProblem::NoColumn {
            suggestion: nearest(name, self.names().iter().map(String::as_str)),
            column: name.into(),
        };
        let cells = self.cells(name, &lines).and_then(|cells| cells.ok_or_else(unknown)).map_err(refused)?;
        let missing = cells.text.iter().filter(|cell| cell.is_none()).count();
        let rest = if missing > 0 { format!(", {missing} missing") } else { String::new() };
        let doubt = match (&cells.kind, code(&cells.numbers)) {
            (CellKind::Number, Some(code)) => format!("; {code} is apart from all others. {}", remedy(code)),
            _ => String::new(),
        };
        Ok(about(&cells) + &rest + &doubt)
    }
}

fn about(cells: &Cells<'_>) -> String {
    let mut levels: Vec<&str> = cells.text.iter().flatten().copied().collect();
    if levels.is_empty() {
        return "nothing but missing cells".into();
    }
    levels.sort_unstable();
    match &cells.kind {
        CellKind::Number => {
            let of = |least: fn(f64, f64) -> f64| cells.numbers.iter().copied().fold(f64::NAN, least);
            format!("numbers from {} to {}", of(f64::min), of(f64::max))
        }
        CellKind::Logical => "TRUE and FALSE".into(),
        CellKind::Dates(first) => {
            levels.dedup();
            // Dates that begin with the year are in order as text.
            let begins_with_year = |date: &&str| date.split('-').next().is_some_and(|year| year.len() == 4);
            match levels.as_slice() {
                [one] => format!("dates, all {one}"),
                [one, .., last] if levels.iter().all(begins_with_year) => format!("dates from {one} to {last}"),
                _ => format!("dates, {} different, such as {}", levels.len(), first.found),
            }
        }
        CellKind::Mixed { numbers, count, cells } => {
            let first = cells.first().map(|own| format!(", the first in {own}")).unwrap_or_default();
            format!("{numbers} numbers and {count} other cells{first}")
        }
        CellKind::Text => {
            levels.dedup();
            let rest = if levels.len() > LISTED { ", \u{2026}" } else { "" };
            let count = if levels.len() == 1 { "1 level".to_owned() } else { format!("{} levels", levels.len()) };
            format!("text, {count}: {}{rest}", levels[..levels.len().min(LISTED)].join(", "))
        }
    }
}
