//! Gives FedAdam its second moment: a mean of squares that forgets geometrically.

use super::SecondMoment;

/// $`v_t = \beta_2 v_{t-1} + (1 - \beta_2)\Delta_t^2`$ with $`\beta_2`$ = `decay`.
///
/// # References
/// Reddi et al. (2021), arXiv:2003.00295, Algorithm 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FedAdam {
    /// The share of $`v_{t-1}`$ that is kept.
    pub decay: f64,
}

impl SecondMoment for FedAdam {
    fn next(&self, before: f64, square: f64) -> f64 {
        self.decay * before + (1.0 - self.decay) * square
    }
}
