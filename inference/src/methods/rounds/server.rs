//! Moves the coordinator's point after a round of point estimates: plain and masked means, and adaptive server rules.

mod adagrad;
mod adam;
mod adaptive;
mod choice;
mod masked;
mod mean;
mod yogi;

pub use adagrad::FedAdagrad;
pub use adam::FedAdam;
pub use adaptive::{Adaptive, SecondMoment};
pub use choice::{Mask, ServerChoice};
pub use masked::Masked;
pub use mean::ServerMean;
pub use yogi::FedYogi;

use std::fmt::Debug;

/// What a coordinator does with the points its silos came back with.
///
/// # Laws
/// Where every silo came back with `before` and no earlier round moved, `apply` gives `before`, bit for bit. After
/// `load(save())` further rounds give the same bits as without. `tests/sfvi/baselines.rs` checks both for every rule.
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
