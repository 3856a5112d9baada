//! Prints rows of text and numbers in aligned columns: text to the left, numbers to the right.

use std::fmt;

/// A table with a header; the first column and columns of text are aligned left, the others right.
#[derive(Debug, Clone)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this header.
    #[must_use]
    pub fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned).to_vec()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let long = |column: usize| {
            let cells = self.rows.iter().filter_map(move |row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(long).collect();
        let is_words = |column: usize| {
            let mut cells = self.rows[1..].iter().filter_map(|row| row.get(column));
            column == 0 || cells.all(|cell| cell.starts_with(char::is_alphabetic))
        };
        let words: Vec<bool> = (0..columns).map(is_words).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let (width, gap) = (*width, if column == 0 { "" } else { "  " });
                line += &match words[column] {
                    true => format!("{gap}{cell:<width$}"),
                    false => format!("{gap}{cell:>width$}"),
                };
            }
            writeln!(formatter, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
