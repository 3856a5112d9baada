//! Leaves real numbers and real vectors as they are, the map of unconstrained latents.

use super::{Bijector, outside};
use crate::distribution::Term;
use crate::error::Result;

/// The map $x = u$, elementwise, onto the real numbers.
///
/// $$ \log|\det J| = 0 $$
///
/// # Example
/// ```
/// use partita_core::{Bijector, IdentityMap};
/// let mut x = [0.0; 2];
/// assert_eq!(IdentityMap.forward(&[1.5, -2.0], &mut x), 0.0);
/// assert_eq!(x, [1.5, -2.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityMap;

impl Bijector for IdentityMap {
    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        constrained.copy_from_slice(unconstrained);
        0.0
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        if let Some(index) = constrained.iter().position(|x| !x.is_finite()) {
            return Err(outside("identity map", "the real numbers", index, constrained[index]));
        }
        unconstrained.copy_from_slice(constrained);
        Ok(())
    }

    fn vjp(&self, _: &[f64], _: &[f64], gradient: &[f64], _: f64, out: &mut [f64]) {
        out.copy_from_slice(gradient);
    }

    fn on_device(&self, unconstrained: Term) -> Option<(Term, Vec<Term>)> {
        Some((unconstrained, Vec::new()))
    }
}
