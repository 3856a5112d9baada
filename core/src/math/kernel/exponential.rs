//! Replaces numbers by their exponentials in place, as the log-scales of a family by its scales.

use super::block::map_blocks;
use super::polynomial::exp;

dispatch! {
    /// Replaces every number $x$ by $e^x$.
    ///
    /// # Numerics
    /// At most one unit in the last place from libm (2.3e-16 relative), subnormal results included; infinite above
    /// 709.78, zero below -745.1.
    exponential(x: &mut [f64]) -> ()
    where true;
    vector, scalar
}

#[inline(always)]
fn vector(x: &mut [f64]) {
    map_blocks!(x, exp);
}

fn scalar(x: &mut [f64]) {
    for number in x {
        *number = number.exp();
    }
}
