//! Opens a silo's file as a table, however its spreadsheet wrote it.

use std::path::Path;

use partita_core::{DataError, Table};
use serde::Deserialize;

use super::decode::decode;
use super::delimiter::{delimiter, open_quote};
use super::error::{FrameError, FrameProblem};
use super::heading::check_heading;

/// How the characters of a file are written as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// UTF-8, or UTF-16 where the file begins with its mark.
    #[default]
    Unicode,
    /// One byte a character, as older programs of Western Europe write it.
    Latin1,
}

/// The mark before decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decimal {
    /// Whichever the cells of a column show.
    #[default]
    AsFound,
    /// `1.5`.
    Point,
    /// `1,5`.
    Comma,
}

/// The character between the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "char")]
pub enum Delimiter {
    /// Whichever the first line shows: comma, semicolon, tab or bar.
    #[default]
    AsFound,
    /// This one.
    Byte(u8),
}

impl TryFrom<char> for Delimiter {
    type Error = FrameError;

    fn try_from(found: char) -> Result<Self, FrameError> {
        let byte = u8::try_from(found).ok().filter(u8::is_ascii);
        byte.map(Self::Byte).ok_or(FrameError::NoDelimiter { found })
    }
}

/// What an owner says about a file that does not show it.
///
/// # Example
/// ```
/// use partita_formula::{Decimal, Delimiter, Encoding, ReadOptions};
/// let options: ReadOptions = serde_json::from_str(r#"{"encoding": "latin1", "delimiter": ";", "decimal": "comma"}"#)?;
/// assert_eq!(options.delimiter, Delimiter::Byte(b';'));
/// assert_eq!((options.encoding, options.decimal), (Encoding::Latin1, Decimal::Comma));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadOptions {
    /// The encoding of the text.
    pub encoding: Encoding,
    /// The character between columns.
    pub delimiter: Delimiter,
    /// The mark before decimals.
    pub decimal: Decimal,
    /// The words for a value that is missing.
    pub missing: Vec<String>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        let missing = ["", "NA", "NaN", "?"].map(String::from).to_vec();
        Self { encoding: Encoding::default(), delimiter: Delimiter::default(), decimal: Decimal::default(), missing }
    }
}

/// One silo's file, read and not yet typed: a column gets its type when a formula uses it.
///
/// # Example
/// ```
/// use partita_formula::{ColumnKind, Formula, Frame, MissingCells, ReadOptions};
/// let text = "age;dose;site\n7;1,5;a\n9;2,25;b\n";
/// let frame = Frame::from_bytes("north.csv", text.as_bytes(), ReadOptions::default())?;
/// let formula = Formula::parse("age ~ dose + site")?;
/// let columns = frame.columns("north", &[&formula], MissingCells::Refuse)?;
/// assert_eq!(columns.rows(), 2);
/// assert_eq!(columns.kind("site"), Some(ColumnKind::Text));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Frame {
    pub(super) table: Table,
    pub(super) options: ReadOptions,
}

impl Frame {
    /// Reads the file at `path`; its first line names the columns.
    ///
    /// # Errors
    /// [`FrameError`] where the file is no table, or could be read in several ways.
    pub fn from_path(path: impl AsRef<Path>, options: ReadOptions) -> Result<Self, FrameError> {
        let file = path.as_ref().display().to_string();
        let bytes = std::fs::read(path)
            .map_err(|error| DataError::Unreadable { file: file.clone(), reason: error.to_string() })?;
        Self::from_bytes(&file, &bytes, options)
    }

    /// Reads the content `bytes` of a file, which errors call `file`.
    ///
    /// # Errors
    /// As [`Frame::from_path`].
    pub fn from_bytes(file: &str, bytes: &[u8], options: ReadOptions) -> Result<Self, FrameError> {
        let refused = |problem: FrameProblem| FrameError::of(file, problem);
        let mut text = decode(bytes, options.encoding).map_err(refused)?;
        if !text.contains('\n') {
            text = text.replace('\r', "\n").into();
        }
        if let Some(found) = text.lines().next().filter(|line| line.starts_with("sep=")) {
            return Err(refused(FrameProblem::Separator { found: found.trim_end().into() }));
        }
        let stated = match options.delimiter {
            Delimiter::Byte(byte) => Some(byte),
            Delimiter::AsFound => None,
        };
        check_heading(&text, stated).map_err(refused)?;
        let delimiter = stated.map_or_else(|| delimiter(&text), Ok).map_err(refused)?;
        if let Some(line) = open_quote(&text, delimiter) {
            return Err(refused(FrameProblem::Quote { line }));
        }
        let table = Table::delimited(file, text.as_bytes(), delimiter, None)?;
        let number = |name: &String| name.replace(',', ".").parse::<f64>().is_ok();
        if table.names().iter().all(number) {
            return Err(refused(FrameProblem::Header { found: table.names().to_vec() }));
        }
        Ok(Self { table, options: ReadOptions { delimiter: Delimiter::Byte(delimiter), ..options } })
    }

    /// The names of its columns, in order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        self.table.names()
    }

    /// The number of its rows, those with missing cells included.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.table.rows()
    }
}
