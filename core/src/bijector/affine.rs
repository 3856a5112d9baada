//! Shifts and scales real numbers, so that an unconstrained latent can start at the location of its prior.

use super::{Bijector, outside};
use crate::error::{Error, Result};

/// The map $x = c + s\thinspace u$, elementwise, with $c$ = `shift` and $s$ = `scale` ≠ 0.
///
/// $$ \log|\det J| = n \log|s| $$ for an event of $n$ numbers.
///
/// # Example
/// ```
/// use partita_core::{AffineMap, Bijector};
/// let mut x = [0.0; 2];
/// let log_det = AffineMap::new(10.0, -2.0)?.forward(&[1.0, 3.0], &mut x);
/// assert_eq!(x, [8.0, 4.0]);
/// assert!((log_det - 4.0_f64.ln()).abs() < 1e-15);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AffineMap {
    shift: f64,
    scale: f64,
}

impl AffineMap {
    /// The map that multiplies by `scale` and adds `shift`.
    ///
    /// # Errors
    /// [`Error::Argument`] if either is not finite or `scale` is zero.
    pub fn new(shift: f64, scale: f64) -> Result<Self> {
        let refuse = |argument, found: f64, expected| {
            Err(Error::Argument { operation: "affine map".into(), argument, found: found.to_string(), expected })
        };
        if !shift.is_finite() {
            return refuse("shift", shift, "a finite number");
        }
        if !(scale.abs() > 0.0 && scale.is_finite()) {
            return refuse("scale", scale, "a finite number other than zero");
        }
        Ok(Self { shift, scale })
    }
}

impl Bijector for AffineMap {
    fn unconstrained_len(&self, constrained: usize) -> Result<usize> {
        Ok(constrained)
    }

    #[expect(clippy::cast_precision_loss, reason = "events are far shorter than 2^52")]
    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        for (x, u) in constrained.iter_mut().zip(unconstrained) {
            *x = self.shift + self.scale * u;
        }
        unconstrained.len() as f64 * self.scale.abs().ln()
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        for (index, (x, u)) in constrained.iter().zip(unconstrained).enumerate() {
            if !x.is_finite() {
                return Err(outside("affine map", "the real numbers", index, *x));
            }
            *u = (x - self.shift) / self.scale;
        }
        Ok(())
    }

    fn vjp(&self, _: &[f64], _: &[f64], gradient: &[f64], _: f64, out: &mut [f64]) {
        for (out, g) in out.iter_mut().zip(gradient) {
            *out = self.scale * g;
        }
    }
}
