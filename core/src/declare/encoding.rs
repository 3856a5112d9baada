//! Defines an encoder: a module that turns the data of rows into their local posteriors.

use burn::module::Module;
use burn::tensor::Tensor;

use super::rows::Rows;
use crate::error::Result;

/// Gaussian local posteriors of some rows, independent over rows and columns, on the unconstrained scale.
///
/// # Shapes
/// Both `[rows, width]` with the rows evaluated and the width of the plate's block in the site table.
#[derive(Debug, Clone)]
pub struct Encoding {
    /// The means.
    pub mean: Tensor<2>,
    /// The logarithms of the standard deviations.
    pub log_scale: Tensor<2>,
}

/// A Burn module that turns the data of rows into their local posteriors.
///
/// # Laws
/// The local posterior of a row does not depend on the other rows encoded with it: no statistics over a batch. `check`
/// tests this for a model with an encoder.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no encoder of `{D}`",
    note = "implement `Encoder` for it with the type of the model's data; derive `burn::module::Module` first"
)]
pub trait Encoder<D>: Module + 'static {
    /// The local posteriors of these rows of `data`.
    ///
    /// # Errors
    /// Those of taking the rows.
    fn encode(&self, data: &D, rows: &Rows<'_>) -> Result<Encoding>;
}
