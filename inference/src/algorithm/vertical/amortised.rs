//! Computes the small network that gives every row the mean and scale of its auxiliary variable, and its gradient.

use std::ops::Range;

use partita_core::kernel::{add_scaled, dot, exponential};
use partita_core::{Key, Noise, Purpose};

/// A network of one hidden layer with a linear path beside it, the same for all rows of a party.
///
/// ```math
/// (\mu_i - g_i,\ \log\sigma_i - \log\rho) = W_2 \tanh(W_1 u_i + b_1) + A u_i + b_2
/// ```
/// with $`u_i`$ the contribution $`g_i`$ and, where parties have the labels, a feature of the label. It starts at the prior
/// $`N(g_i, \rho^2)`$: $`W_2`$, $`A`$ and $`b_2`$ are zero.
///
/// # Shapes
/// Parameters: $`W_1`$ `[hidden, inputs]`, $`b_1`$ `[hidden]`, $`W_2`$ `[2 outputs, hidden]`, $`A`$ `[2 outputs, inputs]`,
/// $`b_2`$ `[2 outputs]`, one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct AmortisedNetwork {
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) hidden: usize,
    pub(super) log_rho: f64,
}

/// What a forward pass leaves for the backward one.
#[derive(Debug, Default)]
pub(super) struct Activations {
    /// Columns of inputs, each of all rows.
    inputs: Vec<Vec<f64>>,
    /// Hidden units of a block of rows, unit by unit, one block after another.
    hidden: Vec<f64>,
}

/// Rows whose numbers pass through the network together: they stay in the cache from one unit to the next.
const BLOCK: usize = 512;

/// The blocks of so many rows.
fn blocks(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(BLOCK).map(move |start| start..(start + BLOCK).min(rows))
}

impl AmortisedNetwork {
    pub(super) fn parameter_len(&self) -> usize {
        self.hidden * (self.inputs + 1) + 2 * self.outputs * (self.hidden + self.inputs + 1)
    }

    pub(super) fn initial(&self, noise: &Noise, party: u32) -> Vec<f64> {
        let mut parameters = vec![0.0; self.parameter_len()];
        let key = Key::new(Purpose::Initial, 0).silo(party);
        noise.stream(key).normal(&mut parameters[..self.hidden * (self.inputs + 1)]);
        parameters
    }

    fn split<'p>(&self, parameters: &'p [f64]) -> [&'p [f64]; 5] {
        let lengths = self.lengths();
        let mut rest = parameters;
        lengths.map(|length| {
            let (own, left) = rest.split_at(length);
            rest = left;
            own
        })
    }

    fn lengths(&self) -> [usize; 5] {
        let both = 2 * self.outputs;
        [self.hidden * self.inputs, self.hidden, both * self.hidden, both * self.inputs, both]
    }

    /// Means and log scales of the rows, `[rows, outputs]`, from contributions and features of labels, both of that shape.
    pub(super) fn moments(
        &self,
        parameters: &[f64],
        contributions: &[f64],
        features: &[f64],
    ) -> (Vec<f64>, Vec<f64>, Activations) {
        let [w1, b1, w2, a, b2] = self.split(parameters);
        let mut inputs = columns(contributions, self.outputs);
        if self.inputs > self.outputs {
            inputs.extend(columns(features, self.outputs));
        }
        let rows = contributions.len() / self.outputs;
        let mut hidden = vec![0.0; self.hidden * rows];
        let mut outputs = vec![vec![0.0; rows]; 2 * self.outputs];
        for block in blocks(rows) {
            for (output, column) in outputs.iter_mut().enumerate() {
                let own = &mut column[block.clone()];
                own.fill(b2[output]);
                for (weight, input) in a[output * self.inputs..].iter().zip(&inputs) {
                    add_scaled(own, *weight, &input[block.clone()]);
                }
            }
            let units = hidden[self.hidden * block.start..self.hidden * block.end].chunks_exact_mut(block.len());
            for (unit, own) in units.enumerate() {
                own.fill(2.0 * b1[unit]);
                for (weight, input) in w1[unit * self.inputs..].iter().zip(&inputs) {
                    add_scaled(own, 2.0 * weight, &input[block.clone()]);
                }
                // tanh x = 1 - 2 / (1 + exp 2x), at both ends too.
                exponential(own);
                own.iter_mut().for_each(|value| *value = 1.0 - 2.0 / (1.0 + *value));
                for (output, column) in outputs.iter_mut().enumerate() {
                    add_scaled(&mut column[block.clone()], w2[output * self.hidden + unit], own);
                }
            }
        }
        let mut log_scale = by_row(outputs.split_off(self.outputs));
        let mut mean = by_row(outputs);
        add_scaled(&mut mean, 1.0, contributions);
        log_scale.iter_mut().for_each(|value| *value += self.log_rho);
        (mean, log_scale, Activations { inputs, hidden })
    }

    /// Adds the gradient by the parameters to `out`, and that by the contributions to `by_contribution`, from the
    /// gradients by means and log scales, all `[rows, outputs]`.
    pub(super) fn pull_back(
        &self,
        parameters: &[f64],
        activations: &Activations,
        [by_mean, by_log_scale]: [&[f64]; 2],
        by_contribution: &mut [f64],
        out: &mut [f64],
    ) {
        let [w1, _, w2, a, _] = self.split(parameters);
        let mut next = 0;
        let starts = self.lengths().map(|length| {
            next += length;
            next - length
        });
        let upstream: Vec<Vec<f64>> =
            columns(by_mean, self.outputs).into_iter().chain(columns(by_log_scale, self.outputs)).collect();
        let rows = by_mean.len() / self.outputs;
        let mut by_input = vec![vec![0.0; rows]; self.outputs];
        let (ones, mut buffer) = ([1.0; BLOCK], vec![0.0; BLOCK]);
        for block in blocks(rows) {
            for (output, column) in upstream.iter().enumerate() {
                let own = &column[block.clone()];
                out[starts[4] + output] += dot(own, &ones[..block.len()]);
                for (index, input) in activations.inputs.iter().enumerate() {
                    out[starts[3] + output * self.inputs + index] += dot(own, &input[block.clone()]);
                }
                for (index, slot) in by_input.iter_mut().enumerate() {
                    add_scaled(&mut slot[block.clone()], a[output * self.inputs + index], own);
                }
            }
            let gradient = &mut buffer[..block.len()];
            let units =
                activations.hidden[self.hidden * block.start..self.hidden * block.end].chunks_exact(block.len());
            for (unit, value) in units.enumerate() {
                gradient.fill(0.0);
                for (output, column) in upstream.iter().enumerate() {
                    let own = &column[block.clone()];
                    out[starts[2] + output * self.hidden + unit] += dot(own, value);
                    add_scaled(gradient, w2[output * self.hidden + unit], own);
                }
                gradient.iter_mut().zip(value).for_each(|(slot, t)| *slot *= 1.0 - t * t);
                out[starts[1] + unit] += dot(gradient, &ones[..block.len()]);
                for (index, input) in activations.inputs.iter().enumerate() {
                    out[starts[0] + unit * self.inputs + index] += dot(gradient, &input[block.clone()]);
                }
                for (index, slot) in by_input.iter_mut().enumerate() {
                    add_scaled(&mut slot[block.clone()], w1[unit * self.inputs + index], gradient);
                }
            }
        }
        add_scaled(by_contribution, 1.0, by_mean);
        add_scaled(by_contribution, 1.0, &by_row(by_input));
    }
}

/// The columns of a row-major table.
fn columns(values: &[f64], width: usize) -> Vec<Vec<f64>> {
    if width == 1 {
        return vec![values.to_vec()];
    }
    (0..width).map(|column| values.iter().skip(column).step_by(width).copied().collect()).collect()
}

/// The row-major table of columns.
fn by_row(mut columns: Vec<Vec<f64>>) -> Vec<f64> {
    if columns.len() == 1 {
        return columns.swap_remove(0);
    }
    let rows = columns.first().map_or(0, Vec::len);
    (0..rows).flat_map(|row| columns.iter().map(move |column| column[row])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, block: u32) -> Vec<f64> {
        let mut values = vec![0.0; count];
        Noise::new(3).stream(Key::new(Purpose::Check, 0).block(block)).normal(&mut values);
        values
    }

    #[test]
    fn the_gradient_of_the_amortised_network_is_that_of_central_differences() {
        for (outputs, inputs) in [(1, 1), (1, 2), (3, 6)] {
            let network = AmortisedNetwork { outputs, inputs, hidden: 4, log_rho: -0.3 };
            let parameters = numbers(network.parameter_len(), 0);
            // More rows than a block has.
            let rows = 600;
            let size = rows * outputs;
            let (g, features) = (numbers(size, 1), numbers(size, 2));
            let (by_mean, by_scale) = (numbers(size, 3), numbers(size, 4));
            let value = |parameters: &[f64], g: &[f64]| {
                let (mean, log_scale, _) = network.moments(parameters, g, &features);
                assert_eq!(mean.len(), rows * outputs);
                dot(&mean, &by_mean) + dot(&log_scale, &by_scale)
            };
            let (_, _, activations) = network.moments(&parameters, &g, &features);
            let (mut by_g, mut by_parameters) = (vec![0.0; size], vec![0.0; parameters.len()]);
            network.pull_back(&parameters, &activations, [&by_mean, &by_scale], &mut by_g, &mut by_parameters);
            let difference = |at: &mut dyn FnMut(f64) -> f64| (at(1e-5) - at(-1e-5)) / 2e-5;
            for (index, found) in by_parameters.iter().enumerate() {
                let mut at = |step: f64| {
                    let mut moved = parameters.clone();
                    moved[index] += step;
                    value(&moved, &g)
                };
                let expected = difference(&mut at);
                assert!((found - expected).abs() < 1e-8 * (1.0 + expected.abs()), "{index}: {found} {expected}");
            }
            for (index, found) in by_g.iter().enumerate().step_by(97) {
                let mut at = |step: f64| {
                    let mut moved = g.clone();
                    moved[index] += step;
                    value(&parameters, &moved)
                };
                let expected = difference(&mut at);
                assert!((found - expected).abs() < 1e-8 * (1.0 + expected.abs()), "{index}: {found} {expected}");
            }
        }
    }

    #[test]
    fn the_amortised_network_starts_at_the_prior() {
        let network = AmortisedNetwork { outputs: 1, inputs: 1, hidden: 3, log_rho: 0.25 };
        let g = numbers(4, 0);
        let (mean, log_scale, _) = network.moments(&network.initial(&Noise::new(1), 0), &g, &[]);
        assert_eq!(mean, g);
        assert_eq!(log_scale, [0.25; 4]);
    }
}
