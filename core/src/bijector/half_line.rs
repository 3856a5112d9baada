//! Maps real numbers onto the numbers above or below one number, for truncated latents.

use super::{Bijector, outside};
use crate::distribution::Term;
use crate::error::{Error, Result};

/// The map $x = a + e^u$ onto the numbers above $a$, or $x = b - e^u$ onto those below $b$, elementwise.
///
/// $$ \log|\det J| = \sum_i u_i $$
///
/// # Numerics
/// Never rounded onto the end. The log-determinant stays exact close to it, where x has too few digits to determine u.
///
/// # Example
/// ```
/// use partita_core::{Bijector, HalfLineMap};
/// let mut x = [0.0];
/// assert_eq!(HalfLineMap::below(3.0)?.forward(&[0.0], &mut x), 0.0);
/// assert_eq!(x, [2.0]);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Stan Reference Manual, "Lower bounded scalar" and "Upper bounded scalar".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HalfLineMap {
    end: f64,
    /// 1 above the end, -1 below it.
    sign: f64,
}

impl HalfLineMap {
    /// The map onto the numbers above `end`.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `end` is finite.
    pub fn above(end: f64) -> Result<Self> {
        Self { end, sign: 1.0 }.checked()
    }

    /// The map onto the numbers below `end`.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `end` is finite.
    pub fn below(end: f64) -> Result<Self> {
        Self { end, sign: -1.0 }.checked()
    }

    fn checked(self) -> Result<Self> {
        if self.end.is_finite() {
            return Ok(self);
        }
        let (operation, found) = ("map onto a half-line".into(), self.end.to_string());
        Err(Error::Argument { operation, argument: "end", found, expected: "a finite number" })
    }
}

impl Bijector for HalfLineMap {
    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        let mut log_det = 0.0;
        for (x, u) in constrained.iter_mut().zip(unconstrained) {
            let inside = self.end + self.sign * u.exp();
            *x = if self.sign > 0.0 { inside.max(self.end.next_up()) } else { inside.min(self.end.next_down()) };
            log_det += u;
        }
        log_det
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        for (index, (x, u)) in constrained.iter().zip(unconstrained).enumerate() {
            let distance = self.sign * (x - self.end);
            if !(distance > 0.0 && distance.is_finite()) {
                let side = if self.sign > 0.0 { ">" } else { "<" };
                return Err(outside("half-line map", &format!("numbers {side} {}", self.end), index, *x));
            }
            *u = distance.ln();
        }
        Ok(())
    }

    fn vjp(&self, unconstrained: &[f64], _: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]) {
        for ((out, u), g) in out.iter_mut().zip(unconstrained).zip(gradient) {
            *out = self.sign * u.exp() * g + weight;
        }
    }

    fn on_device(&self, unconstrained: Term) -> Option<(Term, Vec<Term>)> {
        Some((unconstrained.clone().exp() * self.sign + self.end, vec![unconstrained]))
    }
}
