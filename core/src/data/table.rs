//! Reads a CSV file into named columns and reports every cell that its column cannot hold.

use std::io::Read;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};

use super::error::{BadCell, DataError, LISTED};

/// A table of text with named columns, from which columns of numbers or of text are taken.
///
/// White space around cells is dropped. A cell that is empty or says `NA`, `NaN` or `inf` is not a number: handle
/// missing data before a fit, not inside it.
///
/// # Example
/// ```
/// use partita_core::Table;
/// let text = "height,city\n1.5,Basel\n2.5,Bern\n";
/// let table = Table::from_reader("towers.csv", text.as_bytes())?;
/// let [height] = table.numbers(["height"])?;
/// assert_eq!(height, [1.5, 2.5]);
/// assert_eq!(table.text("city")?, ["Basel", "Bern"]);
/// # Ok::<(), partita_core::DataError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Table {
    file: String,
    names: Vec<String>,
    rows: Vec<(u64, StringRecord)>,
}

impl Table {
    /// Reads the CSV file at `path`; its first line names the columns.
    ///
    /// # Errors
    /// [`DataError::Unreadable`], [`DataError::Empty`], [`DataError::DuplicateColumn`] or [`DataError::RaggedRows`].
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let name = path.as_ref().display().to_string();
        let file = std::fs::File::open(path)
            .map_err(|error| DataError::Unreadable { file: name.clone(), reason: error.to_string() })?;
        Self::from_reader(&name, file)
    }

    /// Reads CSV text from `reader`; `file` is its name in errors.
    ///
    /// # Errors
    /// As [`Table::from_path`].
    pub fn from_reader(file: &str, reader: impl Read) -> Result<Self, DataError> {
        Self::delimited(file, reader, b',', None)
    }

    /// As [`Table::from_reader`], with cells separated by `delimiter`, and with `names` for files without a header.
    ///
    /// # Errors
    /// As [`Table::from_path`].
    ///
    /// # Example
    /// ```
    /// use partita_core::Table;
    /// let table = Table::delimited("towers.data", "1.5;Basel\n".as_bytes(), b';', Some(&["height", "city"]))?;
    /// assert_eq!(table.numbers(["height"])?, [[1.5]]);
    /// # Ok::<(), partita_core::DataError>(())
    /// ```
    pub fn delimited(
        file: &str,
        mut reader: impl Read,
        delimiter: u8,
        names: Option<&[&str]>,
    ) -> Result<Self, DataError> {
        let unreadable = |error: csv::Error| DataError::Unreadable { file: file.into(), reason: error.to_string() };
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|error| unreadable(error.into()))?;
        let mut builder = ReaderBuilder::new();
        builder.flexible(true).trim(Trim::All).delimiter(delimiter).has_headers(names.is_none());
        let mut reader = builder.from_reader(bytes.as_slice());
        let names: Vec<String> = match names {
            Some(names) => names.iter().copied().map(String::from).collect(),
            None => reader.headers().map_err(unreadable)?.iter().map(String::from).collect(),
        };
        if names.is_empty() {
            return Err(DataError::Empty { file: file.into(), found: "nothing" });
        }
        DataError::check_names(file, &names)?;
        let (mut rows, mut ragged) = (Vec::new(), Vec::new());
        for record in reader.records() {
            let record = record.map_err(unreadable)?;
            // Where a record starts the reader has not counted empty lines before it, nor a line of Windows to its end.
            let ends = |at: &csv::Position| {
                let rest = bytes.get(at.byte() as usize..).unwrap_or_default();
                rest.iter().take_while(|byte| b"\r\n".contains(byte)).filter(|byte| **byte == b'\n').count() as u64
            };
            let line = record.position().map_or(0, |at| at.line() + ends(at));
            if record.len() != names.len() {
                ragged.push((line, record.len()));
            }
            rows.push((line, record));
        }
        if !ragged.is_empty() {
            let (count, expected) = (ragged.len(), names.len());
            ragged.truncate(LISTED);
            return Err(DataError::RaggedRows { file: file.into(), expected, count, rows: ragged });
        }
        if rows.is_empty() {
            return Err(DataError::Empty { file: file.into(), found: "column names but no rows" });
        }
        Ok(Self { file: file.into(), names, rows })
    }

    /// The names of the columns, in the order of the file.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of rows, without the header.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The name of the file in errors.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line of the file, from 1, where each row starts.
    pub fn lines(&self) -> impl Iterator<Item = u64> {
        self.rows.iter().map(|(line, _)| *line)
    }

    /// The columns `names` as finite numbers.
    ///
    /// # Errors
    /// [`DataError::MissingColumns`] with every name the table lacks; [`DataError::BadCells`] with every cell of these
    /// columns that is not a finite number.
    pub fn numbers<const N: usize>(&self, names: [&str; N]) -> Result<[Vec<f64>; N], DataError> {
        self.cells(names, finite)
    }

    /// The columns `names` as `read` makes them of the text of a cell; `None` is a bad cell.
    fn cells<T, const N: usize>(
        &self,
        names: [&str; N],
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<[Vec<T>; N], DataError> {
        let places = self.places(&names)?;
        let mut columns = [const { Vec::new() }; N];
        let (mut cells, mut count) = (Vec::new(), 0);
        for (row, (line, record)) in self.rows.iter().enumerate() {
            for ((column, place), name) in columns.iter_mut().zip(&places).zip(names) {
                let found = record.get(*place).unwrap_or_default();
                if let Some(value) = read(found) {
                    column.push(value);
                    continue;
                }
                count += 1;
                if count <= LISTED {
                    cells.push(BadCell { row: row + 1, line: *line, column: name.into(), found: found.into() });
                }
            }
        }
        if count > 0 {
            return Err(DataError::BadCells { file: self.file.clone(), count, cells });
        }
        Ok(columns)
    }

    /// The column `name` as text.
    ///
    /// # Errors
    /// [`DataError::MissingColumns`] if there is none.
    pub fn text(&self, name: &str) -> Result<Vec<&str>, DataError> {
        let places = self.places(&[name])?;
        Ok(self
            .rows
            .iter()
            .flat_map(|(_, record)| places.iter().map(|place| record.get(*place).unwrap_or_default()))
            .collect())
    }

    fn places(&self, names: &[&str]) -> Result<Vec<usize>, DataError> {
        let place = |name: &&str| self.names.iter().position(|present| present == name);
        let missing: Vec<String> = names.iter().filter(|name| place(name).is_none()).map(ToString::to_string).collect();
        if missing.is_empty() {
            Ok(names.iter().filter_map(place).collect())
        } else {
            Err(DataError::MissingColumns { file: self.file.clone(), missing, present: self.names.clone() })
        }
    }
}

fn finite(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|number: &f64| number.is_finite())
}
