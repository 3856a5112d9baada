//! Gives FedAdagrad its second moment: a sum of squares that never forgets.

use super::SecondMoment;

/// $`v_t = v_{t-1} + \Delta_t^2`$: steps shrink with all that a number has moved so far.
///
/// # References
/// Reddi et al. (2021), arXiv:2003.00295, Algorithm 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FedAdagrad;

impl SecondMoment for FedAdagrad {
    fn next(&self, before: f64, square: f64) -> f64 {
        before + square
    }
}
