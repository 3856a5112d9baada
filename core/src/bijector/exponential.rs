//! Maps real numbers onto positive ones by the exponential, the default for scales, rates and concentrations.

use super::{Bijector, above_zero, outside};
use crate::distribution::Term;
use crate::error::Result;

/// The map $x = e^u$, elementwise, onto the positive numbers.
///
/// $$ \log|\det J| = \sum_i u_i $$
///
/// # Numerics
/// Underflow gives the smallest positive normal number, so x stays positive; overflow gives infinity, which the
/// density reports.
///
/// # Example
/// ```
/// use partita_core::{Bijector, ExponentialMap};
/// let mut x = [0.0; 2];
/// assert_eq!(ExponentialMap.forward(&[0.0, 2.0], &mut x), 2.0);
/// assert_eq!(x, [1.0, 2.0_f64.exp()]);
/// ```
///
/// # References
/// Kucukelbir, Tran, Ranganath, Gelman and Blei, "Automatic differentiation variational inference", 2017,
/// arXiv:1603.00788, section 2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExponentialMap;

impl Bijector for ExponentialMap {
    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        let mut log_det = 0.0;
        for (x, u) in constrained.iter_mut().zip(unconstrained) {
            *x = above_zero(u.exp());
            log_det += u;
        }
        log_det
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        for (index, (x, u)) in constrained.iter().zip(unconstrained).enumerate() {
            if !(*x > 0.0 && x.is_finite()) {
                return Err(outside("exponential map", "numbers > 0", index, *x));
            }
            *u = x.ln();
        }
        Ok(())
    }

    fn vjp(&self, _: &[f64], constrained: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]) {
        for ((out, x), g) in out.iter_mut().zip(constrained).zip(gradient) {
            *out = x * g + weight;
        }
    }

    fn on_device(&self, unconstrained: Term) -> Option<(Term, Vec<Term>)> {
        Some((unconstrained.clone().exp(), vec![unconstrained]))
    }
}
