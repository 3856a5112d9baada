//! Gives FedYogi its second moment: it moves by the square alone, so that a small change lowers it slowly.

use serde::{Deserialize, Serialize};

use super::{Adaptive, SecondMoment, ServerOptimiser, ServerRule, defined};
use crate::engine::error::Result;

/// $`v_t = v_{t-1} - (1 - \beta_2)\,\Delta_t^2\operatorname{sign}(v_{t-1} - \Delta_t^2)`$ with $`\beta_2`$ = `decay[1]`
/// and $`\operatorname{sign}(0) = 0`$.
///
/// Where $`\Delta_t^2`$ is far below $`v_{t-1}`$ it falls by $`(1 - \beta_2)\Delta_t^2`$ only, where
/// [`super::FedAdam`]'s falls by nearly $`(1 - \beta_2) v_{t-1}`$.
///
/// # References
/// Reddi et al. (2021), arXiv:2003.00295, Algorithm 2; Zaheer et al. (2018), Adaptive methods for nonconvex
/// optimization.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FedYogi {
    /// The step size $\eta$.
    pub rate: f64,
    /// $`\beta_1`$ and $`\beta_2`$.
    pub decay: [f64; 2],
    /// $\tau$, in the units of the parameters.
    pub adaptivity: f64,
}

impl ServerOptimiser for FedYogi {
    fn start(&self) -> Box<dyn ServerRule> {
        Box::new(Adaptive::new(*self, self.rate, self.decay[0], self.adaptivity))
    }

    fn check(&self) -> Result<()> {
        defined(self, &[self.rate, self.adaptivity], &self.decay)
    }
}

impl SecondMoment for FedYogi {
    fn next(&self, before: f64, square: f64) -> f64 {
        let step = (1.0 - self.decay[1]) * square;
        match before.total_cmp(&square) {
            std::cmp::Ordering::Greater => before - step,
            std::cmp::Ordering::Equal => before,
            std::cmp::Ordering::Less => before + step,
        }
    }
}
