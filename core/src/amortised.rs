//! Gives rows local posteriors through an encoder that reads the row's data, in place of parameters for each row.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::Tensor;

use crate::error::Result;
use crate::model::Model;
use crate::rows::Rows;
use crate::scope::Scope;

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
pub trait Encoder<D>: Module {
    /// The local posteriors of these rows of `data`.
    ///
    /// # Errors
    /// What taking the rows refuses.
    fn encode(&self, data: &D, rows: &Rows<'_>) -> Result<Encoding>;
}

/// A model whose rows of one plate get their local posteriors from an encoder: amortised inference.
///
/// The encoder's parameters are trained like the model's own θ, of which they are the last. They travel between the
/// parties, or stay in each silo if [`Amortised::private`]. Rows never seen in training are served by the same encoder.
///
/// # References
/// Kingma and Welling (2014), Auto-encoding variational Bayes.
#[derive(Module, Debug)]
pub struct Amortised<M: Module, E: Module> {
    model: M,
    encoder: E,
    #[module(skip)]
    plate: String,
    #[module(skip)]
    private: bool,
}

impl<M: Module, E: Module> Amortised<M, E> {
    /// The model with local posteriors of `plate` from `encoder`, whose parameters all parties share.
    #[must_use]
    pub fn new(model: M, plate: &str, encoder: E) -> Self {
        Self { model, encoder, plate: plate.to_owned(), private: false }
    }

    /// Lets every silo train an encoder of its own, which never leaves it.
    #[must_use]
    pub fn private(self) -> Self {
        Self { private: true, ..self }
    }

    /// The model without its encoder.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The encoder.
    #[must_use]
    pub fn encoder(&self) -> &E {
        &self.encoder
    }
}

impl<M: Model + ModuleDisplay, E: Encoder<M::Data> + ModuleDisplay> Model for Amortised<M, E> {
    type Globals = M::Globals;
    type Data = M::Data;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        self.model.global(scope)
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Self::Globals, data: &Self::Data) -> Result<()> {
        self.model.local(scope, globals, data)
    }

    fn encode(&self, plate: &str, data: &Self::Data, rows: &Rows<'_>) -> Result<Option<Encoding>> {
        if plate == self.plate { self.encoder.encode(data, rows).map(Some) } else { Ok(None) }
    }

    fn private_len(&self) -> usize {
        if self.private { Module::num_params(&self.encoder) } else { 0 }
    }
}
