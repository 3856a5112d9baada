//! Gives FedAdagrad its second moment: a sum of squares that never forgets.

use serde::{Deserialize, Serialize};

use super::{Adaptive, SecondMoment, ServerOptimiser, ServerRule, defined};
use crate::engine::error::Result;

/// $`v_t = v_{t-1} + \Delta_t^2`$: steps shrink with all that a number has moved so far.
///
/// # References
/// Reddi et al. (2021), arXiv:2003.00295, Algorithm 2.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FedAdagrad {
    /// The step size $\eta$.
    pub rate: f64,
    /// $`\beta_1`$.
    pub momentum: f64,
    /// $\tau$, in the units of the parameters.
    pub adaptivity: f64,
}

impl ServerOptimiser for FedAdagrad {
    fn start(&self) -> Box<dyn ServerRule> {
        Box::new(Adaptive::new(*self, self.rate, self.momentum, self.adaptivity))
    }

    fn check(&self) -> Result<()> {
        defined(self, &[self.rate, self.adaptivity], &[self.momentum])
    }
}

impl SecondMoment for FedAdagrad {
    fn next(&self, before: f64, square: f64) -> f64 {
        before + square
    }
}
