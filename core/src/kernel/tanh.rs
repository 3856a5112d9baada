//! Replaces numbers by their hyperbolic tangents in place, and multiplies gradients by its derivative.

pub use derivative::tanh_derivative;
pub use value::tanh;

mod value {
    //! The function.
    use crate::kernel::block::{BLOCK, Padded};
    use crate::kernel::polynomial::exp_below_zero;

    dispatch! {
        /// Replaces every number $x$ by $\tanh x$.
        ///
        /// # Numerics
        /// $(1 - t) / (1 + t)$ with $t = e^{-2|x|}$ and the sign of $x$: odd to the last bit, exact at both ends, and within
        /// 4e-16 of the true value everywhere, which near zero is an absolute error and not a relative one.
        tanh(x: &mut [f64]) -> ()
        where true
    }

    #[inline(always)]
    fn one(x: f64) -> f64 {
        let t = exp_below_zero(-2.0 * x.abs());
        ((1.0 - t) / (1.0 + t)).copysign(x)
    }

    #[inline(always)]
    pub(super) fn vector(x: &mut [f64]) {
        let (blocks, rest) = x.as_chunks_mut::<BLOCK>();
        for block in blocks {
            for number in block {
                *number = one(*number);
            }
        }
        if !rest.is_empty() {
            let block = Padded.load(rest, 0).map(one);
            Padded.store(rest, 0, &block);
        }
    }

    pub(super) fn scalar(x: &mut [f64]) {
        for number in x {
            let t = (-2.0 * number.abs()).exp();
            *number = ((1.0 - t) / (1.0 + t)).copysign(*number);
        }
    }
}

mod derivative {
    //! Its derivative.

    dispatch! {
        /// Multiplies every number of `gradient` by $1 - t^2$, the derivative where the function is $t$ = `tanh`.
        ///
        /// # Panics
        /// If the lengths disagree: callers have checked them.
        tanh_derivative(gradient: &mut [f64], tanh: &[f64]) -> ()
        where gradient.len() == tanh.len()
    }

    #[inline(always)]
    fn vector(gradient: &mut [f64], tanh: &[f64]) {
        for (slot, t) in gradient.iter_mut().zip(tanh) {
            *slot *= 1.0 - t * t;
        }
    }

    fn scalar(gradient: &mut [f64], tanh: &[f64]) {
        vector(gradient, tanh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{LENGTHS, bits, scattered, vectorised};

    #[test]
    fn the_vector_loop_agrees_with_libm() {
        for length in LENGTHS {
            let mut found = scattered(length, -20.0, 20.0);
            let expected: Vec<f64> = found.iter().map(|x| x.tanh()).collect();
            let mut plain = found.clone();
            tanh(&mut found);
            value::scalar(&mut plain);
            for values in [&found, &plain] {
                let error = values.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(error <= 4e-16, "{length}: {error:e}");
            }
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        if !vectorised() {
            return;
        }
        let (mut wide, mut narrow) = (scattered(2141, -30.0, 30.0), scattered(2141, -30.0, 30.0));
        tanh(&mut wide);
        value::vector(&mut narrow);
        assert_eq!(bits(&wide), bits(&narrow));
    }

    #[test]
    fn the_ends_are_exact_and_a_nan_is_not_hidden() {
        let mut x = [f64::NEG_INFINITY, -800.0, 800.0, f64::INFINITY, f64::NAN];
        tanh(&mut x);
        assert_eq!(x[..4], [-1.0, -1.0, 1.0, 1.0]);
        assert!(x[4].is_nan());
    }

    #[test]
    fn gradients_are_multiplied_by_the_derivative() {
        let (mut gradient, mut t) = (vec![2.0; 37], scattered(37, -2.0, 2.0));
        tanh(&mut t);
        tanh_derivative(&mut gradient, &t);
        assert!(gradient.iter().zip(&t).all(|(found, t)| (found - 2.0 * (1.0 - t * t)).abs() < 1e-15));
    }
}
