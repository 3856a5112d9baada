//! Holds the rows of one party of vertical data: a key for each row, and columns with declared missing cells.

use std::collections::BTreeMap;

use super::error::{DataError, LISTED, MissingCell};
use super::key_digest::keyed_digest;
use super::keys::check_keys;

/// A column of numbers as a party declares it: complete, or with cells that may be missing.
///
/// # Missing cells
/// A missing cell is an error unless the column is declared as one that may have some. A declared column becomes two:
/// its values with 0 where the cell is missing, and `NAME is missing` with 1 there and 0 elsewhere. No value is
/// imputed. A model that is linear in both columns gives the rows without a value a level of their own. A model that
/// reads the first column alone would take missing cells for zeros.
#[derive(Debug, Clone, PartialEq)]
pub struct PartyColumn {
    name: String,
    cells: Vec<Option<f64>>,
    may_miss: bool,
}

impl PartyColumn {
    /// A column without missing cells; NaN and infinite numbers are refused.
    #[must_use]
    pub fn complete(name: &str, values: Vec<f64>) -> Self {
        Self { name: name.into(), cells: values.into_iter().map(Some).collect(), may_miss: false }
    }

    /// A column whose missing cells are declared.
    #[must_use]
    pub fn with_missing(name: &str, cells: Vec<Option<f64>>) -> Self {
        Self { name: name.into(), cells, may_miss: true }
    }
}

/// The rows of one party of vertical data: a key for each, and columns of finite numbers.
///
/// # Example
/// ```
/// use partita_core::data::{PartyColumn, PartyRows};
/// let keys = vec!["a".to_owned(), "b".to_owned()];
/// let dose = PartyColumn::with_missing("dose", vec![Some(2.5), None]);
/// let rows = PartyRows::new("clinic", keys, vec![dose])?;
/// assert_eq!(rows.names(), ["dose", "dose is missing"]);
/// assert_eq!(rows.column("dose")?, [2.5, 0.0]);
/// assert_eq!(rows.column("dose is missing")?, [0.0, 1.0]);
/// # Ok::<(), partita_core::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PartyRows {
    party: String,
    keys: Vec<String>,
    names: Vec<String>,
    columns: Vec<Vec<f64>>,
}

impl PartyRows {
    /// The rows of the party called `party`; no key may be empty or occur twice.
    ///
    /// # Errors
    /// [`DataError::MissingKey`] for a row without a key; [`DataError::RepeatedKeys`] with the rows of each key that
    /// occurs twice: decide which row is the right one; [`DataError::DuplicateColumn`] for two columns of one name;
    /// [`DataError::Argument`] for a column of another length; [`DataError::MissingCells`] with column and row of cells
    /// that are not finite numbers in columns that did not declare missing ones, and of infinite ones in any column.
    pub fn new(party: &str, keys: Vec<String>, columns: Vec<PartyColumn>) -> Result<Self, DataError> {
        check_keys(party, &keys)?;
        check_lengths(party, keys.len(), &columns)?;
        check_cells(party, &columns)?;
        let rows = format!("rows of party `{party}`");
        // By the places that the caller gave them, before columns that mark missing cells stand between.
        let own: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        DataError::check_names(&rows, &own)?;
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for PartyColumn { name, cells, may_miss } in columns {
            if may_miss {
                names.extend([name.clone(), format!("{name} is missing")]);
                values.push(cells.iter().map(|cell| cell.unwrap_or(0.0)).collect());
                values.push(cells.iter().map(|cell| f64::from(u8::from(cell.is_none()))).collect());
            } else {
                names.push(name);
                values.push(cells.into_iter().flatten().collect());
            }
        }
        DataError::check_names(&rows, &names)?;
        Ok(Self { party: party.into(), keys, names, columns: values })
    }

    /// The same rows with each key replaced by its keyed digest, for keys that must not leave the party in the clear.
    ///
    /// All parties must share `secret` and write keys identically, white space included. See [`keyed_digest`], and
    /// [`crate::Alignment`] for what digests do not hide.
    #[must_use]
    pub fn with_keyed_digests(self, secret: &[u8]) -> Self {
        Self { keys: self.keys.iter().map(|key| keyed_digest(secret, key)).collect(), ..self }
    }

    /// The rows of `keys`, in their order.
    pub(super) fn in_order_of(&self, keys: &[String]) -> Result<Self, DataError> {
        let rows = self.rows_of(keys)?;
        let take = |column: &Vec<f64>| rows.iter().map(|row| column[*row]).collect();
        Ok(Self {
            party: self.party.clone(),
            keys: keys.to_vec(),
            names: self.names.clone(),
            columns: self.columns.iter().map(take).collect(),
        })
    }

    /// The row, from 0, of each of `keys`: to order data other than columns of numbers.
    ///
    /// # Errors
    /// As [`PartyRows::aligned`].
    pub fn rows_of(&self, keys: &[String]) -> Result<Vec<usize>, DataError> {
        let places: BTreeMap<&String, usize> = self.keys.iter().zip(0..).collect();
        let mut unknown: Vec<String> = keys.iter().filter(|key| !places.contains_key(key)).cloned().collect();
        if unknown.is_empty() {
            return Ok(keys.iter().filter_map(|key| places.get(key).copied()).collect());
        }
        let count = unknown.len();
        unknown.truncate(LISTED);
        Err(DataError::UnknownKeys { party: self.party.clone(), count, keys: unknown })
    }

    /// The name of the party.
    #[must_use]
    pub fn party(&self) -> &str {
        &self.party
    }

    /// The key of each row.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The names of the columns, including those that mark missing cells.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.keys.len()
    }

    /// The column `name`.
    ///
    /// # Errors
    /// [`DataError::MissingColumns`] if there is none.
    pub fn column(&self, name: &str) -> Result<&[f64], DataError> {
        let place = self.names.iter().position(|known| known == name);
        place.map(|place| self.columns[place].as_slice()).ok_or_else(|| DataError::MissingColumns {
            file: format!("of party `{}`", self.party),
            missing: vec![name.into()],
            present: self.names.clone(),
        })
    }

    /// All columns as one matrix `[rows, columns]`, row by row.
    #[must_use]
    pub fn matrix(&self) -> Vec<f64> {
        (0..self.rows()).flat_map(|row| self.columns.iter().map(move |column| column[row])).collect()
    }
}

fn check_lengths(party: &str, rows: usize, columns: &[PartyColumn]) -> Result<(), DataError> {
    match columns.iter().find(|column| column.cells.len() != rows) {
        None => Ok(()),
        Some(column) => Err(DataError::Argument {
            operation: "taking the rows of a party",
            argument: "a column",
            found: format!("`{}` of party `{party}` with {} cells for {rows} keys", column.name, column.cells.len()),
            expected: "one cell for each key",
        }),
    }
}

/// Refuses cells that are missing without a declaration, and infinite ones.
fn check_cells(party: &str, columns: &[PartyColumn]) -> Result<(), DataError> {
    let (mut cells, mut count) = (Vec::new(), 0);
    for column in columns {
        for (row, cell) in (1..).zip(&column.cells) {
            let fine = cell.map_or(column.may_miss, f64::is_finite);
            if !fine {
                count += 1;
                if count <= LISTED {
                    let found = cell.map_or_else(|| "nothing".into(), |value| value.to_string());
                    cells.push(MissingCell { column: column.name.clone(), row, found });
                }
            }
        }
    }
    if count == 0 { Ok(()) } else { Err(DataError::MissingCells { party: party.into(), count, cells }) }
}
