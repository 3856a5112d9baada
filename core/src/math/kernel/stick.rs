//! Prepares a stick-breaking map: shifts its unconstrained numbers and takes their softplus in one pass.

use super::block::BLOCK;
use super::polynomial::{exp_below_zero, log, log1p_of_unit};
use crate::math::special;

dispatch! {
    /// Writes $a_i = u_i - \log(n - i)$ for $i = 0, 1, \dots, n-1$ and $\log(1 + e^{a_i})$.
    ///
    /// # Shapes
    /// `unconstrained` $u$, `shifted` $a$ and `softplus`: `n`.
    ///
    /// # Numerics
    /// Against the libm loop: 1e-15 of the larger of the number and one; the same bits under every vector instruction
    /// set.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    stick(unconstrained: &[f64], shifted: &mut [f64], softplus: &mut [f64]) -> ()
    where [shifted.len(), softplus.len()] == [unconstrained.len(); 2];
    vector, scalar
}

#[inline(always)]
fn vector(unconstrained: &[f64], shifted: &mut [f64], softplus: &mut [f64]) {
    let count = unconstrained.len() as f64;
    let parts = unconstrained.chunks(BLOCK).zip(shifted.chunks_mut(BLOCK)).zip(softplus.chunks_mut(BLOCK));
    let mut first = 0.0;
    for ((own, shifted), softplus) in parts {
        let (mut a, mut s) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (slot, u) in a.iter_mut().zip(own) {
            *slot = *u;
        }
        for (lane, a) in a.iter_mut().enumerate() {
            // Behind the last piece the number is no longer positive; what it gives is not stored.
            *a -= log(count - first - lane as f64);
        }
        for (s, a) in s.iter_mut().zip(a) {
            *s = a.max(0.0) + log1p_of_unit(exp_below_zero(-a.abs()));
            // The maximum of a NaN and zero is zero.
            *s += 0.0 * a;
        }
        for ((slot, a), (out, s)) in shifted.iter_mut().zip(a).zip(softplus.iter_mut().zip(s)) {
            (*slot, *out) = (a, s);
        }
        first += BLOCK as f64;
    }
}

fn scalar(unconstrained: &[f64], shifted: &mut [f64], softplus: &mut [f64]) {
    let count = unconstrained.len();
    for (i, ((u, a), s)) in unconstrained.iter().zip(shifted).zip(softplus).enumerate() {
        *a = u - ((count - i) as f64).ln();
        *s = special::softplus(*a);
    }
}
