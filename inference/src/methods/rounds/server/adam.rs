//! Gives FedAdam its second moment: a mean of squares that forgets geometrically.

use serde::{Deserialize, Serialize};

use super::{Adaptive, SecondMoment, ServerOptimiser, ServerRule, defined};
use crate::engine::error::Result;

/// $`v_t = \beta_2 v_{t-1} + (1 - \beta_2)\Delta_t^2`$ with $`\beta_2`$ = `decay[1]`.
///
/// # References
/// Reddi et al. (2021), arXiv:2003.00295, Algorithm 2.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FedAdam {
    /// The step size $\eta$.
    pub rate: f64,
    /// $`\beta_1`$ and $`\beta_2`$.
    pub decay: [f64; 2],
    /// $\tau$, in the units of the parameters.
    pub adaptivity: f64,
}

impl ServerOptimiser for FedAdam {
    fn start(&self) -> Box<dyn ServerRule> {
        Box::new(Adaptive::new(*self, self.rate, self.decay[0], self.adaptivity))
    }

    fn check(&self) -> Result<()> {
        defined(self, &[self.rate, self.adaptivity], &self.decay)
    }
}

impl SecondMoment for FedAdam {
    fn next(&self, before: f64, square: f64) -> f64 {
        self.decay[1] * before + (1.0 - self.decay[1]) * square
    }
}
