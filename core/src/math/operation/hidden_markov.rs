//! Gives the log likelihood of a hidden Markov model by the forward algorithm, as one node of the tape.

use burn::tensor::Tensor;

use super::custom::{Differentiable, custom_vjp};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::special::log_sum_exp_parts;

/// $`\log p(y_1, \dots, y_T)`$ of a hidden Markov model, its states summed out by the forward algorithm.
///
/// $$ p(y) = \sum_{z} \pi_{z_1} b_1(z_1) \prod_{t=2}^T P_{z_{t-1} z_t} b_t(z_t) $$
/// with $\log\pi$ = `initial`, $\log P$ = `transition` (from rows to columns) and $\log b_t(z) = \log p(y_t \mid z)$ =
/// `observation`. The gradients are expected counts: by `observation` the probability of each state at each time given
/// all of $y$, by `transition` the expected number of each transition. Nothing is normalised; −∞ is an impossible case.
///
/// # Shapes
/// `[states]`, `[states, states]`, `[times, states]` → `[1]`.
///
/// # Errors
/// [`Error::Shape`] if the shapes do not belong together; [`Error::NotFiniteMade`] if every path of states is impossible.
///
/// # Laws
/// `laws::custom_operation` checks it against the sum over all paths and against differences.
///
/// # Example
/// ```
/// use partita_core::{Device, hidden_markov};
/// let device = Device::flex();
/// let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
/// let initial = device.tensor(logs(&[0.5, 0.5]), [2]);
/// let transition = device.tensor(logs(&[0.75, 0.25, 0.5, 0.5]), [2, 2]);
/// let observation = device.tensor(logs(&[0.5, 0.25, 1.0, 0.5]), [2, 2]);
/// let value: f64 = hidden_markov(initial, transition, observation)?.into_scalar();
/// // ½·½·(¾ + ¼·½) + ½·¼·(½ + ½·½)
/// assert!((value - 0.3125_f64.ln()).abs() < 1e-15);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Rabiner, "A tutorial on hidden Markov models and selected applications in speech recognition", 1989, section III.
pub fn hidden_markov(initial: Tensor<1>, transition: Tensor<2>, observation: Tensor<2>) -> Result<Tensor<1>> {
    let [states] = initial.dims();
    let [times, width] = observation.dims();
    fits("transition", &transition.dims(), [states, states])?;
    fits("observation", &[times, width], [times.max(1), states.max(1)])?;
    let inputs: [Handle; 3] = [initial.into(), transition.into(), observation.into()];
    custom_vjp("hidden Markov model", inputs, move |inputs| {
        let [initial, transition, observation] = [0, 1, 2].map(|index: usize| inputs[index].values.clone());
        let chain = Chain { states, transition, observation };
        let forward = chain.forward(&initial)?;
        let (largest, rest) = log_sum_exp_parts(&forward[(times - 1) * states..]);
        let total = largest + rest;
        if total == f64::NEG_INFINITY {
            return Err(Error::NotFiniteMade { operation: "hidden Markov model".into(), found: total });
        }
        Ok(Differentiable::new(Array::scalar(total), move |gradient, by| {
            chain.back(&forward, gradient[0], total, by);
        }))
    })
}

fn fits(what: &str, found: &[usize; 2], expected: [usize; 2]) -> Result<()> {
    let remedy = "Give `[states]`, `[states, states]` and `[times, states]` with at least one time.";
    Error::same_shape(format_args!("hidden Markov model, {what}"), found, &expected, remedy)
}

/// The logs that both passes read.
struct Chain {
    states: usize,
    transition: Vec<f64>,
    observation: Vec<f64>,
}

impl Chain {
    /// $`\log p(y_1, \dots, y_t, z_t)`$ for every time and state.
    fn forward(&self, initial: &[f64]) -> Result<Vec<f64>> {
        let states = self.states;
        let mut forward: Vec<f64> = Vec::with_capacity(self.observation.len());
        let mut terms = vec![0.0; states];
        for (time, observation) in self.observation.chunks_exact(states).enumerate() {
            for (to, own) in observation.iter().enumerate() {
                let before = match time {
                    0 => initial[to],
                    _ => {
                        let last = &forward[(time - 1) * states..time * states];
                        for ((term, last), row) in terms.iter_mut().zip(last).zip(self.transition.chunks_exact(states))
                        {
                            *term = last + row[to];
                        }
                        let (largest, rest) = log_sum_exp_parts(&terms);
                        largest + rest
                    }
                };
                let value = before + own;
                if value.is_nan() {
                    let operation = format!("hidden Markov model, step {time}");
                    return Err(Error::NotFiniteMade { operation, found: value });
                }
                forward.push(value);
            }
        }
        Ok(forward)
    }

    /// Adds the gradients by initial, transition and observation: expected counts, times the gradient of the total.
    fn back(&self, forward: &[f64], scale: f64, total: f64, by: &mut [Vec<f64>]) {
        let states = self.states;
        let [by_initial, by_transition, by_observation] = by else { return };
        let last = forward.len() - states;
        // The probability of each state at this time given all observations.
        let mut now: Vec<f64> = forward[last..].iter().map(|forward| scale * (forward - total).exp()).collect();
        let mut before = vec![0.0; states];
        for time in (0..forward.len() / states).rev() {
            let own = time * states..(time + 1) * states;
            by_observation[own.clone()].copy_from_slice(&now);
            if time == 0 {
                break;
            }
            before.fill(0.0);
            let last = &forward[own.start - states..own.start];
            for (to, share) in now.iter().enumerate().filter(|(_, share)| **share != 0.0) {
                let reached = forward[own.start + to] - self.observation[own.start + to];
                for (from, last) in last.iter().enumerate() {
                    let cell = from * states + to;
                    let count = share * (last + self.transition[cell] - reached).exp();
                    by_transition[cell] += count;
                    before[from] += count;
                }
            }
            std::mem::swap(&mut now, &mut before);
        }
        by_initial.copy_from_slice(&now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn a_gradient_that_is_no_number_reaches_every_time() {
        let device = Device::flex();
        let initial = device.leaf::<1>(vec![-0.7; 2], [2]);
        let transition = device.leaf::<2>(vec![-0.7; 4], [2, 2]);
        let observation = device.leaf::<2>(vec![-0.5; 6], [3, 2]);
        let total = hidden_markov(initial.clone(), transition.clone(), observation.clone()).unwrap();
        let gradients = (total * f64::NAN).backward();
        let by: [Handle; 3] = [
            initial.grad(&gradients).unwrap().into(),
            transition.grad(&gradients).unwrap().into(),
            observation.grad(&gradients).unwrap().into(),
        ];
        let by = by.map(|by| by.read().unwrap().values);
        assert!(by.iter().flatten().all(|number| number.is_nan()), "{by:?}");
    }
}
