//! Moves the coordinator by a mean of past changes over the root of a second moment: FedAdagrad, FedAdam, FedYogi.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::{ServerOptimiser, ServerRule, defined, mean_change};
use crate::engine::error::Result;

/// How the second moment of one number follows the squares of its changes: the one place where adaptive rules differ.
trait SecondMoment: Debug + Send {
    /// The second moment $`v_t`$ from `before`, $`v_{t-1}`$, and `square`, $`\Delta_t^2`$.
    fn next(&self, before: f64, square: f64) -> f64;
}

/// An adaptive rule of the coordinator, as the docstring of [`FedAdagrad`] has it, with $`v_t`$ by `second`.
#[derive(Debug, Clone)]
struct Adaptive<S> {
    second: S,
    rate: f64,
    momentum: f64,
    adaptivity: f64,
    /// $`m_t`$; empty before the first round.
    mean: Vec<f64>,
    /// $`v_t`$; empty before the first round.
    square: Vec<f64>,
}

impl<S: SecondMoment> Adaptive<S> {
    /// The rule before its first round.
    fn new(second: S, rate: f64, momentum: f64, adaptivity: f64) -> Self {
        Self { second, rate, momentum, adaptivity, mean: Vec::new(), square: Vec::new() }
    }
}

const MEAN: &str = "mean";
const SQUARE: &str = "square";

impl<S: SecondMoment> ServerRule for Adaptive<S> {
    fn apply(&mut self, before: &[f64], members: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
        self.mean.resize(before.len(), 0.0);
        self.square.resize(before.len(), self.adaptivity * self.adaptivity);
        let changes = mean_change(before, members, weights);
        let state = self.mean.iter_mut().zip(&mut self.square);
        let numbers = before.iter().zip(changes).zip(state);
        let one = |((from, change), (mean, square)): ((&f64, f64), (&mut f64, &mut f64))| {
            *mean = self.momentum * *mean + (1.0 - self.momentum) * change;
            *square = self.second.next(*square, change * change);
            from + self.rate * *mean / (square.sqrt() + self.adaptivity)
        };
        numbers.map(one).collect()
    }

    fn save(&self) -> Vec<(String, Vec<f64>)> {
        if self.mean.is_empty() {
            return Vec::new();
        }
        vec![(MEAN.to_owned(), self.mean.clone()), (SQUARE.to_owned(), self.square.clone())]
    }

    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        match <[(String, Vec<f64>); 2]>::try_from(state) {
            Ok([(first, mean), (second, square)]) if first == MEAN && second == SQUARE => {
                (self.mean, self.square) = (mean, square);
                true
            }
            Ok(_) => false,
            Err(state) => {
                (self.mean, self.square) = (Vec::new(), Vec::new());
                state.is_empty()
            }
        }
    }
}

/// $`v_t = v_{t-1} + \Delta_t^2`$: steps shrink with all that a number has moved so far.
///
/// [`FedAdam`] and [`FedYogi`] have another $`v_t`$; all three move by
///
/// ```math
/// m_t = \beta_1 m_{t-1} + (1 - \beta_1)\Delta_t, \qquad
/// w_{t+1} = w_t + \eta\,\frac{m_t}{\sqrt{v_t} + \tau}, \qquad m_{-1} = 0,\ v_{-1} = \tau^2
/// ```
/// entry by entry, with $`\Delta_t = \sum_m p_m (w_m - w_t)`$, $\eta$ = `rate`, $`\beta_1`$ = `momentum` and $\tau$ =
/// `adaptivity`. There is no bias correction.
///
/// The thesis on generalised partitioned inference (Mildner, 2024, Algorithm 4) prints this differently: it sums the
/// changes of the silos where the paper averages them, and it writes the momentum into $`\Delta_t`$ itself, so that
/// $`v_t`$ is made of squares of $`m_t`$. Its masked rules (Algorithm 5) have $`\sqrt{v_t + \tau}`$, with the constant
/// inside the root. Here $`v_t`$ is made of squares of this round's change, and the constant stands outside.
///
/// # Example
/// ```
/// use partita_inference::{FedAdagrad, ServerOptimiser};
/// // Δ = 3 and v = 4² + 3² = 25: the step is 3/(5 + 4).
/// let mut rule = FedAdagrad { rate: 1.0, momentum: 0.0, adaptivity: 4.0 }.start();
/// let after = rule.apply(&[1.0], &[vec![4.0]], &[1.0]);
/// assert!((after[0] - (1.0 + 1.0 / 3.0)).abs() < 1e-15);
/// ```
///
/// # References
/// Reddi et al. (2021), Adaptive federated optimization, arXiv:2003.00295, Algorithm 2.
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

/// $`v_t = v_{t-1} - (1 - \beta_2)\,\Delta_t^2\operatorname{sign}(v_{t-1} - \Delta_t^2)`$ with $`\beta_2`$ = `decay[1]`
/// and $`\operatorname{sign}(0) = 0`$.
///
/// Where $`\Delta_t^2`$ is far below $`v_{t-1}`$ it falls by $`(1 - \beta_2)\Delta_t^2`$ only, where
/// [`FedAdam`]'s falls by nearly $`(1 - \beta_2) v_{t-1}`$.
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
