//! Names every way in which reading or splitting data can fail, with the file, the row and what to try.

use std::fmt::Display;

/// The most bad cells or rows that a message lists; it counts the others.
pub(super) const LISTED: usize = 20;

/// A cell of a table that is not what its column was asked to hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {row} (line {line}), column `{column}`: {found:?}")]
pub struct BadCell {
    /// The data row, from 1; the header does not count.
    pub row: usize,
    /// The line of the file, from 1, where that row starts.
    pub line: u64,
    /// The name of the column.
    pub column: String,
    /// The text found there.
    pub found: String,
}

/// A key that occurs more than once among the rows of a party.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` in rows {rows:?}")]
pub struct RepeatedKey {
    /// The key.
    pub key: String,
    /// Its rows, from 1.
    pub rows: Vec<usize>,
}

/// A cell of a party's rows that holds no finite number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column `{column}`, row {row}: {found}")]
pub struct MissingCell {
    /// The name of the column.
    pub column: String,
    /// The row, from 1.
    pub row: usize,
    /// The content found.
    pub found: String,
}

/// The error of reading, aligning or splitting data.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file could not be opened, or is not text in UTF-8.
    #[error("reading {file}: {reason}. Check the path and that the file is a CSV in UTF-8.")]
    Unreadable {
        /// The file, as named by the caller.
        file: String,
        /// The operating system's or the parser's own words.
        reason: String,
    },
    /// The file has no header or no rows.
    #[error(
        "reading {file}: found {found}, expected a line of column names and at least one row. Check the export that wrote the file."
    )]
    Empty {
        /// The file.
        file: String,
        /// The content found, in words.
        found: &'static str,
    },
    /// Two columns have one name.
    #[error(
        "reading {file}: column name `{column}` occurs twice, as columns {} and {}, expected names that differ. Rename one of them in the first line.",
        places[0], places[1]
    )]
    DuplicateColumn {
        /// The file.
        file: String,
        /// The name.
        column: String,
        /// The places of the first two columns of that name, from 1.
        places: [usize; 2],
    },
    /// Rows with more or fewer cells than the header.
    #[error(
        "reading {file}: {}, expected {expected} as in the first line. Put a cell that has the character between columns in quotes, or complete a line that was cut.",
        ragged(rows, *count)
    )]
    RaggedRows {
        /// The file.
        file: String,
        /// The number of columns.
        expected: usize,
        /// The number of ragged rows.
        count: usize,
        /// The first of them: the line and the number of cells.
        rows: Vec<(u64, usize)>,
    },
    /// Columns that the table does not have.
    #[error(
        "table {file}: no column {}. It has: {}. Check the spelling; names are compared exactly.",
        quoted(missing),
        quoted(present)
    )]
    MissingColumns {
        /// The file.
        file: String,
        /// The columns asked for and not found.
        missing: Vec<String>,
        /// The columns of the table.
        present: Vec<String>,
    },
    /// Cells that are not finite numbers.
    #[error("table {file}: {count} cells are not finite numbers: {}. Correct, remove or impute them before fitting; Partita never skips rows silently.", listed(cells, *count))]
    BadCells {
        /// The file.
        file: String,
        /// The number of bad cells.
        count: usize,
        /// The first of them.
        cells: Vec<BadCell>,
    },
    /// A row of a party has no key.
    #[error(
        "rows of party `{party}`: row {row} has an empty key, expected one that names the row. Leave the row out or look its key up."
    )]
    MissingKey {
        /// The party.
        party: String,
        /// The row, from 1.
        row: usize,
    },
    /// Keys occur more than once among the rows of a party.
    #[error("rows of party `{party}`: {count} keys occur more than once: {}. Keep one row for each key; Partita does not choose one.", listed(keys, *count))]
    RepeatedKeys {
        /// The party.
        party: String,
        /// The number of these keys.
        count: usize,
        /// The first of them, in ascending order, with their rows.
        keys: Vec<RepeatedKey>,
    },
    /// No key is held by all parties.
    #[error(
        "aligning rows by key: no key is held by all parties, expected at least one; they have {}. Check that all write keys alike, and digest them with the same secret or none.",
        rows_of(parties)
    )]
    NoSharedKey {
        /// Each party with its number of rows.
        parties: Vec<(String, usize)>,
    },
    /// An alignment has keys that a party lacks.
    #[error("rows of party `{party}`: {count} keys of the alignment are not there: {}. Use the alignment that was made with the keys of these rows.", quoted(keys) + &more(keys.len(), *count))]
    UnknownKeys {
        /// The party.
        party: String,
        /// The number of keys it lacks.
        count: usize,
        /// The first of them.
        keys: Vec<String>,
    },
    /// Cells of a party are missing in columns that did not declare it, or are infinite.
    #[error("rows of party `{party}`: {count} cells are not finite numbers: {}. Correct them, or write `None` for a missing cell of a column that may have some (`PartyColumn::with_missing`).", listed(cells, *count))]
    MissingCells {
        /// The party.
        party: String,
        /// The number of these cells.
        count: usize,
        /// The first of them.
        cells: Vec<MissingCell>,
    },
    /// A silo would get no rows.
    #[error("{operation}: silo {silo} of {silos} gets none of the {rows} rows, expected at least one each. {remedy}")]
    EmptySilo {
        /// The way of splitting.
        operation: &'static str,
        /// The silo, from 0.
        silo: usize,
        /// The number of silos.
        silos: usize,
        /// The number of rows, or of groups where groups are split.
        rows: usize,
        /// The remedy.
        remedy: &'static str,
    },
    /// There is less of something than a way of splitting needs.
    #[error("{operation}: found {found} {what}, expected at least {expected}. {remedy}")]
    Shortage {
        /// The way of splitting.
        operation: &'static str,
        /// The quantity that is too small.
        what: &'static str,
        /// The number found.
        found: usize,
        /// The number needed.
        expected: usize,
        /// The remedy.
        remedy: &'static str,
    },
    /// The sizes of silos do not add to the number of rows.
    #[error(
        "splitting rows by given sizes: the sizes {sizes:?} add to {sum}, expected {rows}, one for each row. Change a size; no row is dropped silently."
    )]
    SizesDoNotAdd {
        /// The sizes.
        sizes: Vec<usize>,
        /// Their sum.
        sum: usize,
        /// The number of rows.
        rows: usize,
    },
    /// The key or the index of a row, or of a group, says no group.
    #[error("grouping rows by key: row {row} of the {list} has {found:?}, expected {expected}.")]
    GroupKey {
        /// The list: the rows, or the groups.
        list: &'static str,
        /// The row of that list, from 1.
        row: usize,
        /// The key or the index found.
        found: String,
        /// The key expected, and the remedy.
        expected: &'static str,
    },
    /// A group has no rows.
    #[error(
        "grouping rows: group {group} (`{label}`) has no rows: none of the {rows} rows is of it, expected at least one for each of {groups} groups. Leave the group out, or allow such groups with `Groups::with_empty` or `Groups::by_key_or_empty`."
    )]
    EmptyGroup {
        /// The group, from 0.
        group: usize,
        /// Its key.
        label: String,
        /// The number of groups.
        groups: usize,
        /// The number of rows.
        rows: usize,
    },
    /// An argument is out of its domain.
    #[error("{operation}: {argument} is {found}, expected {expected}.")]
    Argument {
        /// The operation.
        operation: &'static str,
        /// The argument.
        argument: &'static str,
        /// The value found.
        found: String,
        /// The value expected.
        expected: &'static str,
    },
}

impl DataError {
    /// Refuses two columns of one name.
    pub(super) fn check_names(file: &str, names: &[String]) -> Result<(), Self> {
        let twice = |second: usize| {
            let first = names[..second].iter().position(|own| *own == names[second])?;
            let places = [first + 1, second + 1];
            Some(Self::DuplicateColumn { file: file.into(), column: names[second].clone(), places })
        };
        (0..names.len()).find_map(twice).map_or(Ok(()), Err)
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn rows_of(parties: &[(String, usize)]) -> String {
    parties.iter().map(|(party, rows)| format!("`{party}` {rows} rows")).collect::<Vec<_>>().join(", ")
}

fn listed(cells: &[impl Display], count: usize) -> String {
    let text = cells.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    text + &more(cells.len(), count)
}

fn ragged(rows: &[(u64, usize)], count: usize) -> String {
    let cells = |count: &usize| if *count == 1 { "1 cell".into() } else { format!("{count} cells") };
    let each = rows.iter().map(|(line, count)| format!("line {line} has {}", cells(count)));
    each.collect::<Vec<_>>().join("; ") + &more(rows.len(), count)
}

fn more(shown: usize, count: usize) -> String {
    if count > shown { format!("; and {} more", count - shown) } else { String::new() }
}
