//! Maps real vectors onto increasing ones, for cutpoints and for mixture components that must not swap.

use super::{Bijector, outside};
use crate::error::Result;

/// The map onto strictly increasing vectors: the first number as it is, then steps $e^{u_i}$ upwards.
///
/// $$ x_1 = u_1, \qquad x_i = x_{i-1} + e^{u_i}, \qquad \log|\det J| = \sum_{i > 1} u_i $$
///
/// # Numerics
/// A step too small to be seen next to $x_{i-1}$ is raised to the next representable number, so that x stays strictly
/// increasing; its u cannot be recovered.
///
/// # Example
/// ```
/// use partita_core::{Bijector, OrderedMap};
/// let mut cutpoints = [0.0; 3];
/// let log_det = OrderedMap.forward(&[-1.0, 0.0, 2.0_f64.ln()], &mut cutpoints);
/// assert_eq!(cutpoints, [-1.0, 0.0, 2.0]);
/// assert_eq!(log_det, 2.0_f64.ln());
/// ```
///
/// # References
/// Stan Reference Manual, "Ordered vector".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderedMap;

impl Bijector for OrderedMap {
    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        let (mut previous, mut log_det) = (f64::NEG_INFINITY, 0.0);
        for (index, (x, u)) in constrained.iter_mut().zip(unconstrained).enumerate() {
            if index == 0 {
                *x = *u;
            } else {
                let next = previous + u.exp();
                *x = if next <= previous { previous.next_up() } else { next };
                log_det += u;
            }
            previous = *x;
        }
        log_det
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        let mut previous = f64::NEG_INFINITY;
        for (index, (x, u)) in constrained.iter().zip(unconstrained).enumerate() {
            if !(*x > previous && x.is_finite()) {
                return Err(outside("ordered map", "strictly increasing vectors", index, *x));
            }
            *u = if index == 0 { *x } else { (x - previous).ln() };
            previous = *x;
        }
        Ok(())
    }

    fn vjp(&self, unconstrained: &[f64], _: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]) {
        // A step moves every later number along, so its gradient is the sum of theirs.
        let mut later = 0.0;
        for (index, ((out, u), g)) in out.iter_mut().zip(unconstrained).zip(gradient).enumerate().rev() {
            later += g;
            *out = if index == 0 { later } else { later * u.exp() + weight };
        }
    }
}
