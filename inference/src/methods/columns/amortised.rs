//! Computes the small network that gives every row the mean and scale of its auxiliary variable, and its gradient.

use std::ops::Range;

use partita_core::kernel::{
    TanhNetwork, TanhNetworkBack, add_scaled, exponential, tanh_network, tanh_network_back, tanh_network_back_single,
    tanh_network_single,
};
use partita_core::{Key, Noise, Precision, Purpose};

use crate::methods::columns::auxiliary::{Given, Sample, Upstream};
use crate::methods::columns::terms::{Reached, Terms};

/// A network of one hidden layer with a linear path beside it, the same for all rows of a party.
///
/// ```math
/// (\mu_i - g_i,\ \log\sigma_i - \log\rho) = W_2 \tanh(W_1 u_i + b_1) + A u_i + b_2
/// ```
/// with $`u_i`$ the contribution $`g_i`$ and, where parties have the labels, a feature of the label. Without
/// [`AmortisedNetwork::means`] it gives scales alone, and $`\mu_i = g_i`$. $`W_2`$ and $`A`$ start at zero: means at
/// the contributions, scales at the prior's or at a share of it.
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
    /// The first scales as a share of $`\rho`$.
    pub(super) start: f64,
    pub(super) log_rho: f64,
}

/// Rows that pass through the network together: what is computed of them stays in the first-level cache.
const TILE: usize = 512;

/// The tiles of so many rows.
fn tiles(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(TILE).map(move |start| start..(start + TILE).min(rows))
}

/// Writes the columns of a row-major table one after another.
fn by_column(table: &[f64], width: usize, out: &mut [f64]) {
    if width == 1 {
        return out.copy_from_slice(table);
    }
    for (column, own) in out.chunks_exact_mut((table.len() / width).max(1)).enumerate() {
        own.iter_mut().zip(table.iter().skip(column).step_by(width)).for_each(|(slot, value)| *slot = *value);
    }
}

/// Adds columns that lie one after another to a row-major table.
fn add_columns(columns: &[f64], width: usize, table: &mut [f64]) {
    if width == 1 {
        return add_scaled(table, 1.0, columns);
    }
    for (column, own) in columns.chunks_exact((table.len() / width).max(1)).enumerate() {
        table.iter_mut().skip(column).step_by(width).zip(own).for_each(|(slot, value)| *slot += value);
    }
}

impl AmortisedNetwork {
    /// Numbers that the network gives of a row.
    fn heads(&self) -> usize {
        self.outputs * if self.means { 2 } else { 1 }
    }

    fn network<'p>(&self, parameters: &'p [f64]) -> TanhNetwork<'p> {
        TanhNetwork { parameters, inputs: self.inputs, hidden: self.hidden, heads: self.heads() }
    }

    pub(super) fn parameter_len(&self) -> usize {
        self.network(&[]).lengths().iter().sum()
    }

    /// The parameters at the start.
    pub(super) fn initial(&self, noise: &Noise, party: u32) -> Vec<f64> {
        let mut parameters = vec![0.0; self.parameter_len()];
        let key = Key::new(Purpose::Initial, 0).silo(party);
        noise.stream(key).normal(&mut parameters[..self.hidden * (self.inputs + 1)]);
        let length = parameters.len();
        parameters[length - self.outputs..].fill(self.start.ln());
        parameters
    }

    /// The network's inputs for the rows whose numbers are `flat`, column by column.
    fn read(&self, given: &Given<'_>, flat: &Range<usize>, inputs: &mut [f64]) {
        let (own, labels) = inputs.split_at_mut(flat.len());
        by_column(&given.contribution[flat.clone()], self.outputs, own);
        if !labels.is_empty() {
            by_column(&given.feature[flat.clone()], self.outputs, labels);
        }
    }

    /// The auxiliary variables of the rows, all numbers `[rows, outputs]`.
    pub(super) fn sample(&self, parameters: &[f64], given: &Given<'_>, terms: &Terms) -> Sample {
        let (size, heads) = (given.contribution.len(), self.heads());
        let mut sample = Sample {
            mean: Vec::with_capacity(if self.means { size } else { 0 }),
            scale: Vec::with_capacity(size),
            value: Vec::with_capacity(size),
            bound: 0.0,
        };
        let mut buffer = vec![0.0; TILE * (self.inputs + heads + self.outputs)];
        for tile in tiles(size / self.outputs) {
            let (flat, count) = (tile.start * self.outputs..tile.end * self.outputs, tile.len());
            let (inputs, rest) = buffer.split_at_mut(self.inputs * count);
            let (outputs, rest) = rest.split_at_mut(heads * count);
            let log_scale = &mut rest[..flat.len()];
            self.read(given, &flat, inputs);
            match terms.precision {
                Precision::Double => tanh_network(self.network(parameters), inputs, outputs),
                Precision::Single => tanh_network_single(self.network(parameters), inputs, outputs),
            }
            let (means, log_scales) = outputs.split_at((heads - self.outputs) * count);
            let contribution = &given.contribution[flat.clone()];
            if self.means {
                sample.mean.extend_from_slice(contribution);
                add_columns(means, self.outputs, &mut sample.mean[flat.clone()]);
            }
            log_scale.fill(self.log_rho);
            add_columns(log_scales, self.outputs, log_scale);
            sample.scale.extend_from_slice(log_scale);
            exponential(&mut sample.scale[flat.clone()]);
            sample.draw(contribution, &given.noise[flat.clone()], flat.start);
            sample.bound += terms.bound(&sample.around(given, flat), log_scale);
        }
        sample
    }

    /// Adds the gradient by the parameters to `out`, and gives that by the contributions along every path, from the
    /// gradient by the auxiliary variables.
    pub(super) fn vjp(&self, parameters: &[f64], upstream: &Upstream<'_>, out: &mut [f64]) -> Vec<f64> {
        let Upstream { sample, given, terms, by_value } = *upstream;
        let (size, heads) = (by_value.len(), self.heads());
        let mut by_contribution = vec![0.0; size];
        let mut buffer = vec![0.0; TILE * (self.inputs + heads + 3 * self.outputs)];
        for tile in tiles(size / self.outputs) {
            let (flat, count) = (tile.start * self.outputs..tile.end * self.outputs, tile.len());
            let (inputs, rest) = buffer.split_at_mut(self.inputs * count);
            let (by_head, rest) = rest.split_at_mut(heads * count);
            let (mean, rest) = rest.split_at_mut(flat.len());
            let (log_scale, rest) = rest.split_at_mut(flat.len());
            let by_input = &mut rest[..flat.len()];
            let mut slots = Reached { mean, log_scale, contribution: &mut by_contribution[flat.clone()] };
            terms.reach(&sample.around(given, flat.clone()), &by_value[flat.clone()], &mut slots);
            let Reached { mean, log_scale, contribution } = slots;
            add_scaled(contribution, 1.0, mean);
            self.read(given, &flat, inputs);
            let (by_means, by_log_scales) = by_head.split_at_mut((heads - self.outputs) * count);
            if self.means {
                by_column(mean, self.outputs, by_means);
            }
            by_column(log_scale, self.outputs, by_log_scales);
            by_input.fill(0.0);
            let back = TanhNetworkBack { rows: inputs, upstream: by_head, by_rows: by_input, by_parameters: out };
            match terms.precision {
                Precision::Double => tanh_network_back(self.network(parameters), back),
                Precision::Single => tanh_network_back_single(self.network(parameters), back),
            }
            add_columns(by_input, self.outputs, contribution);
        }
        by_contribution
    }
}
