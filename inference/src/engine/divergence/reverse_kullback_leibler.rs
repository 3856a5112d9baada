//! Gives the divergence of Kullback and Leibler from the cavity's side.

use super::{Diverged, Divergence, Renyi};
use crate::engine::error::Result;
use crate::engine::natural::NormalFamily;

/// $`\mathrm{KL}(p \,\|\, q)`$, covering: the limit of [`Renyi`] at $`\alpha = 0`$, and computed as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReverseKullbackLeibler;

impl Divergence for ReverseKullbackLeibler {
    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged> {
        Renyi { alpha: 0.0 }.evaluate(family, q, p)
    }
}
