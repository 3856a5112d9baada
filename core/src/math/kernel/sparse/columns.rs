//! Multiplies the transpose of sparse rows by a gradient, column after column, the sums of a column in registers.

use super::{Coded, Cut, Half, Lanes, NARROW, Outputs, Plain, Read, SparseEntries, Sums, TAIL, WIDE, sum_of_products};

/// The entries of some rows of a sparse matrix, column after column: of all columns, or of some that follow each other.
#[derive(Debug, Clone, Copy)]
pub struct SparseColumns<'a> {
    /// The number of rows.
    pub rows: usize,
    /// Where the entries of each column start, and the end of the last.
    pub starts: &'a [usize],
    /// The entries; what is called their column is their row, counted from the first of these rows.
    pub entries: SparseEntries<'a>,
}

impl SparseColumns<'_> {
    fn fits(&self, columns: usize) -> bool {
        self.starts.len() == columns + 1 && self.starts.last().is_some_and(|end| *end <= self.entries.len())
    }
}

dispatch! {
    /// The transpose of sparse rows times a gradient: what the product's coefficients get in a backward pass.
    ///
    /// ```math
    /// s_{ck} = \sum_r x_{rc}\thinspace g_{rk}
    /// ```
    /// with $x$ = `blocks`, rows after rows, $g$ = `gradient` and $s$ = `sums`, which is overwritten. A sum is stored
    /// once a block and not once an entry, as [`super::sparse_transposed`] must; the gradients of a block should fit
    /// the first-level cache.
    ///
    /// # Shapes
    /// `gradient`: rows × `outputs`, row-major; `sums`: columns × `outputs`, row-major.
    ///
    /// # Numerics
    /// As for [`super::sparse_product`], four running sums a number, joined after each block.
    ///
    /// # Panics
    /// If lengths disagree or an entry's row is beyond those of its block: callers have checked them.
    sparse_columns(blocks: &[SparseColumns<'_>], gradient: &[f64], outputs: usize, sums: &mut [f64]) -> ()
    where gradient.len() == blocks.iter().map(|block| block.rows).sum::<usize>() * outputs
        && (outputs == 0 || sums.len().is_multiple_of(outputs)
            && blocks.iter().all(|block| block.fits(sums.len() / outputs)));
    vector, scalar
}

#[inline(always)]
fn vector(blocks: &[SparseColumns<'_>], gradient: &[f64], outputs: usize, sums: &mut [f64]) {
    passes!(outputs, |first, W, T| pass::<W, T>(blocks, gradient, Outputs { all: outputs, first }, sums));
}

#[inline(always)]
fn pass<const W: usize, const T: usize>(
    blocks: &[SparseColumns<'_>],
    gradient: &[f64],
    outputs: Outputs,
    sums: &mut [f64],
) {
    let Outputs { all, first } = outputs;
    let mut running = vec![(Lanes([0.0; W]), Half([0.0; T])); sums.len() / all];
    let mut rest = gradient;
    for block in blocks {
        let (own, others) = rest.split_at(block.rows * all);
        rest = others;
        let own = Cut::<W, T>::of(own, outputs);
        reading!(block.entries, |read| {
            for (bounds, sum) in block.starts.windows(2).zip(&mut running) {
                let start = Sums { wide: sum.0.0, tail: sum.1.0 };
                let Sums { wide, tail } = sum_of_products(read.row(bounds[0], bounds[1]), &own, start);
                *sum = (Lanes(wide), Half(tail));
            }
        });
    }
    for (out, (sum, tail)) in sums.chunks_exact_mut(all).zip(&running) {
        for (slot, number) in out[first..].iter_mut().zip(sum.0.iter().chain(&tail.0)) {
            *slot = *number;
        }
    }
}

fn scalar(blocks: &[SparseColumns<'_>], gradient: &[f64], outputs: usize, sums: &mut [f64]) {
    sums.fill(0.0);
    let mut rest = gradient;
    for block in blocks {
        let (own, others) = rest.split_at(block.rows * outputs);
        rest = others;
        for (bounds, out) in block.starts.windows(2).zip(sums.chunks_exact_mut(outputs.max(1))) {
            for index in bounds[0]..bounds[1] {
                let (row, value) = block.entries.entry(index);
                for (slot, number) in out.iter_mut().zip(&own[row * outputs..]) {
                    *slot += value * number;
                }
            }
        }
    }
}
