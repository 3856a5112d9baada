//! Replaces numbers by their exponentials in place, as the log-scales of a family by its scales.

use super::block::{BLOCK, Padded};
use super::polynomial::exp;

dispatch! {
    /// Replaces every number $x$ by $e^x$.
    ///
    /// # Numerics
    /// At most one unit in the last place from libm (2.3e-16 relative), subnormal results included; infinite above
    /// 709.78, zero below -745.1.
    exponential(x: &mut [f64]) -> ()
    where true
}

#[inline(always)]
fn vector(x: &mut [f64]) {
    let (blocks, rest) = x.as_chunks_mut::<BLOCK>();
    for block in blocks {
        for number in block {
            *number = exp(*number);
        }
    }
    if !rest.is_empty() {
        let block = Padded.load(rest, 0).map(exp);
        Padded.store(rest, 0, &block);
    }
}

fn scalar(x: &mut [f64]) {
    for number in x {
        *number = number.exp();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::{LENGTHS, bits, scattered, vectorised, worst};

    #[test]
    fn the_vector_loop_agrees_with_libm() {
        for length in LENGTHS {
            let (mut found, mut expected) = (scattered(length, -40.0, 40.0), scattered(length, -40.0, 40.0));
            exponential(&mut found);
            scalar(&mut expected);
            assert!(worst(&found, &expected, 0.0) <= f64::EPSILON, "{length}");
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        if !vectorised() {
            return;
        }
        let (mut wide, mut narrow) = (scattered(2141, -700.0, 700.0), scattered(2141, -700.0, 700.0));
        exponential(&mut wide);
        vector(&mut narrow);
        assert_eq!(bits(&wide), bits(&narrow));
    }

    #[test]
    fn the_ends_are_those_of_libm() {
        let mut x = [f64::NEG_INFINITY, -746.0, 0.0, 710.0, f64::INFINITY, f64::NAN];
        exponential(&mut x);
        assert_eq!(bits(&x[..5]), bits(&[0.0, 0.0, 1.0, f64::INFINITY, f64::INFINITY]));
        assert!(x[5].is_nan());
    }
}
