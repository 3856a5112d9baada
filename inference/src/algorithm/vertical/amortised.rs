//! Computes the small network that gives every row the mean and scale of its auxiliary variable, and its gradient.

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

/// What a forward pass leaves for the backward one: columns of inputs and of hidden units, each of all rows.
#[derive(Debug, Default)]
pub(super) struct Activations {
    inputs: Vec<Vec<f64>>,
    hidden: Vec<Vec<f64>>,
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
        let hidden: Vec<Vec<f64>> = (0..self.hidden)
            .map(|unit| {
                let mut column = vec![2.0 * b1[unit]; rows];
                for (weight, input) in w1[unit * self.inputs..].iter().zip(&inputs) {
                    add_scaled(&mut column, 2.0 * weight, input);
                }
                // tanh x = 1 - 2 / (1 + exp 2x), at both ends too.
                exponential(&mut column);
                column.iter_mut().for_each(|value| *value = 1.0 - 2.0 / (1.0 + *value));
                column
            })
            .collect();
        let mut outputs = (0..2 * self.outputs).map(|output| {
            let mut column = vec![b2[output]; rows];
            for (weight, input) in a[output * self.inputs..].iter().zip(&inputs) {
                add_scaled(&mut column, *weight, input);
            }
            for (weight, unit) in w2[output * self.hidden..].iter().zip(&hidden) {
                add_scaled(&mut column, *weight, unit);
            }
            column
        });
        let mut mean = by_row(outputs.by_ref().take(self.outputs).collect());
        let mut log_scale = by_row(outputs.collect());
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
        let mut by_input = vec![vec![0.0; by_mean.len() / self.outputs]; self.outputs];
        for (output, column) in upstream.iter().enumerate() {
            out[starts[4] + output] += column.iter().sum::<f64>();
            for (index, input) in activations.inputs.iter().enumerate() {
                out[starts[3] + output * self.inputs + index] += dot(column, input);
            }
            for (index, slot) in by_input.iter_mut().enumerate() {
                add_scaled(slot, a[output * self.inputs + index], column);
            }
        }
        for (unit, value) in activations.hidden.iter().enumerate() {
            let mut gradient = vec![0.0; value.len()];
            for (output, column) in upstream.iter().enumerate() {
                out[starts[2] + output * self.hidden + unit] += dot(column, value);
                add_scaled(&mut gradient, w2[output * self.hidden + unit], column);
            }
            gradient.iter_mut().zip(value).for_each(|(slot, t)| *slot *= 1.0 - t * t);
            out[starts[1] + unit] += gradient.iter().sum::<f64>();
            for (index, input) in activations.inputs.iter().enumerate() {
                out[starts[0] + unit * self.inputs + index] += dot(&gradient, input);
            }
            for (index, slot) in by_input.iter_mut().enumerate() {
                add_scaled(slot, w1[unit * self.inputs + index], &gradient);
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
            let (rows, size) = (5, 5 * outputs);
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
            for (index, found) in by_g.iter().enumerate() {
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
