//! Multiplies and adds long vectors: the dot product and the scaled sum that a Gaussian family is made of.

use super::block::{BLOCK, Lane, sum_blocks, total};

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
    /// The dot product of numbers in single precision, in single precision.
    ///
    /// # Numerics
    /// Sixteen running sums, with the same bits on every machine. The rounding error is below 1e-5 of $\sum_i|a_i b_i|$ at
    /// 2,048: callers add up parts of long vectors in double precision.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    dot_single(a: &[f32], b: &[f32]) -> f32
    where a.len() == b.len();
    product_single, product_single
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
    scaled_sum::<f64>, scaled_sum::<f64>
}

dispatch! {
    /// [`add_scaled`] of numbers in single precision.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    add_scaled_single(sum: &mut [f32], factor: f32, x: &[f32]) -> ()
    where sum.len() == x.len();
    scaled_sum::<f32>, scaled_sum::<f32>
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

/// One block is one register of AVX-512: in the loop of `product` LLVM would split it.
#[inline(always)]
fn product_single(a: &[f32], b: &[f32]) -> f32 {
    let ((a, rest_of_a), (b, rest_of_b)) = (a.as_chunks::<BLOCK>(), b.as_chunks::<BLOCK>());
    let mut lanes = [0.0; BLOCK];
    for (a, b) in a.iter().zip(b) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(rest_of_a).zip(rest_of_b) {
        *lane += a * b;
    }
    total(&lanes)
}

#[inline(always)]
pub(super) fn scaled_sum<F: Lane>(sum: &mut [F], factor: F, x: &[F]) {
    for (slot, x) in sum.iter_mut().zip(x) {
        *slot += factor * *x;
    }
}
