//! Keeps the entries of a sparse matrix by column as well, for the products of backward passes.

use std::ops::Range;
use std::sync::OnceLock;

use super::entries::Entries;
use crate::math::kernel::{SparseColumns, SparseEntries};

/// Rows whose gradients stay in the first-level cache during a pass over the columns: 24 kB with twelve outputs.
const ROWS: usize = 256;

/// The entries of a matrix by column, made when first asked for.
#[derive(Debug)]
pub(super) enum ByColumn {
    /// Made and kept.
    Kept(OnceLock<Vec<Block>>),
    /// Never made: the matrix serves one evaluation.
    Never,
}

impl Default for ByColumn {
    fn default() -> Self {
        Self::Kept(OnceLock::new())
    }
}

/// The copy by column is a cache and does not take part in equality.
impl PartialEq for ByColumn {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The entries of at most [`ROWS`] rows.
#[derive(Debug)]
pub(super) struct Block {
    rows: usize,
    starts: Vec<usize>,
    entries: Kept,
}

#[derive(Debug)]
enum Kept {
    Plain(Vec<u32>, Vec<f64>),
    Coded(Vec<u16>, Vec<u8>),
}

impl ByColumn {
    /// The view of some of the columns that kernels read, if the copy is kept.
    pub(super) fn view<'a>(
        &'a self,
        entries: &'a Entries,
        columns: usize,
        own: Range<usize>,
    ) -> Option<Vec<SparseColumns<'a>>> {
        let Self::Kept(kept) = self else { return None };
        let rows = entries.starts.len() - 1;
        let make = || (0..rows).step_by(ROWS).map(|first| Block::new(entries, columns, first, rows)).collect();
        let view = |block: &'a Block| {
            let kept = match (&block.entries, entries.table()) {
                (Kept::Coded(columns, codes), Some(table)) => SparseEntries::Coded { columns, codes, table },
                (Kept::Plain(columns, values), _) => SparseEntries::Plain { columns, values },
                (Kept::Coded(..), None) => unreachable!("invariant: codes are of a table"),
            };
            SparseColumns { rows: block.rows, starts: &block.starts[own.start..=own.end], entries: kept }
        };
        Some(kept.get_or_init(make).iter().map(view).collect())
    }
}

impl Block {
    /// The entries of the rows from `first` on, of a matrix of `rows` rows.
    fn new(entries: &Entries, columns: usize, first: usize, rows: usize) -> Self {
        let last = (first + ROWS).min(rows);
        let own = entries.starts[first]..entries.starts[last];
        let mut starts = vec![0; columns + 1];
        entries.columns[own.clone()].iter().for_each(|column| starts[*column as usize + 1] += 1);
        for column in 0..columns {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        // The row of each entry, counted from the first, and its position among all entries.
        let mut order = vec![(0, 0); own.len()];
        for (row, bounds) in (0_u16..).zip(entries.starts[first..=last].windows(2)) {
            for index in bounds[0]..bounds[1] {
                let slot = &mut next[entries.columns[index] as usize];
                order[*slot] = (row, index);
                *slot += 1;
            }
        }
        let kept = match entries.codes() {
            Some(codes) => {
                let (rows, codes) = order.iter().map(|(row, index)| (*row, codes[*index])).unzip();
                Kept::Coded(rows, codes)
            }
            None => {
                let (rows, values) = order.iter().map(|(row, index)| (u32::from(*row), entries.values[*index])).unzip();
                Kept::Plain(rows, values)
            }
        };
        Self { rows: last - first, starts, entries: kept }
    }
}
