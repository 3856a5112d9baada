//! Multiplies and adds long vectors: the dot product and the scaled sum that a Gaussian family is made of.

use super::block::sum_blocks;

dispatch! {
    /// The dot product $\sum_i a_i b_i$.
    ///
    /// # Numerics
    /// Sixteen running sums, so that the rounding error grows with $n/16$: below 1e-15 of $\sum_i|a_i b_i|$ at
    /// 2,144.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    dot(a: &[f64], b: &[f64]) -> f64
    where a.len() == b.len();
    product, plain_product
}

dispatch! {
    /// Adds `factor` times `x` to `sum`, number by number.
    ///
    /// # Numerics
    /// One rounding of the product and one of the sum; the same bits on every machine.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    add_scaled(sum: &mut [f64], factor: f64, x: &[f64]) -> ()
    where sum.len() == x.len();
    scaled_sum, scaled_sum
}

/// Sums products in sixteen running parts, which a plain loop may not, because that changes the rounding.
#[inline(always)]
pub(super) fn product(a: &[f64], b: &[f64]) -> f64 {
    sum_blocks!(a.len(), |io, start| {
        let (mut terms, other) = (io.load(a, start), io.load(b, start));
        for (term, other) in terms.iter_mut().zip(other) {
            *term *= other;
        }
        terms
    })
}

fn plain_product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[inline(always)]
pub(super) fn scaled_sum(sum: &mut [f64], factor: f64, x: &[f64]) {
    for (slot, x) in sum.iter_mut().zip(x) {
        *slot += factor * x;
    }
}
