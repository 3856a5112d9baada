//! Writes the columns of a silo as a CSV file, with other values in one of them.

use super::Columns;

impl Columns {
    /// The columns as comma-separated values with a header, with `cells` in place of those of the column `name`; rows with
    /// missing cells are those that were left out already.
    ///
    /// # Example
    /// ```
    /// use partita_formula::{Formula, Frame, MissingCells, ReadOptions};
    /// let frame = Frame::from_bytes("north.csv", b"age;dose;site\n7;1,5;a\n9;2,25;b, c\n", ReadOptions::default())?;
    /// let columns = frame.columns("north", &[&Formula::parse("age ~ dose + site")?], MissingCells::Refuse)?;
    /// let text = columns.csv_with("age", &["8".to_owned(), "3".to_owned()]);
    /// assert_eq!(text, "age,dose,site\n8,1.5,a\n3,2.25,\"b, c\"\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn csv_with(&self, name: &str, cells: &[String]) -> String {
        let names: Vec<String> = self.columns.keys().map(|own| quoted(own)).collect();
        let row = |row: usize| {
            let cell = |(column, own): (&String, &super::columns::Column)| match &own.factor {
                _ if column == name => quoted(&cells[row]),
                Some(factor) if own.numbers.is_empty() => quoted(&factor.levels[factor.codes[row]]),
                _ => own.numbers[row].to_string(),
            };
            self.columns.iter().map(cell).collect::<Vec<_>>().join(",")
        };
        let lines = std::iter::once(names.join(",")).chain((0..self.rows()).map(row));
        lines.map(|line| line + "\n").collect()
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
