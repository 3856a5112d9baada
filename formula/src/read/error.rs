//! Names every way in which a silo's file cannot be read, with file, line and column, and what to do about it.

use std::fmt::{Display, Formatter};

use partita_core::DataError;

use crate::error::did_you_mean;
use crate::syntax::Place;

/// The most cells that a message lists; it counts the others.
pub(crate) const LISTED: usize = 5;

/// A cell of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellPlace {
    /// The line of the file, from 1.
    pub line: u64,
    /// The text there.
    pub found: String,
}

impl Display for CellPlace {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "line {}: {:?}", self.line, self.found)
    }
}

/// The error of reading a silo's file, or of taking the columns of a formula from it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The file is no table.
    #[error(transparent)]
    Table(#[from] DataError),
    /// An option names a delimiter that has more than one byte.
    #[error("reading options: the delimiter is {found:?}, expected an ASCII character such as `;`.")]
    NoDelimiter {
        /// The character.
        found: char,
    },
    /// A file is not as it has to be.
    #[error("reading {file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: FrameProblem,
    },
}

impl FrameError {
    pub(super) fn of(file: &str, problem: FrameProblem) -> Self {
        Self::File { file: file.into(), problem }
    }
}

/// What is wrong with a silo's file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameProblem {
    /// The file is not text in UTF-8.
    #[error(
        "line {line}, character {character}, column `{column}`: found the byte 0x{byte:02x} after {before:?}, expected UTF-8. Save the file as UTF-8, or say `encoding = \"latin1\"` (of a command `--encoding latin1`) if it is Latin-1 (the usual one of Windows in Western Europe)."
    )]
    Encoding {
        /// The line, from 1.
        line: usize,
        /// The character of the line, from 1.
        character: usize,
        /// The column, by its name in the first line or else its number.
        column: String,
        /// The byte.
        byte: u8,
        /// The characters of the cell before it.
        before: String,
    },
    /// The file is that of a spreadsheet program.
    #[error(
        "found a workbook of a spreadsheet program, expected text. Save its sheet as CSV in UTF-8, and name that file."
    )]
    Workbook,
    /// The first line could be split in several ways.
    #[error(
        "line 1: found {}, expected one of them between the names of columns. Say which with `delimiter = \";\"` (of a command `--delimiter ';'`).",
        candidates.iter().map(|c| format!("{c:?}")).collect::<Vec<_>>().join(" and ")
    )]
    Delimiter {
        /// The characters that may separate columns.
        candidates: Vec<char>,
    },
    /// A quote opens and none closes it, or it closes lines below.
    #[error(
        "line {line}: a quote opens a cell that goes on in the next line, expected its end in that line. Close the quote, or take it out."
    )]
    Quote {
        /// The line of the quote.
        line: u64,
    },
    /// The first line says the delimiter, for a spreadsheet.
    #[error(
        "line 1: found {found:?}, expected names of columns. Take this line out: the delimiter is found without it."
    )]
    Separator {
        /// The line.
        found: String,
    },
    /// Lines above the names of columns.
    #[error(
        "line 1: found {found:?}, expected names of columns, which are below it: {names:?}. Take out what is above the names."
    )]
    Title {
        /// The first line.
        found: String,
        /// The line of names.
        names: String,
    },
    /// Names have another character between them than the cells below.
    #[error(
        "line 1: found {found:?} between the names of columns, expected {expected:?} as in the lines below it, such as {below:?}. Write the first line as `{names}`; if it is right, say `delimiter = \"{found}\"` (of a command `--delimiter '{found}'`)."
    )]
    OtherDelimiter {
        /// The character between names.
        found: char,
        /// The character between cells.
        expected: char,
        /// The line below the names.
        below: String,
        /// The first line as it should be.
        names: String,
    },
    /// Each line has one cell more than there are names.
    #[error(
        "line 1: found {found} names of columns, expected {}: each line below has one cell more. Write the first line as `{names}`, or write the file without names of rows (`row.names = FALSE` in R).",
        found + 1
    )]
    RowNames {
        /// The number of names.
        found: usize,
        /// The first line as it should be.
        names: String,
    },
    /// Columns have no name.
    #[error(
        "line 1: found no name for the columns {}, expected one for each. Name them in the first line, or take these columns out.",
        unnamed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Unnamed {
        /// The columns, from 1.
        unnamed: Vec<usize>,
    },
    /// The first line has numbers in the place of names.
    #[error("line 1: found {found:?}, expected names of columns. Add a first line with the names.")]
    Header {
        /// The first line's cells.
        found: Vec<String>,
    },
    /// A comma, or a point where semicolons stand between columns, may be that of decimals or that of thousands.
    #[error(
        "column `{column}`, {cell}: the {mark} may be that of decimals or of thousands. Say `decimal = \"{mark}\"` (of a command `--decimal {mark}`), or take the {mark}s out."
    )]
    Thousands {
        /// The mark in question: `comma` or `point`.
        mark: &'static str,
        /// The column.
        column: String,
        /// The first cell with one.
        cell: CellPlace,
    },
    /// A column has numbers and other text.
    #[error(
        "column `{column}` has {numbers} numbers and {count} other cell{}, expected numbers alone: {}{}. Correct these cells, write NA where there is no value or name their word in `missing` (of a command `--missing-cells`), or write `factor({column})` if the column has levels.",
        if *count == 1 { "" } else { "s" },
        cells.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        if *count > cells.len() { format!("; and {} more", count - cells.len()) } else { String::new() }
    )]
    Mixed {
        /// The column.
        column: String,
        /// The cells that are numbers.
        numbers: usize,
        /// The cells that are not.
        count: usize,
        /// The first of them.
        cells: Vec<CellPlace>,
    },
    /// A column has dates.
    #[error(
        "column `{column}`, {cell}: found a date, expected a number or a level. Make a column of days in the file, or write `factor({column})` if each date is a level."
    )]
    Dates {
        /// The column.
        column: String,
        /// The first date.
        cell: CellPlace,
    },
    /// The formula computes with a column of text.
    #[error(
        "column `{column}`, {cell}: found text, expected a number. Make a column of numbers in the file, such as 1 for what happened and 0 for what did not.\n{place}"
    )]
    NotNumbers {
        /// The column.
        column: String,
        /// The first cell.
        cell: CellPlace,
        /// Where the formula needs numbers.
        place: Box<Place>,
    },
    /// The formula names a column that the file lacks.
    #[error(
        "no column `{column}`.{} The file has: {}.\n{place}",
        did_you_mean(suggestion),
        present.join(", ")
    )]
    UnknownColumn {
        /// The name.
        column: String,
        /// The nearest name of the file, if any is near.
        suggestion: Option<String>,
        /// The names of the file.
        present: Vec<String>,
        /// Where the formula names it.
        place: Box<Place>,
    },
    /// The formula names a number that the file has a column for.
    #[error(
        "found a column `{name}`, expected none: in the formula it is the number that R calls so. Write `` `{name}` `` for the column, or rename it in the first line.\n{place}"
    )]
    Constant {
        /// The name of both.
        name: String,
        /// Where the formula has the number.
        place: Box<Place>,
    },
    /// The file lacks a column.
    #[error("no column `{column}`.{}", did_you_mean(suggestion))]
    NoColumn {
        /// The name.
        column: String,
        /// The nearest name of the file, if any is near.
        suggestion: Option<String>,
    },
    /// Cells are missing, and what that means is not stated.
    #[error(
        "{rows} of {all} rows have missing cells: {}. Fill them in, or say `missing = \"drop\"` (of a command `--drop-missing`) to leave these rows out.",
        columns.iter().map(|(name, count, line)| format!("column `{name}` {count} (first in line {line})")).collect::<Vec<_>>().join(", ")
    )]
    Missing {
        /// The rows with missing cells.
        rows: usize,
        /// All rows.
        all: usize,
        /// The columns with missing cells: name, count and first line.
        columns: Vec<(String, usize, u64)>,
    },
    /// No row is left.
    #[error("each of the {rows} rows has a missing cell in the columns of the formula, expected one row without. Take out the column that is missing most: {}.", columns.join(", "))]
    NothingLeft {
        /// Its rows.
        rows: usize,
        /// The columns with missing cells.
        columns: Vec<String>,
    },
}
