//! Stores the entries of a sparse matrix in as little memory as they need without losing a digit.

use std::collections::HashMap;

use crate::kernel::SparseEntries;

/// Rows of entries: row r has those from `starts[r]` up to `starts[r + 1]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entries {
    pub(super) starts: Vec<usize>,
    stored: Stored,
}

#[derive(Debug, Clone, PartialEq)]
enum Stored {
    Plain { columns: Vec<u32>, values: Vec<f64> },
    Coded { columns: Vec<u16>, codes: Vec<u8>, table: Box<[f64; 256]> },
}

impl Entries {
    /// Chooses how to store entries that are sorted by column within each row.
    pub(super) fn new(starts: Vec<usize>, columns: Vec<u32>, values: Vec<f64>) -> Self {
        let stored = match coded(&columns, &values) {
            Some(stored) => stored,
            None => Stored::Plain { columns, values },
        };
        Self { starts, stored }
    }

    /// What kernels read.
    pub(super) fn view(&self) -> SparseEntries<'_> {
        match &self.stored {
            Stored::Plain { columns, values } => SparseEntries::Plain { columns, values },
            Stored::Coded { columns, codes, table } => SparseEntries::Coded { columns, codes, table },
        }
    }

    /// These rows, in this order; the caller has checked that they exist.
    pub(super) fn select(&self, rows: &[usize]) -> Self {
        let bounds = || rows.iter().map(|row| self.starts[*row]..self.starts[row + 1]);
        let mut starts = Vec::with_capacity(rows.len() + 1);
        starts.push(0);
        let mut count = 0;
        starts.extend(bounds().map(|row| {
            count += row.len();
            count
        }));
        let stored = match &self.stored {
            Stored::Plain { columns, values } => {
                Stored::Plain { columns: gather(columns, bounds(), count), values: gather(values, bounds(), count) }
            }
            Stored::Coded { columns, codes, table } => Stored::Coded {
                columns: gather(columns, bounds(), count),
                codes: gather(codes, bounds(), count),
                table: table.clone(),
            },
        };
        Self { starts, stored }
    }
}

fn gather<T: Copy>(all: &[T], rows: impl Iterator<Item = std::ops::Range<usize>>, count: usize) -> Vec<T> {
    let mut chosen = Vec::with_capacity(count);
    rows.for_each(|row| chosen.extend_from_slice(&all[row]));
    chosen
}

/// Columns in sixteen bits and values as places in a table, or `None` where they are too many.
fn coded(columns: &[u32], values: &[f64]) -> Option<Stored> {
    let columns = columns.iter().map(|column| u16::try_from(*column).ok()).collect::<Option<Vec<_>>>()?;
    let mut table = Box::new([0.0; 256]);
    let mut known = HashMap::new();
    let mut codes = Vec::with_capacity(values.len());
    for value in values {
        let code = match known.get(&value.to_bits()) {
            Some(code) => *code,
            None => {
                let code = u8::try_from(known.len()).ok()?;
                table[usize::from(code)] = *value;
                known.insert(value.to_bits(), code);
                code
            }
        };
        codes.push(code);
    }
    Some(Stored::Coded { columns, codes, table })
}
