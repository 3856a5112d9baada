//! Multiplies sparse rows by a few columns of coefficients, a row's sums in registers.

use super::{Coded, Cut, NARROW, Outputs, Plain, Read, SparseEntries, Sums, TAIL, WIDE, padded, sum_of_products};

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
    where starts.last().is_some_and(|end| *end <= entries.len()) && eta.len() == (starts.len() - 1) * intercepts.len()
        && (intercepts.is_empty() || coefficients.len().is_multiple_of(intercepts.len()));
    vector, scalar
}

#[inline(always)]
fn vector(starts: &[usize], entries: SparseEntries<'_>, coefficients: &[f64], intercepts: &[f64], eta: &mut [f64]) {
    passes!(intercepts.len(), |first, W, T| {
        reading!(entries, |read| pass::<_, W, T>(
            starts,
            read,
            coefficients,
            Intercepts { all: intercepts, first },
            eta
        ))
    });
}

/// The intercepts of all outputs, of which a pass is over those from `first` on.
#[derive(Clone, Copy)]
struct Intercepts<'a> {
    all: &'a [f64],
    first: usize,
}

#[inline(always)]
fn pass<E: Read, const W: usize, const T: usize>(
    starts: &[usize],
    entries: E,
    coefficients: &[f64],
    intercepts: Intercepts<'_>,
    eta: &mut [f64],
) {
    let Intercepts { all, first } = intercepts;
    let coefficients = Cut::<W, T>::of(coefficients, Outputs { all: all.len(), first });
    let start = Sums { wide: padded(all, first), tail: padded(all, first + W) };
    for (bounds, out) in starts.windows(2).zip(eta.chunks_exact_mut(all.len())) {
        let Sums { wide, tail } = sum_of_products(entries.row(bounds[0], bounds[1]), &coefficients, start);
        for (slot, number) in out[first..].iter_mut().zip(wide.into_iter().chain(tail)) {
            *slot = number;
        }
    }
}

fn scalar(starts: &[usize], entries: SparseEntries<'_>, coefficients: &[f64], intercepts: &[f64], eta: &mut [f64]) {
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
