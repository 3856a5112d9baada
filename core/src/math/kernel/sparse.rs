//! Multiplies sparse rows by a few columns of coefficients, and the transpose by gradients, a row's sums in registers.

/// The entries of a sparse matrix, row after row: columns and values.
#[derive(Debug, Clone, Copy)]
pub enum SparseEntries<'a> {
    /// Any columns and values.
    Plain {
        /// The column of each entry.
        columns: &'a [u32],
        /// Its value.
        values: &'a [f64],
    },
    /// At most 65,536 columns and 256 different values: a quarter of the memory to read.
    Coded {
        /// The column of each entry.
        columns: &'a [u16],
        /// Where its value stands in the table.
        codes: &'a [u8],
        /// The values.
        table: &'a [f64; 256],
    },
}

impl SparseEntries<'_> {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Plain { values, .. } => values.len(),
            Self::Coded { codes, .. } => codes.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column and the value of an entry.
    ///
    /// # Panics
    /// If there is no such entry.
    #[must_use]
    #[inline]
    pub fn entry(&self, index: usize) -> (usize, f64) {
        match self {
            Self::Plain { columns, values } => Plain(columns, values).entry(index),
            Self::Coded { columns, codes, table } => Coded(columns, codes, table).entry(index),
        }
    }
}

/// Outputs computed in one pass over the entries: two AVX-512 registers.
const WIDE: usize = 16;
/// The same for few outputs: one register.
const NARROW: usize = 8;
/// What a narrow pass has room for beside its register, in half a register more.
const TAIL: usize = 4;
/// Sums a row's entries go to in turn, so that one addition need not wait for the last.
const PARTS: usize = 4;

pub use columns::{SparseColumns, sparse_columns};
pub use product::sparse_product;
pub use transposed::sparse_transposed;

/// Reads entries without a branch in the loop: one type for each way to store them.
trait Read: Copy {
    /// The entries from `from` up to `to`.
    fn row(self, from: usize, to: usize) -> Self;
    fn len(self) -> usize;
    /// The column and the value of an entry.
    fn entry(self, index: usize) -> (usize, f64);
}

#[derive(Clone, Copy)]
struct Plain<'a>(&'a [u32], &'a [f64]);

impl Read for Plain<'_> {
    #[inline(always)]
    fn row(self, from: usize, to: usize) -> Self {
        Self(&self.0[from..to], &self.1[from..to])
    }

    #[inline(always)]
    fn len(self) -> usize {
        self.0.len().min(self.1.len())
    }

    #[inline(always)]
    fn entry(self, index: usize) -> (usize, f64) {
        (self.0[index] as usize, self.1[index])
    }
}

#[derive(Clone, Copy)]
struct Coded<'a>(&'a [u16], &'a [u8], &'a [f64; 256]);

impl Read for Coded<'_> {
    #[inline(always)]
    fn row(self, from: usize, to: usize) -> Self {
        Self(&self.0[from..to], &self.1[from..to], self.2)
    }

    #[inline(always)]
    fn len(self) -> usize {
        self.0.len().min(self.1.len())
    }

    #[inline(always)]
    fn entry(self, index: usize) -> (usize, f64) {
        (usize::from(self.0[index]), self.2[usize::from(self.1[index])])
    }
}

/// Runs `$call` with `$entries` as the type that reads them.
macro_rules! reading {
    ($entries:expr, |$read:ident| $call:expr) => {
        match $entries {
            SparseEntries::Plain { columns, values } => {
                let $read = Plain(columns, values);
                $call
            }
            SparseEntries::Coded { columns, codes, table } => {
                let $read = Coded(columns, codes, table);
                $call
            }
        }
    };
}

/// Runs `$call` over as few outputs at a time as there are: `$width` of them from `$first` on, and `$tail` more.
macro_rules! passes {
    ($outputs:expr, |$first:ident, $width:ident, $tail:ident| $call:expr) => {
        for $first in (0..$outputs).step_by(WIDE) {
            if $outputs - $first <= NARROW {
                const $width: usize = NARROW;
                const $tail: usize = 0;
                $call
            } else if $outputs - $first <= NARROW + TAIL {
                const $width: usize = NARROW;
                const $tail: usize = TAIL;
                $call
            } else {
                const $width: usize = WIDE;
                const $tail: usize = 0;
                $call
            }
        }
    };
}

/// Numbers that begin where a cache line does, so that no load or store of a register touches two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Lanes<const W: usize>([f64; W]);

/// The same for half a line.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Half<const T: usize>([f64; T]);

/// `W` numbers of a row from `first` on, the missing ones zero.
#[inline(always)]
fn padded<const W: usize>(row: &[f64], first: usize) -> [f64; W] {
    let mut block = [0.0; W];
    for (slot, number) in block.iter_mut().zip(row.get(first..).unwrap_or(&[])) {
        *slot = *number;
    }
    block
}

/// Which outputs a pass is over: `W` and `T` more from `first` on, of `all`.
#[derive(Clone, Copy)]
struct Outputs {
    all: usize,
    first: usize,
}

/// One number for each output of a pass.
#[derive(Clone, Copy)]
struct Sums<const W: usize, const T: usize> {
    wide: [f64; W],
    tail: [f64; T],
}

/// The rows of a matrix, cut to the outputs of a pass.
struct Cut<const W: usize, const T: usize> {
    wide: Vec<Lanes<W>>,
    tails: Vec<Half<T>>,
}

impl<const W: usize, const T: usize> Cut<W, T> {
    /// Of a row-major matrix with one column for each output.
    #[inline(always)]
    fn of(matrix: &[f64], outputs: Outputs) -> Self {
        let rows = matrix.chunks_exact(outputs.all);
        let cut = |row: &[f64]| (Lanes(padded(row, outputs.first)), Half(padded(row, outputs.first + W)));
        let (wide, tails) = rows.map(cut).unzip();
        Self { wide, tails }
    }
}

/// `start` plus the sum over the entries of a row of the value times the coefficients of the column.
#[inline(always)]
fn sum_of_products<E: Read, const W: usize, const T: usize>(
    row: E,
    coefficients: &Cut<W, T>,
    start: Sums<W, T>,
) -> Sums<W, T> {
    let lanes = coefficients.wide.as_slice();
    let tails = &coefficients.tails[..lanes.len()];
    let mut parts = [Sums { wide: [0.0; W], tail: [0.0; T] }; PARTS];
    parts[0] = start;
    let whole = row.len() - row.len() % PARTS;
    for from in (0..whole).step_by(PARTS) {
        for (offset, part) in parts.iter_mut().enumerate() {
            let (column, value) = row.entry(from + offset);
            add_product(part, value, &lanes[column], &tails[column]);
        }
    }
    for index in whole..row.len() {
        let (column, value) = row.entry(index);
        add_product(&mut parts[0], value, &lanes[column], &tails[column]);
    }
    let [mut sum, b, c, d] = parts;
    for lane in 0..W {
        sum.wide[lane] = (sum.wide[lane] + b.wide[lane]) + (c.wide[lane] + d.wide[lane]);
    }
    for lane in 0..T {
        sum.tail[lane] = (sum.tail[lane] + b.tail[lane]) + (c.tail[lane] + d.tail[lane]);
    }
    sum
}

/// Adds the value of an entry times the coefficients of its column.
#[inline(always)]
fn add_product<const W: usize, const T: usize>(sum: &mut Sums<W, T>, value: f64, wide: &Lanes<W>, tail: &Half<T>) {
    for (sum, own) in sum.wide.iter_mut().zip(&wide.0) {
        *sum = value.mul_add(*own, *sum);
    }
    for (sum, own) in sum.tail.iter_mut().zip(&tail.0) {
        *sum = value.mul_add(*own, *sum);
    }
}

mod columns;
mod product;
mod transposed;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::{bits, scattered, vectorised};

    // Sixty products of size at most 6: their rounding errors, and those of the sums.
    const TOLERANCE: f64 = 1e-13;

    /// Row starts, columns and codes of a matrix of 40 columns, with an empty row.
    fn matrix(rows: usize) -> (Vec<usize>, Vec<u16>, Vec<u8>) {
        let (mut starts, mut columns, mut codes) = (vec![0], Vec::new(), Vec::new());
        for row in 0..rows {
            let chosen = (0..40_u16).filter(|column| row != 3 && (usize::from(*column) * 7 + row * 5) % 11 < 4);
            columns.extend(chosen);
            starts.push(columns.len());
        }
        codes.extend((0..columns.len()).map(|index| (index * 37 % 251) as u8));
        (starts, columns, codes)
    }

    /// Some rows of the matrix, column after column: their number, column starts, rows and codes.
    fn by_column(
        starts: &[usize],
        columns: &[u16],
        codes: &[u8],
        rows: std::ops::Range<usize>,
    ) -> (usize, Vec<usize>, Vec<u16>, Vec<u8>) {
        let (mut ends, mut places, mut kept) = (vec![0], Vec::new(), Vec::new());
        for column in 0..40 {
            for (place, row) in (0..).zip(rows.clone()) {
                let entry = (starts[row]..starts[row + 1]).find(|index| columns[*index] == column);
                places.extend(entry.map(|_| place));
                kept.extend(entry.map(|index| codes[index]));
            }
            ends.push(places.len());
        }
        (rows.len(), ends, places, kept)
    }

    fn table() -> [f64; 256] {
        std::array::from_fn(|code| code as f64 / 85.0 - 1.0)
    }

    #[test]
    fn all_products_agree_with_libm_however_entries_are_stored() {
        let (starts, columns, codes) = matrix(29);
        let table = table();
        let (wide, values): (Vec<u32>, Vec<f64>) =
            columns.iter().zip(&codes).map(|(column, code)| (u32::from(*column), table[usize::from(*code)])).unzip();
        let coded = SparseEntries::Coded { columns: &columns, codes: &codes, table: &table };
        let plain = SparseEntries::Plain { columns: &wide, values: &values };
        for outputs in [1, 3, 8, 10, 16, 17, 37] {
            let (weights, start) = (scattered(40 * outputs, -2.0, 3.0), scattered(outputs, -1.0, 1.0));
            let mut eta = [vec![0.0; 29 * outputs], vec![0.0; 29 * outputs], vec![0.0; 29 * outputs]];
            sparse_product(&starts, coded, &weights, &start, &mut eta[0]);
            sparse_product(&starts, plain, &weights, &start, &mut eta[1]);
            product::scalar(&starts, plain, &weights, &start, &mut eta[2]);
            assert_eq!(bits(&eta[0]), bits(&eta[1]));
            assert!(eta[0].iter().zip(&eta[2]).all(|(a, b)| (a - b).abs() < TOLERANCE), "{outputs} outputs");
            let mut sums = [vec![7.0; 40 * outputs], vec![7.0; 40 * outputs], vec![7.0; 40 * outputs]];
            sparse_transposed(&starts, coded, &eta[2], outputs, &mut sums[0]);
            sparse_transposed(&starts, plain, &eta[2], outputs, &mut sums[1]);
            transposed::scalar(&starts, plain, &eta[2], outputs, &mut sums[2]);
            assert_eq!(bits(&sums[0]), bits(&sums[1]));
            assert!(sums[0].iter().zip(&sums[2]).all(|(a, b)| (a - b).abs() < 10.0 * TOLERANCE), "{outputs} outputs");
            // The same rows in two blocks, column after column.
            let blocks = [by_column(&starts, &columns, &codes, 0..13), by_column(&starts, &columns, &codes, 13..29)];
            let blocks = blocks.each_ref().map(|(rows, starts, places, codes)| SparseColumns {
                rows: *rows,
                starts,
                entries: SparseEntries::Coded { columns: places, codes, table: &table },
            });
            let mut by_column = [vec![7.0; 40 * outputs], vec![7.0; 40 * outputs]];
            sparse_columns(&blocks, &eta[2], outputs, &mut by_column[0]);
            columns::scalar(&blocks, &eta[2], outputs, &mut by_column[1]);
            for found in &by_column {
                assert!(found.iter().zip(&sums[2]).all(|(a, b)| (a - b).abs() < 10.0 * TOLERANCE), "{outputs} outputs");
            }
            if vectorised() {
                columns::vector(&blocks, &eta[2], outputs, &mut by_column[1]);
                assert_eq!(bits(&by_column[0]), bits(&by_column[1]));
                product::vector(&starts, coded, &weights, &start, &mut eta[2]);
                transposed::vector(&starts, coded, &eta[1], outputs, &mut sums[1]);
                sparse_transposed(&starts, coded, &eta[1], outputs, &mut sums[0]);
                assert_eq!((bits(&eta[0]), bits(&sums[0])), (bits(&eta[2]), bits(&sums[1])));
            }
        }
    }

    #[test]
    fn no_rows_and_no_outputs_are_no_work() {
        let entries = SparseEntries::Plain { columns: &[], values: &[] };
        sparse_product(&[0], entries, &[1.0, 2.0], &[0.0], &mut []);
        sparse_product(&[0, 0], entries, &[], &[], &mut []);
        let mut sums = [1.0, 2.0];
        sparse_transposed(&[0], entries, &[], 1, &mut sums);
        assert_eq!(bits(&sums), bits(&[0.0, 0.0]));
        sums.fill(1.0);
        sparse_columns(&[], &[], 1, &mut sums);
        assert_eq!(bits(&sums), bits(&[0.0, 0.0]));
        sparse_columns(&[SparseColumns { rows: 1, starts: &[0], entries }], &[], 0, &mut []);
    }

    #[test]
    fn a_nan_is_not_hidden() {
        let entries = SparseEntries::Plain { columns: &[0, 1], values: &[1.0, 0.0] };
        let mut eta = [0.0; 2];
        sparse_product(&[0, 1, 2], entries, &[1.0, f64::NAN], &[0.5], &mut eta);
        assert!((eta[0] - 1.5).abs() < 1e-15 && eta[1].is_nan());
    }
}
