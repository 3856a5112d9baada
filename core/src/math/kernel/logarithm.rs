//! Replaces numbers by their natural logarithms in place, as ratios of variances in a divergence.

use super::block::map_blocks;
use super::polynomial::log;

dispatch! {
    /// Replaces every number $x$ by $\log x$.
    ///
    /// # Numerics
    /// At most two units in the last place from libm; minus infinity at zero, not a number below.
    logarithm(x: &mut [f64]) -> ()
    where true;
    vector, scalar
}

#[inline(always)]
fn vector(x: &mut [f64]) {
    map_blocks!(x, log);
}

fn scalar(x: &mut [f64]) {
    for number in x {
        *number = number.ln();
    }
}
