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
