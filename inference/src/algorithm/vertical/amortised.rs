//! Computes the small network that gives every row the mean and scale of its auxiliary variable, and its gradient.

use std::ops::Range;

use partita_core::kernel::{add_scaled, dot, exponential, tanh, tanh_derivative};
use partita_core::{Key, Noise, Purpose};

use super::auxiliary::{Given, Sample};
use super::terms::{Reached, Terms};

/// A network of one hidden layer with a linear path beside it, the same for all rows of a party.
///
/// ```math
/// (\mu_i - g_i,\ \log\sigma_i - \log\rho) = W_2 \tanh(W_1 u_i + b_1) + A u_i + b_2
/// ```
/// with $`u_i`$ the contribution $`g_i`$ and, where parties have the labels, a feature of the label. Without
/// [`AmortisedNetwork::means`] it gives scales alone, and $`\mu_i = g_i`$. It starts at the prior $`N(g_i, \rho^2)`$:
/// $`W_2`$, $`A`$ and $`b_2`$ are zero.
///
/// # Shapes
/// Parameters, with `heads` twice the outputs, or as many as outputs without means: $`W_1`$ `[hidden, inputs]`, $`b_1`$
/// `[hidden]`, $`W_2`$ `[heads, hidden]`, $`A`$ `[heads, inputs]`, $`b_2`$ `[heads]`, one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct AmortisedNetwork {
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) hidden: usize,
    pub(super) means: bool,
    pub(super) log_rho: f64,
}

/// Rows that pass through the network together: what is computed of them stays in the first-level cache.
const TILE: usize = 512;

/// The tiles of so many rows.
fn tiles(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(TILE).map(move |start| start..(start + TILE).min(rows))
}

/// Columns of a tile, one after another.
#[derive(Debug)]
struct Columns {
    values: Vec<f64>,
    count: usize,
}

impl Columns {
    fn new(columns: usize) -> Self {
        Self { values: vec![0.0; columns * TILE], count: TILE }
    }

    fn column(&self, index: usize) -> &[f64] {
        &self.values[index * TILE..][..self.count]
    }

    fn column_mut(&mut self, index: usize) -> &mut [f64] {
        &mut self.values[index * TILE..][..self.count]
    }

    /// Reads a row-major table of `width` columns into those from `first` on.
    fn read(&mut self, first: usize, width: usize, table: &[f64]) {
        for column in 0..width {
            let own = self.column_mut(first + column);
            match width {
                1 => own.copy_from_slice(table),
                _ => own.iter_mut().zip(table.iter().skip(column).step_by(width)).for_each(|(slot, v)| *slot = *v),
            }
        }
    }

    /// Adds `width` columns from `first` on to a row-major table.
    fn add_to(&self, first: usize, width: usize, table: &mut [f64]) {
        for column in 0..width {
            let own = self.column(first + column);
            match width {
                1 => add_scaled(table, 1.0, own),
                _ => table.iter_mut().skip(column).step_by(width).zip(own).for_each(|(slot, v)| *slot += v),
            }
        }
    }
}

impl AmortisedNetwork {
    /// Numbers that the network gives of a row.
    fn heads(&self) -> usize {
        self.outputs * if self.means { 2 } else { 1 }
    }

    fn lengths(&self) -> [usize; 5] {
        let heads = self.heads();
        [self.hidden * self.inputs, self.hidden, heads * self.hidden, heads * self.inputs, heads]
    }

    pub(super) fn parameter_len(&self) -> usize {
        self.lengths().iter().sum()
    }

    pub(super) fn initial(&self, noise: &Noise, party: u32) -> Vec<f64> {
        let mut parameters = vec![0.0; self.parameter_len()];
        let key = Key::new(Purpose::Initial, 0).silo(party);
        noise.stream(key).normal(&mut parameters[..self.hidden * (self.inputs + 1)]);
        parameters
    }

    fn split<'p>(&self, parameters: &'p [f64]) -> [&'p [f64]; 5] {
        let mut rest = parameters;
        self.lengths().map(|length| {
            let (own, left) = rest.split_at(length);
            rest = left;
            own
        })
    }

    fn split_mut<'p>(&self, parameters: &'p mut [f64]) -> [&'p mut [f64]; 5] {
        let mut rest = parameters;
        self.lengths().map(|length| {
            let (own, left) = std::mem::take(&mut rest).split_at_mut(length);
            rest = left;
            own
        })
    }

    /// Reads the network's inputs for the rows of a tile.
    fn read(&self, given: &Given<'_>, tile: &Range<usize>, inputs: &mut Columns) {
        let flat = tile.start * self.outputs..tile.end * self.outputs;
        inputs.count = tile.len();
        inputs.read(0, self.outputs, &given.contribution[flat.clone()]);
        if self.inputs > self.outputs {
            inputs.read(self.outputs, self.outputs, &given.feature[flat]);
        }
    }

    /// The auxiliary variables of the rows, all numbers `[rows, outputs]`.
    pub(super) fn sample(&self, parameters: &[f64], given: &Given<'_>, terms: &Terms) -> Sample {
        let [w1, b1, w2, a, b2] = self.split(parameters);
        let (size, heads) = (given.contribution.len(), self.heads());
        let rows = size / self.outputs;
        let mut sample = Sample {
            mean: Vec::with_capacity(if self.means { size } else { 0 }),
            scale: Vec::with_capacity(size),
            value: Vec::with_capacity(size),
            hidden: Vec::with_capacity(self.hidden * rows),
            bound: 0.0,
        };
        let (mut inputs, mut outputs) = (Columns::new(self.inputs), Columns::new(heads));
        let (mut unit_buffer, mut log_scales) = ([0.0; TILE], vec![0.0; TILE * self.outputs]);
        for tile in tiles(rows) {
            let flat = tile.start * self.outputs..tile.end * self.outputs;
            self.read(given, &tile, &mut inputs);
            outputs.count = tile.len();
            for head in 0..heads {
                let own = outputs.column_mut(head);
                own.fill(b2[head]);
                (0..self.inputs).for_each(|at| add_scaled(own, a[head * self.inputs + at], inputs.column(at)));
            }
            for unit in 0..self.hidden {
                let own = &mut unit_buffer[..tile.len()];
                own.fill(b1[unit]);
                (0..self.inputs).for_each(|at| add_scaled(own, w1[unit * self.inputs + at], inputs.column(at)));
                tanh(own);
                for head in 0..heads {
                    add_scaled(outputs.column_mut(head), w2[head * self.hidden + unit], own);
                }
                sample.hidden.extend_from_slice(own);
            }
            let contribution = &given.contribution[flat.clone()];
            if self.means {
                sample.mean.extend_from_slice(contribution);
                outputs.add_to(0, self.outputs, &mut sample.mean[flat.clone()]);
            }
            let log_scale = &mut log_scales[..flat.len()];
            log_scale.fill(self.log_rho);
            outputs.add_to(heads - self.outputs, self.outputs, log_scale);
            sample.scale.extend_from_slice(log_scale);
            exponential(&mut sample.scale[flat.clone()]);
            sample.draw(contribution, &given.noise[flat.clone()], flat.start);
            sample.bound += terms.bound(&sample.around(given, flat), log_scale);
        }
        sample
    }

    /// Adds the gradient by the parameters to `out`, and gives that by the contributions along every path, from the
    /// gradient by the auxiliary variables.
    pub(super) fn pull_back(
        &self,
        parameters: &[f64],
        (sample, given): (&Sample, &Given<'_>),
        (terms, by_value): (&Terms, &[f64]),
        out: &mut [f64],
    ) -> Vec<f64> {
        let [w1, _, w2, a, _] = self.split(parameters);
        let [by_w1, by_b1, by_w2, by_a, by_b2] = self.split_mut(out);
        let (rows, heads) = (by_value.len() / self.outputs, self.heads());
        let mut by_contribution = vec![0.0; by_value.len()];
        let (mut inputs, mut upstream) = (Columns::new(self.inputs), Columns::new(heads));
        let mut by_input = Columns::new(self.outputs);
        let (ones, mut buffer) = ([1.0; TILE], [0.0; TILE]);
        let mut reached = vec![0.0; 2 * TILE * self.outputs];
        for tile in tiles(rows) {
            let (flat, count) = (tile.start * self.outputs..tile.end * self.outputs, tile.len());
            let (mean, log_scale) = reached.split_at_mut(TILE * self.outputs);
            let (mean, log_scale) = (&mut mean[..flat.len()], &mut log_scale[..flat.len()]);
            let contribution = &mut by_contribution[flat.clone()];
            let mut slots = Reached { mean, log_scale, contribution };
            terms.reach(&sample.around(given, flat.clone()), &by_value[flat.clone()], &mut slots);
            let Reached { mean, log_scale, contribution } = slots;
            add_scaled(contribution, 1.0, mean);
            self.read(given, &tile, &mut inputs);
            (upstream.count, by_input.count) = (count, count);
            if self.means {
                upstream.read(0, self.outputs, mean);
            }
            upstream.read(heads - self.outputs, self.outputs, log_scale);
            (0..self.outputs).for_each(|at| by_input.column_mut(at).fill(0.0));
            for head in 0..heads {
                let own = upstream.column(head);
                by_b2[head] += dot(own, &ones[..count]);
                for at in 0..self.inputs {
                    by_a[head * self.inputs + at] += dot(own, inputs.column(at));
                }
                for at in 0..self.outputs {
                    add_scaled(by_input.column_mut(at), a[head * self.inputs + at], own);
                }
            }
            let hidden = &sample.hidden[self.hidden * tile.start..self.hidden * tile.end];
            for (unit, value) in hidden.chunks_exact(count).enumerate() {
                let gradient = &mut buffer[..count];
                gradient.fill(0.0);
                for head in 0..heads {
                    let own = upstream.column(head);
                    by_w2[head * self.hidden + unit] += dot(own, value);
                    add_scaled(gradient, w2[head * self.hidden + unit], own);
                }
                tanh_derivative(gradient, value);
                by_b1[unit] += dot(gradient, &ones[..count]);
                for at in 0..self.inputs {
                    by_w1[unit * self.inputs + at] += dot(gradient, inputs.column(at));
                }
                for at in 0..self.outputs {
                    add_scaled(by_input.column_mut(at), w1[unit * self.inputs + at], gradient);
                }
            }
            by_input.add_to(0, self.outputs, contribution);
        }
        by_contribution
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimator::Estimator;

    fn numbers(count: usize, block: u32) -> Vec<f64> {
        let mut values = vec![0.0; count];
        Noise::new(3).stream(Key::new(Purpose::Check, 0).block(block)).normal(&mut values);
        values
    }

    #[test]
    fn the_gradient_of_the_amortised_network_is_that_of_central_differences() {
        let terms = Terms { estimator: Estimator::Total, rho: (-0.3_f64).exp(), weight: 1.5 };
        for (outputs, inputs, means) in [(1, 1, false), (1, 1, true), (1, 2, true), (3, 3, false), (3, 6, true)] {
            let network = AmortisedNetwork { outputs, inputs, hidden: 4, means, log_rho: -0.3 };
            let mut parameters = numbers(network.parameter_len(), 0);
            parameters.iter_mut().for_each(|value| *value *= 0.3);
            // More rows than a tile has.
            let rows = 600;
            let size = rows * outputs;
            let (g, feature) = (numbers(size, 1), numbers(size, 2));
            let (noise, by_value) = (numbers(size, 3), numbers(size, 4));
            let rest = Given { contribution: &g, feature: &feature, noise: &noise };
            let value = |parameters: &[f64], g: &[f64]| {
                let sample = network.sample(parameters, &Given { contribution: g, ..rest }, &terms);
                dot(&sample.value, &by_value) + sample.bound
            };
            let sample = network.sample(&parameters, &rest, &terms);
            let mut by_parameters = vec![0.0; parameters.len()];
            let of = (&sample, &rest);
            let by_g = network.pull_back(&parameters, of, (&terms, &by_value), &mut by_parameters);
            let difference = |at: &mut dyn FnMut(f64) -> f64| (at(1e-5) - at(-1e-5)) / 2e-5;
            for (index, found) in by_parameters.iter().enumerate() {
                let mut at = |step: f64| {
                    let mut moved = parameters.clone();
                    moved[index] += step;
                    value(&moved, &g)
                };
                let expected = difference(&mut at);
                assert!((found - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{index}: {found} {expected}");
            }
            for (index, found) in by_g.iter().enumerate().step_by(97) {
                let mut at = |step: f64| {
                    let mut moved = g.clone();
                    moved[index] += step;
                    value(&parameters, &moved)
                };
                let expected = difference(&mut at);
                assert!((found - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{index}: {found} {expected}");
            }
        }
    }

    #[test]
    fn the_amortised_network_starts_at_the_prior() {
        let terms = Terms { estimator: Estimator::Total, rho: 0.25_f64.exp(), weight: 1.0 };
        for means in [false, true] {
            let network = AmortisedNetwork { outputs: 1, inputs: 1, hidden: 3, means, log_rho: 0.25 };
            let (g, noise) = (numbers(4, 0), numbers(4, 1));
            let given = Given { contribution: &g, feature: &[], noise: &noise };
            let sample = network.sample(&network.initial(&Noise::new(1), 0), &given, &terms);
            for ((value, g), tau) in sample.value.iter().zip(&g).zip(&noise) {
                assert!((value - g - 0.25_f64.exp() * tau).abs() < 1e-15);
            }
            assert!(sample.bound.abs() < 1e-15);
        }
    }
}
