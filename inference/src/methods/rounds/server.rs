//! Moves the coordinator's point after a round of point estimates: plain and masked means, and adaptive server rules.

mod adaptive;
mod masked;
mod mean;

pub use adaptive::{FedAdagrad, FedAdam, FedYogi};
pub use masked::{Mask, Masked};
pub use mean::ServerMean;

use std::any::Any;
use std::fmt::Debug;

use crate::engine::error::{Error, Result};
use crate::engine::plug::plug;

/// How silos' points become one: what a user chooses, from which the coordinator starts a [`ServerRule`].
///
/// # Laws
/// Those of the rules that it starts: `laws::server_rule`.
///
/// # Example
/// ```
/// use partita_inference::{FedAdam, FedOptOptions, ServerOptimiser};
/// let server = FedAdam { rate: 0.1, decay: [0.9, 0.99], adaptivity: 1e-3 };
/// assert!(server.check().is_ok());
/// assert_eq!(FedOptOptions::fed_adam(10, 0.1).server, server.into());
/// ```
pub trait ServerOptimiser: Any + Debug + Send + Sync {
    /// The rule before its first round.
    fn start(&self) -> Box<dyn ServerRule>;

    /// Refuses constants with which the rule is not defined.
    ///
    /// # Errors
    /// [`Error::Setting`].
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

plug! {
    ServerOptimiser, "a server optimiser",
    names {},
    values { Mean: ServerMean, Adagrad: FedAdagrad, Adam: FedAdam, Yogi: FedYogi }
}

/// Refuses a rule whose step size, shares or constant of adaptivity are out of their ranges.
fn defined(server: &dyn ServerOptimiser, positive: &[f64], shares: &[f64]) -> Result<()> {
    let is_positive = |value: &f64| *value > 0.0 && value.is_finite();
    let is_defined = positive.iter().all(is_positive) && shares.iter().all(|share| (0.0..1.0).contains(share));
    let expected =
        "rate > 0, 0 <= momentum < 1, 0 <= decay < 1 and adaptivity > 0, all finite, such as 0.01, 0.9, 0.99 and 0.001";
    Error::unless(is_defined, "server", format_args!("{server:?}"), expected)
}

/// What a coordinator does with the points its silos came back with.
///
/// # Laws
/// Where every silo came back with `before` and no earlier round moved, `apply` gives `before`, bit for bit. After
/// `load(save())` further rounds give the same bits as without. `laws::server_rule` checks both.
pub trait ServerRule: Debug + Send {
    /// The coordinator's next point from `before`, what silos made of it (`members`), and weights that sum to one.
    fn apply(&mut self, before: &[f64], members: &[Vec<f64>], weights: &[f64]) -> Vec<f64>;

    /// The state as named vectors, empty before the first round; each has the length of a point.
    fn save(&self) -> Vec<(String, Vec<f64>)>;

    /// Restores a saved state; false if it is not one of this rule.
    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool;
}

/// The weighted mean of what the silos moved, $`\Delta = \sum_m p_m (w_m - w)`$: the negative of a pseudo-gradient.
///
/// The sum runs in the order of the silos. It is exactly zero where no silo moved, whatever the weights.
pub(crate) fn mean_change(before: &[f64], members: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let mut change = vec![0.0; before.len()];
    for (member, weight) in members.iter().zip(weights) {
        for ((slot, own), from) in change.iter_mut().zip(member).zip(before) {
            *slot += weight * (own - from);
        }
    }
    change
}
