//! Multiplies and adds long vectors: the dot product and the scaled sum that a Gaussian family is made of.

pub use product::dot;
pub use scaled::add_scaled;

mod product {
    //! Sums products in sixteen running parts, which a plain loop may not, because that changes the rounding.
    use crate::math::kernel::block::sum_blocks;

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
        where a.len() == b.len()
    }

    #[inline(always)]
    pub(super) fn vector(a: &[f64], b: &[f64]) -> f64 {
        sum_blocks!(a.len(), |io, start| {
            let (mut terms, other) = (io.load(a, start), io.load(b, start));
            for (term, other) in terms.iter_mut().zip(other) {
                *term *= other;
            }
            terms
        })
    }

    pub(super) fn scalar(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }
}

mod scaled {
    //! Adds a multiple of one vector to another.

    dispatch! {
        /// Adds `factor` times `x` to `sum`, number by number.
        ///
        /// # Numerics
        /// One rounding of the product and one of the sum; the same bits on every machine.
        ///
        /// # Panics
        /// If the lengths disagree: callers have checked them.
        add_scaled(sum: &mut [f64], factor: f64, x: &[f64]) -> ()
        where sum.len() == x.len()
    }

    #[inline(always)]
    pub(super) fn vector(sum: &mut [f64], factor: f64, x: &[f64]) {
        for (slot, x) in sum.iter_mut().zip(x) {
            *slot += factor * x;
        }
    }

    pub(super) fn scalar(sum: &mut [f64], factor: f64, x: &[f64]) {
        vector(sum, factor, x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::{LENGTHS, bits, scattered, vectorised};

    #[test]
    fn dot_products_agree_with_a_plain_sum() {
        for length in LENGTHS {
            let (a, b) = (scattered(length, -3.0, 2.0), scattered(length, -1.0, 4.0));
            let size: f64 = a.iter().zip(&b).map(|(a, b)| (a * b).abs()).sum();
            let (found, expected) = (dot(&a, &b), product::scalar(&a, &b));
            assert!((found - expected).abs() <= 1e-15 * size, "{length}: {found} {expected}");
            assert!(!vectorised() || found.to_bits() == product::vector(&a, &b).to_bits());
        }
    }

    #[test]
    fn scaled_sums_are_those_of_a_plain_loop() {
        for length in LENGTHS {
            let x = scattered(length, -3.0, 2.0);
            let (mut found, mut expected) = (scattered(length, -1.0, 4.0), scattered(length, -1.0, 4.0));
            add_scaled(&mut found, 0.7, &x);
            scaled::scalar(&mut expected, 0.7, &x);
            assert_eq!(bits(&found), bits(&expected));
        }
    }

    #[test]
    fn a_nan_is_not_hidden() {
        let (mut sum, mut x) = (vec![0.0; 20], vec![1.0; 20]);
        x[17] = f64::NAN;
        add_scaled(&mut sum, 0.0, &x);
        assert!(sum[17].is_nan() && sum[16].is_finite() && dot(&sum, &[0.0; 20]).is_nan());
    }
}
