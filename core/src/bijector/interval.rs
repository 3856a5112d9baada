//! Maps real numbers onto an open interval by a scaled logistic function, for probabilities and bounded settings.

use super::{Bijector, outside};
use crate::distribution::Term;
use crate::error::{Error, Result};
use crate::math::special::{sigmoid, softplus};

/// The map $x = a + (b - a)\thinspace \sigma(u)$, elementwise, onto the open interval $(a, b)$ = (`low`, `high`).
///
/// $$ \log|\det J| = \sum_i \log(b - a) - \log(1 + e^{u_i}) - \log(1 + e^{-u_i}) $$
///
/// # Numerics
/// Measured from the nearer end, and never rounded onto an end. The log-determinant stays exact in the tails, where x
/// itself has too few digits to determine u.
///
/// # Example
/// ```
/// use partita_core::{Bijector, IntervalMap};
/// let mut x = [0.0];
/// let log_det = IntervalMap::new(-1.0, 3.0)?.forward(&[0.0], &mut x);
/// assert_eq!(x, [1.0]);
/// assert!(log_det.abs() < 1e-15); // the slope is 4 · ½ · ½
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Stan Reference Manual, "Lower and upper bounded scalar".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalMap {
    low: f64,
    high: f64,
}

impl IntervalMap {
    /// The map onto the open interval from `low` to `high`.
    ///
    /// # Errors
    /// [`Error::Argument`] unless both are finite and `low` is below `high`.
    pub fn new(low: f64, high: f64) -> Result<Self> {
        if !(low < high && (high - low).is_finite()) {
            let expected = "two finite numbers, the lower one first";
            return Err(Error::argument("map onto an interval", "interval", format_args!("({low}, {high})"), expected));
        }
        Ok(Self { low, high })
    }

    fn width(self) -> f64 {
        self.high - self.low
    }
}

impl Bijector for IntervalMap {
    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        let (width, mut log_det) = (self.width(), 0.0);
        for (x, u) in constrained.iter_mut().zip(unconstrained) {
            let inside = if *u < 0.0 { self.low + width * sigmoid(*u) } else { self.high - width * sigmoid(-u) };
            *x = if inside <= self.low {
                self.low.next_up()
            } else if inside >= self.high {
                self.high.next_down()
            } else {
                inside
            };
            log_det += width.ln() - softplus(*u) - softplus(-u);
        }
        log_det
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        for (index, (x, u)) in constrained.iter().zip(unconstrained).enumerate() {
            if !(*x > self.low && *x < self.high) {
                let support = format!("the open interval ({}, {})", self.low, self.high);
                return Err(outside("interval map", &support, index, *x));
            }
            *u = (x - self.low).ln() - (self.high - x).ln();
        }
        Ok(())
    }

    fn vjp(&self, unconstrained: &[f64], _: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]) {
        for ((out, u), g) in out.iter_mut().zip(unconstrained).zip(gradient) {
            // The derivative of −log(1 + eᵘ) − log(1 + e⁻ᵘ) is σ(−u) − σ(u) = −tanh(u/2).
            *out = self.width() * sigmoid(*u) * sigmoid(-u) * g - weight * (0.5 * u).tanh();
        }
    }

    fn on_device(&self, unconstrained: Term) -> Option<(Term, Vec<Term>)> {
        let slope = unconstrained.clone().log_sigmoid() + (-unconstrained.clone()).log_sigmoid() + self.width().ln();
        Some((unconstrained.sigmoid() * self.width() + self.low, vec![slope]))
    }
}
