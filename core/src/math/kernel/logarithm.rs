//! Replaces numbers by their natural logarithms in place, as ratios of variances in a divergence.

use super::block::{BLOCK, Padded};
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
    let (blocks, rest) = x.as_chunks_mut::<BLOCK>();
    for block in blocks {
        for number in block {
            *number = log(*number);
        }
    }
    if !rest.is_empty() {
        let block = Padded.load(rest, 0).map(log);
        Padded.store(rest, 0, &block);
    }
}

fn scalar(x: &mut [f64]) {
    for number in x {
        *number = number.ln();
    }
}
