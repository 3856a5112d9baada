//! Maps real numbers onto positive ones by softplus, which grows linearly where the exponential would explode.

use super::{Bijector, above_zero, outside};
use crate::distribution::Term;
use crate::error::Result;
use crate::math::special::{sigmoid, softplus};

/// The map $x = \log(1 + e^u)$, elementwise, onto the positive numbers.
///
/// $$ \log|\det J| = -\sum_i \log(1 + e^{-u_i}) $$
///
/// # Numerics
/// Relatively accurate in both tails; an underflowed x is raised to the smallest positive normal number.
///
/// # Example
/// ```
/// use partita_core::{Bijector, SoftplusMap};
/// let mut x = [0.0];
/// let log_det = SoftplusMap.forward(&[0.0], &mut x);
/// assert!((x[0] - 2.0_f64.ln()).abs() < 1e-15);
/// assert!((log_det + 2.0_f64.ln()).abs() < 1e-15);
/// ```
///
/// # References
/// Dugas, Bengio, Bélisle, Nadeau and Garcia, "Incorporating second-order functional knowledge for better option
/// pricing", 2001, equation 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftplusMap;

impl Bijector for SoftplusMap {
    fn unconstrained_len(&self, constrained: usize) -> Result<usize> {
        Ok(constrained)
    }

    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        let mut log_det = 0.0;
        for (x, u) in constrained.iter_mut().zip(unconstrained) {
            *x = above_zero(softplus(*u));
            log_det -= softplus(-u);
        }
        log_det
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        for (index, (x, u)) in constrained.iter().zip(unconstrained).enumerate() {
            if !(*x > 0.0 && x.is_finite()) {
                return Err(outside("softplus map", "numbers > 0", index, *x));
            }
            // ln(eˣ − 1) = x + ln(1 − e⁻ˣ), without overflow for large x or cancellation for small.
            *u = x + (-(-x).exp_m1()).ln();
        }
        Ok(())
    }

    fn vjp(&self, unconstrained: &[f64], _: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]) {
        for ((out, u), g) in out.iter_mut().zip(unconstrained).zip(gradient) {
            *out = sigmoid(*u) * g + weight * sigmoid(-u);
        }
    }

    fn on_device(&self, unconstrained: Term) -> Option<(Term, Vec<Term>)> {
        Some((-(-unconstrained.clone()).log_sigmoid(), vec![unconstrained.log_sigmoid()]))
    }
}
