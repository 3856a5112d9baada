//! Maps real vectors onto increasing vectors of positive numbers, for ordered scales and rates.

use super::{Bijector, above_zero, outside};
use crate::error::Result;

/// The map onto strictly increasing vectors of numbers above zero: steps $e^{u_i}$ upwards from zero.
///
/// $$ x_i = x_{i-1} + e^{u_i},\quad x_0 = 0, \qquad \log|\det J| = \sum_i u_i $$
///
/// # Numerics
/// As for [`OrderedMap`](super::OrderedMap): an invisible step is raised to the next representable number.
///
/// # Example
/// ```
/// use partita_core::{Bijector, PositiveOrderedMap};
/// let mut rates = [0.0; 2];
/// let log_det = PositiveOrderedMap.forward(&[0.0, 2.0_f64.ln()], &mut rates);
/// assert_eq!((rates, log_det), ([1.0, 3.0], 2.0_f64.ln()));
/// ```
///
/// # References
/// Stan Reference Manual, "Positive ordered vector".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositiveOrderedMap;

impl Bijector for PositiveOrderedMap {
    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        let (mut previous, mut log_det) = (0.0_f64, 0.0);
        for (x, u) in constrained.iter_mut().zip(unconstrained) {
            let next = previous + above_zero(u.exp());
            *x = if next <= previous { previous.next_up() } else { next };
            log_det += u;
            previous = *x;
        }
        log_det
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        let mut previous = 0.0;
        for (index, (x, u)) in constrained.iter().zip(unconstrained).enumerate() {
            if !(*x > previous && x.is_finite()) {
                return Err(outside("positive ordered map", "strictly increasing vectors of numbers > 0", index, *x));
            }
            *u = (x - previous).ln();
            previous = *x;
        }
        Ok(())
    }

    fn vjp(&self, unconstrained: &[f64], _: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]) {
        let mut later = 0.0;
        for ((out, u), g) in out.iter_mut().zip(unconstrained).zip(gradient).rev() {
            later += g;
            *out = later * u.exp() + weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_equal_numbers_are_refused() {
        assert!(PositiveOrderedMap.inverse(&[0.0, 1.0], &mut [0.0; 2]).is_err());
        assert!(PositiveOrderedMap.inverse(&[1.0, 1.0], &mut [0.0; 2]).is_err());
    }
}
