//! Gives the divergence that is zero, with which a silo fits its data and nothing holds it back.

use super::{Diverged, Divergence};
use crate::engine::error::Result;
use crate::engine::family::{CovarianceGradient, MomentGradient};
use crate::engine::natural::{ExponentialFamily, NormalFamily};

/// $`D = 0`$: maximum likelihood. What keeps posteriors from collapsing is the number of local steps alone, as in
/// federated averaging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoDivergence;

impl Divergence for NoDivergence {
    fn evaluate(&self, family: &NormalFamily, _: &[f64], _: &[f64]) -> Result<Diverged> {
        let zeros = vec![0.0; family.len()];
        let gradient = MomentGradient { mean: zeros.clone(), covariance: CovarianceGradient::Diagonal(zeros) };
        Ok(Diverged { value: 0.0, gradient })
    }
}
