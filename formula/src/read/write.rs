//! Writes the columns of a silo as a CSV file, with other values in some of them.

use super::Columns;
use super::columns::Column;

impl Columns {
    /// The columns as comma-separated values with a header, with these cells in place of those of the columns that are named;
    /// rows with missing cells are those that were left out already.
    ///
    /// # Example
    /// ```
    /// use partita_formula::{Formula, Frame, MissingCells, ReadOptions};
    /// let frame = Frame::from_bytes("north.csv", b"age;dose;site\n7;1,5;a\n9;2,25;b, c\n", ReadOptions::default())?;
    /// let columns = frame.columns("north", &[&Formula::parse("age ~ dose + site")?], MissingCells::Refuse)?;
    /// let text = columns.csv_with(&[("age", vec!["8".to_owned(), "3".to_owned()])]);
    /// assert_eq!(text, "age,dose,site\n8,1.5,a\n3,2.25,\"b, c\"\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn csv_with(&self, changed: &[(&str, Vec<String>)]) -> String {
        let names: Vec<String> = self.columns.keys().map(|own| quoted(own)).collect();
        let row = |row: usize| {
            let cell = |(name, own): (&String, &Column)| {
                let other = changed.iter().find(|(changed, _)| changed == name);
                quoted(&other.map_or_else(|| cell(own, row), |(_, cells)| cells[row].clone()))
            };
            self.columns.iter().map(cell).collect::<Vec<_>>().join(",")
        };
        let lines = std::iter::once(names.join(",")).chain((0..self.rows()).map(row));
        lines.map(|line| line + "\n").collect()
    }

    /// The cells of a column as they are written; none of a column that the formulas do not need.
    ///
    /// # Example
    /// ```
    /// use partita_formula::{Formula, Frame, MissingCells, ReadOptions};
    /// let frame = Frame::from_bytes("north.csv", b"age,site\n7,a\n9,b\n", ReadOptions::default())?;
    /// let columns = frame.columns("north", &[&Formula::parse("age ~ site")?], MissingCells::Refuse)?;
    /// assert_eq!(columns.cells("site"), ["a", "b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cells(&self, name: &str) -> Vec<String> {
        let own = self.columns.get(name);
        own.map(|own| (0..self.rows()).map(|row| cell(own, row)).collect()).unwrap_or_default()
    }
}

fn cell(column: &Column, row: usize) -> String {
    match &column.factor {
        Some(factor) if column.numbers.is_empty() => factor.levels[factor.codes[row]].clone(),
        _ => column.numbers[row].to_string(),
    }
}

/// A field of comma-separated values.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
