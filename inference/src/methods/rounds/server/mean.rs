//! Moves the coordinator by the weighted mean of what its silos moved.

use serde::{Deserialize, Serialize};

use super::{ServerOptimiser, ServerRule, defined, mean_change};
use crate::engine::error::Result;

/// The mean of the silos' points, as federated averaging takes it, with a step size.
///
/// ```math
/// w_{t+1} = w_t + \eta\,\Delta_t, \qquad \Delta_t = \sum_m p_m\,(w_m - w_t)
/// ```
/// with $\eta$ = `rate` and $`p_m`$ = `weights`. At $\eta = 1$ this is $`\sum_m p_m w_m`$.
///
/// # Example
/// ```
/// use partita_inference::{ServerMean, ServerRule};
/// let after = ServerMean { rate: 1.0 }.apply(&[1.0], &[vec![2.0], vec![5.0]], &[0.75, 0.25]);
/// assert_eq!(after, [2.75]);
/// ```
///
/// # References
/// McMahan et al. (2017), Communication-efficient learning of deep networks from decentralized data, Algorithm 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ServerMean {
    /// The step size $\eta$; 1 takes the mean itself.
    pub rate: f64,
}

impl ServerOptimiser for ServerMean {
    fn start(&self) -> Box<dyn ServerRule> {
        Box::new(*self)
    }

    fn check(&self) -> Result<()> {
        defined(self, &[self.rate], &[])
    }
}

impl ServerRule for ServerMean {
    fn apply(&mut self, before: &[f64], members: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
        let change = mean_change(before, members, weights);
        before.iter().zip(change).map(|(from, change)| from + self.rate * change).collect()
    }

    fn save(&self) -> Vec<(String, Vec<f64>)> {
        Vec::new()
    }

    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        state.is_empty()
    }
}
