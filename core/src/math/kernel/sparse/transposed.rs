//! Multiplies the transpose of sparse rows by a gradient, row after row.

use super::{Coded, Half, Lanes, NARROW, Outputs, Plain, Read, SparseEntries, TAIL, WIDE, padded};

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
        && (outputs == 0 || sums.len().is_multiple_of(outputs));
    vector, scalar
}

#[inline(always)]
fn vector(starts: &[usize], entries: SparseEntries<'_>, gradient: &[f64], outputs: usize, sums: &mut [f64]) {
    passes!(outputs, |first, W, T| {
        reading!(entries, |read| pass::<_, W, T>(starts, read, gradient, Outputs { all: outputs, first }, sums))
    });
}

#[inline(always)]
fn pass<E: Read, const W: usize, const T: usize>(
    starts: &[usize],
    entries: E,
    gradient: &[f64],
    outputs: Outputs,
    sums: &mut [f64],
) {
    let Outputs { all, first } = outputs;
    let columns = sums.len() / all;
    let (mut lanes, mut tails) = (vec![Lanes([0.0; W]); columns], vec![Half([0.0; T]); columns]);
    let (lanes, tails) = (lanes.as_mut_slice(), &mut tails[..columns]);
    for (bounds, own) in starts.windows(2).zip(gradient.chunks_exact(all)) {
        let row = entries.row(bounds[0], bounds[1]);
        let (own, rest): ([f64; W], [f64; T]) = (padded(own, first), padded(own, first + W));
        for index in 0..row.len() {
            let (column, value) = row.entry(index);
            let (slot, tail) = (&mut lanes[column].0, &mut tails[column].0);
            for lane in 0..W {
                slot[lane] = value.mul_add(own[lane], slot[lane]);
            }
            for lane in 0..T {
                tail[lane] = value.mul_add(rest[lane], tail[lane]);
            }
        }
    }
    for (out, (sum, tail)) in sums.chunks_exact_mut(all).zip(lanes.iter().zip(tails)) {
        for (slot, number) in out[first..].iter_mut().zip(sum.0.iter().chain(&tail.0)) {
            *slot = *number;
        }
    }
}

fn scalar(starts: &[usize], entries: SparseEntries<'_>, gradient: &[f64], outputs: usize, sums: &mut [f64]) {
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
