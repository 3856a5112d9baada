//! Stores the entries of a sparse matrix, with a copy in a quarter of the memory if that copy is exact.

use std::collections::HashMap;

use crate::math::kernel::SparseEntries;

/// Rows of entries: row r has those from `starts[r]` up to `starts[r + 1]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entries {
    pub(super) starts: Vec<usize>,
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<f64>,
    /// The same entries for products, which are bound by memory rather than arithmetic.
    coded: Option<Coded>,
}

/// Columns in sixteen bits, and values as indices into a table.
#[derive(Debug, Clone, PartialEq)]
struct Coded {
    columns: Vec<u16>,
    codes: Vec<u8>,
    table: Box<[f64; 256]>,
}

impl Entries {
    /// Entries sorted by column within each row.
    pub(super) fn new(starts: Vec<usize>, columns: Vec<u32>, values: Vec<f64>) -> Self {
        let coded = Coded::new(&columns, &values);
        Self { starts, columns, values, coded }
    }

    /// The view that kernels read.
    pub(super) fn view(&self) -> SparseEntries<'_> {
        match &self.coded {
            Some(Coded { columns, codes, table }) => SparseEntries::Coded { columns, codes, table },
            None => SparseEntries::Plain { columns: &self.columns, values: &self.values },
        }
    }

    /// The indices of values in the table, if there are few different values.
    pub(super) fn codes(&self) -> Option<&[u8]> {
        self.coded.as_ref().map(|coded| coded.codes.as_slice())
    }

    /// The different values, if there are few.
    pub(super) fn table(&self) -> Option<&[f64; 256]> {
        self.coded.as_ref().map(|coded| &*coded.table)
    }

    /// These rows, in this order; the caller has checked that they exist.
    pub(super) fn select(&self, rows: &[usize]) -> Self {
        let mut starts = Vec::with_capacity(rows.len() + 1);
        starts.push(0);
        let mut count = 0;
        for row in rows {
            count += self.starts[row + 1] - self.starts[*row];
            starts.push(count);
        }
        let coded = self.coded.as_ref().map(|coded| Coded {
            columns: self.gather(&coded.columns, rows, count),
            codes: self.gather(&coded.codes, rows, count),
            table: coded.table.clone(),
        });
        let (columns, values) = (self.gather(&self.columns, rows, count), self.gather(&self.values, rows, count));
        Self { starts, columns, values, coded }
    }

    /// Adds the entries of a row.
    pub(super) fn note(&self, row: usize, noted: &mut Vec<u64>) {
        let own = self.starts[row]..self.starts[row + 1];
        let entries = self.columns[own.clone()].iter().zip(&self.values[own]);
        entries.for_each(|(column, value)| noted.extend([u64::from(*column), value.to_bits()]));
    }

    fn gather<T: Copy>(&self, all: &[T], rows: &[usize], count: usize) -> Vec<T> {
        let mut chosen = Vec::with_capacity(count);
        rows.iter().for_each(|row| chosen.extend_from_slice(&all[self.starts[*row]..self.starts[row + 1]]));
        chosen
    }
}

impl Coded {
    /// `None` for too many columns or different values.
    fn new(columns: &[u32], values: &[f64]) -> Option<Self> {
        let columns = columns.iter().map(|column| u16::try_from(*column).ok()).collect::<Option<Vec<_>>>()?;
        let mut table = Box::new([0.0; 256]);
        let mut known = HashMap::new();
        let mut codes = Vec::with_capacity(values.len());
        for value in values {
            let next = known.len();
            let code = *known.entry(value.to_bits()).or_insert(next);
            let code = u8::try_from(code).ok()?;
            table[usize::from(code)] = *value;
            codes.push(code);
        }
        Some(Self { columns, codes, table })
    }
}
