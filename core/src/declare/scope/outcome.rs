//! Holds the result of a reading: sums on the host and on the tape, kept values, and the leaves of the tape.

use burn::tensor::Tensor;

use super::reading::Score;
use crate::array::Array;
use crate::handle::Handle;

/// The result of a reading.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) total: f64,
    pub(crate) tape: Option<Tensor<1>>,
    pub(crate) leaves: Vec<Leaf>,
    pub(crate) values: Vec<(String, Array)>,
    pub(crate) observed: Vec<(String, Array)>,
    /// Log densities of a plate row by row, and the part of them on the tape.
    pub(crate) rows: Vec<f64>,
    pub(crate) row_tape: Option<Tensor<1>>,
}

/// One latent site on the tape, with what its vector–Jacobian product to unconstrained numbers needs.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) site: usize,
    pub(crate) quantity: Quantity,
    pub(crate) handle: Handle,
    /// Unconstrained and constrained values; empty where the bijector is the identity.
    pub(crate) unconstrained: Vec<f64>,
    pub(crate) constrained: Vec<f64>,
    /// Gradient of densities evaluated off the tape; empty for none.
    pub(crate) host_gradient: Vec<f64>,
    /// The weight of the log-determinant and, if evaluated row by row, of the host's gradient.
    pub(crate) score: Score,
}

/// Which quantity of a site a leaf is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Its value, or its mean.
    Value,
    /// Its variance.
    Variance,
}

impl Outcome {
    /// Adds a log density: its number, and its node where gradients flow.
    pub(crate) fn add(&mut self, total: f64, tape: Option<Handle>) {
        self.total += total;
        add_node(&mut self.tape, tape.map(Handle::typed));
    }

    /// Adds a node whose value is added elsewhere.
    pub(crate) fn add_tape(&mut self, term: Tensor<1>) {
        add_node(&mut self.tape, Some(term));
    }

    /// Adds log densities of `rows` rows of a plate; `numbers` holds as many numbers for each row as there are events
    /// in it.
    pub(crate) fn add_rows(&mut self, rows: usize, numbers: &[f64], tape: Option<Handle>) {
        self.rows.resize(rows, 0.0);
        let each = (numbers.len() / rows.max(1)).max(1);
        for (slot, own) in self.rows.iter_mut().zip(numbers.chunks(each)) {
            *slot += own.iter().sum::<f64>();
        }
        add_node(&mut self.row_tape, tape.map(Handle::typed));
    }
}

fn add_node(sum: &mut Option<Tensor<1>>, term: Option<Tensor<1>>) {
    let Some(term) = term else { return };
    *sum = Some(match sum.take() {
        Some(sum) => sum + term,
        None => term,
    });
}
