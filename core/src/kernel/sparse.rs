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
/// The same for few outputs.
const NARROW: usize = 8;
/// Sums a row's entries go to in turn, so that one addition need not wait for the last.
const PARTS: usize = 4;

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

/// Runs `$call` with `$entries` as the type that reads them, over as few outputs at a time as there are.
macro_rules! passes {
    ($entries:expr, $outputs:expr, |$read:ident, $first:ident, $width:ident| $call:expr) => {
        for $first in (0..$outputs).step_by(WIDE) {
            match ($entries, $outputs - $first <= NARROW) {
                (SparseEntries::Plain { columns, values }, true) => {
                    const $width: usize = NARROW;
                    let $read = Plain(columns, values);
                    $call
                }
                (SparseEntries::Plain { columns, values }, false) => {
                    const $width: usize = WIDE;
                    let $read = Plain(columns, values);
                    $call
                }
                (SparseEntries::Coded { columns, codes, table }, true) => {
                    const $width: usize = NARROW;
                    let $read = Coded(columns, codes, table);
                    $call
                }
                (SparseEntries::Coded { columns, codes, table }, false) => {
                    const $width: usize = WIDE;
                    let $read = Coded(columns, codes, table);
                    $call
                }
            }
        }
    };
}

/// Numbers that begin where a cache line does, so that no load or store of a register touches two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Lanes<const W: usize>([f64; W]);

/// `W` numbers of a row of `outputs` numbers from `first` on, the missing ones zero.
#[inline(always)]
fn padded<const W: usize>(row: &[f64], first: usize) -> [f64; W] {
    let mut block = [0.0; W];
    for (slot, number) in block.iter_mut().zip(&row[first..]) {
        *slot = *number;
    }
    block
}

/// The rows of a row-major matrix of `outputs` columns, cut to the columns from `first` on.
#[inline(always)]
fn padded_rows<const W: usize>(matrix: &[f64], outputs: usize, first: usize) -> Vec<Lanes<W>> {
    matrix.chunks_exact(outputs).map(|row| Lanes(padded(row, first))).collect()
}

mod product {
    //! The product itself.
    use super::{Coded, NARROW, PARTS, Plain, Read, SparseEntries, WIDE, padded, padded_rows};

    dispatch! {
        /// The product of sparse rows with coefficients, plus an intercept for each output.
        ///
        /// ```math
        /// \eta_{rk} = b_k + \sum_c x_{rc}\thinspace w_{ck}
        /// ```
        /// with $x$ = `entries` (row $r$ has those from `starts[r]` up to `starts[r + 1]`), $w$ = `coefficients` and
        /// $b$ = `intercepts`, one for each output.
        ///
        /// # Shapes
        /// `coefficients`: columns × outputs, row-major; `eta`: rows × outputs, row-major.
        ///
        /// # Numerics
        /// Four running sums a number, each a chain of fused multiplications and additions; the libm loop has one and
        /// rounds products too. They agree to 1e-15 of $\sum_c |x_{rc} w_{ck}|$.
        ///
        /// # Panics
        /// If lengths disagree or an entry's column is beyond the coefficients: callers have checked them.
        sparse_product(
            starts: &[usize], entries: SparseEntries<'_>, coefficients: &[f64], intercepts: &[f64], eta: &mut [f64]
        ) -> ()
        where starts.last() == Some(&entries.len()) && eta.len() == (starts.len() - 1) * intercepts.len()
            && (intercepts.is_empty() || coefficients.len().is_multiple_of(intercepts.len()))
    }

    #[inline(always)]
    pub(super) fn vector(
        starts: &[usize],
        entries: SparseEntries<'_>,
        coefficients: &[f64],
        intercepts: &[f64],
        eta: &mut [f64],
    ) {
        passes!(entries, intercepts.len(), |read, first, W| {
            pass::<_, W>(starts, read, coefficients, (intercepts, first), eta)
        });
    }

    #[inline(always)]
    fn pass<E: Read, const W: usize>(
        starts: &[usize],
        entries: E,
        coefficients: &[f64],
        (intercepts, first): (&[f64], usize),
        eta: &mut [f64],
    ) {
        let outputs = intercepts.len();
        let coefficients = padded_rows::<W>(coefficients, outputs, first);
        let start: [f64; W] = padded(intercepts, first);
        for (bounds, out) in starts.windows(2).zip(eta.chunks_exact_mut(outputs)) {
            let row = entries.row(bounds[0], bounds[1]);
            let mut parts = [[0.0; W]; PARTS];
            parts[0] = start;
            let whole = row.len() - row.len() % PARTS;
            for from in (0..whole).step_by(PARTS) {
                for (offset, part) in parts.iter_mut().enumerate() {
                    let (column, value) = row.entry(from + offset);
                    let own = &coefficients[column].0;
                    for lane in 0..W {
                        part[lane] = value.mul_add(own[lane], part[lane]);
                    }
                }
            }
            for index in whole..row.len() {
                let (column, value) = row.entry(index);
                let own = &coefficients[column].0;
                for lane in 0..W {
                    parts[0][lane] = value.mul_add(own[lane], parts[0][lane]);
                }
            }
            let mut sum = [0.0; W];
            for lane in 0..W {
                sum[lane] = (parts[0][lane] + parts[1][lane]) + (parts[2][lane] + parts[3][lane]);
            }
            for (slot, number) in out[first..].iter_mut().zip(sum) {
                *slot = number;
            }
        }
    }

    pub(super) fn scalar(
        starts: &[usize],
        entries: SparseEntries<'_>,
        coefficients: &[f64],
        intercepts: &[f64],
        eta: &mut [f64],
    ) {
        let outputs = intercepts.len().max(1);
        for (bounds, out) in starts.windows(2).zip(eta.chunks_exact_mut(outputs)) {
            out.copy_from_slice(intercepts);
            for index in bounds[0]..bounds[1] {
                let (column, value) = entries.entry(index);
                for (slot, weight) in out.iter_mut().zip(&coefficients[column * outputs..]) {
                    *slot += value * weight;
                }
            }
        }
    }
}

mod transposed {
    //! The transposed product, which the backward pass needs.
    use super::{Coded, Lanes, NARROW, Plain, Read, SparseEntries, WIDE, padded};

    dispatch! {
        /// The transpose of sparse rows times a gradient: what the product's coefficients get in a backward pass.
        ///
        /// ```math
        /// s_{ck} = \sum_r x_{rc}\thinspace g_{rk}
        /// ```
        /// with $x$ = `entries`, $g$ = `gradient` and $s$ = `sums`, which is overwritten.
        ///
        /// # Shapes
        /// `gradient`: rows × `outputs`, row-major; `sums`: columns × `outputs`, row-major.
        ///
        /// # Numerics
        /// One running sum a number, in the order of the rows.
        ///
        /// # Panics
        /// If lengths disagree or an entry's column is beyond the sums: callers have checked them.
        sparse_transposed(
            starts: &[usize], entries: SparseEntries<'_>, gradient: &[f64], outputs: usize, sums: &mut [f64]
        ) -> ()
        where starts.last() == Some(&entries.len()) && gradient.len() == (starts.len() - 1) * outputs
            && (outputs == 0 || sums.len().is_multiple_of(outputs))
    }

    #[inline(always)]
    pub(super) fn vector(
        starts: &[usize],
        entries: SparseEntries<'_>,
        gradient: &[f64],
        outputs: usize,
        sums: &mut [f64],
    ) {
        passes!(entries, outputs, |read, first, W| pass::<_, W>(starts, read, gradient, (outputs, first), sums));
    }

    #[inline(always)]
    fn pass<E: Read, const W: usize>(
        starts: &[usize],
        entries: E,
        gradient: &[f64],
        (outputs, first): (usize, usize),
        sums: &mut [f64],
    ) {
        let mut by_column = vec![Lanes([0.0; W]); sums.len() / outputs];
        for (bounds, own) in starts.windows(2).zip(gradient.chunks_exact(outputs)) {
            let row = entries.row(bounds[0], bounds[1]);
            let own: [f64; W] = padded(own, first);
            for index in 0..row.len() {
                let (column, value) = row.entry(index);
                let slot = &mut by_column[column].0;
                for lane in 0..W {
                    slot[lane] = value.mul_add(own[lane], slot[lane]);
                }
            }
        }
        for (out, sum) in sums.chunks_exact_mut(outputs).zip(by_column) {
            for (slot, number) in out[first..].iter_mut().zip(sum.0) {
                *slot = number;
            }
        }
    }

    pub(super) fn scalar(
        starts: &[usize],
        entries: SparseEntries<'_>,
        gradient: &[f64],
        outputs: usize,
        sums: &mut [f64],
    ) {
        sums.fill(0.0);
        for (bounds, own) in starts.windows(2).zip(gradient.chunks_exact(outputs.max(1))) {
            for index in bounds[0]..bounds[1] {
                let (column, value) = entries.entry(index);
                for (slot, number) in sums[column * outputs..].iter_mut().zip(own) {
                    *slot += value * number;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{bits, scattered, vectorised};

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

    fn table() -> [f64; 256] {
        std::array::from_fn(|code| code as f64 / 85.0 - 1.0)
    }

    #[test]
    fn both_products_agree_with_libm_however_entries_are_stored() {
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
            if vectorised() {
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
    }

    #[test]
    fn a_nan_is_not_hidden() {
        let entries = SparseEntries::Plain { columns: &[0, 1], values: &[1.0, 0.0] };
        let mut eta = [0.0; 2];
        sparse_product(&[0, 1, 2], entries, &[1.0, f64::NAN], &[0.5], &mut eta);
        assert!((eta[0] - 1.5).abs() < 1e-15 && eta[1].is_nan());
    }
}
