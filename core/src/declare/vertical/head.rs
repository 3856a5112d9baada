//! Defines the part of the label holder in a vertical model: the head's latents, and the labels given the predictor.

use burn::module::Module;
use burn::tensor::Tensor;

use super::Columns;
use crate::declare::rows::Rows;
use crate::declare::scope::Scope;
use crate::error::Result;

/// The distribution of labels given the sum of all contributions: $`p(y \mid \eta, \gamma)`$ with the prior
/// $`p(\gamma)`$.
///
/// # Laws
/// As for [`super::Contribution`]; given the latents, the label of a row depends on the predictor of that row alone.
///
/// # Example
/// ```
/// use partita_core::vertical::Head;
/// use partita_core::{Bernoulli, Result, Rows, Scope, burn};
/// use burn::{module::Module, tensor::{Tensor, activation::sigmoid}};
///
/// #[derive(Module, Debug)]
/// struct YesOrNo {}
///
/// impl Head for YesOrNo {
///     type Latents = ();
///     type Data = Tensor<2>;
///     fn outputs(&self) -> usize { 1 }
///     fn prior(&self, _: &mut Scope<'_>) -> Result<()> { Ok(()) }
///     fn observe(&self, scope: &mut Scope<'_>, _: &(), eta: Tensor<2>, rows: &Rows<'_>, y: &Tensor<2>) -> Result<()> {
///         scope.observe("y", Bernoulli::logits(eta), rows.take(y)?)
///     }
///     fn mean(&self, _: &(), eta: Tensor<2>, _: &Rows<'_>, _: &Tensor<2>) -> Result<Tensor<2>> { Ok(sigmoid(eta)) }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no head of a vertical model",
    note = "implement `vertical::Head` for it, or take a ready-made one of `partita::vertical`; derive `burn::module::Module` first"
)]
pub trait Head: Module + 'static {
    /// The latents $`\gamma`$ on their natural scale: an intercept, a noise scale, or nothing.
    type Latents: Send + 'static;
    /// The labels, with anything else the head needs for each row, such as an offset.
    type Data: Columns + 'static;

    /// Numbers in the predictor of one row.
    fn outputs(&self) -> usize;

    /// Declares the latents and returns their values.
    ///
    /// # Errors
    /// Those of [`Scope::sample`].
    fn prior(&self, scope: &mut Scope<'_>) -> Result<Self::Latents>;

    /// Observes the labels of these rows, inside the plate `row`.
    ///
    /// # Shapes
    /// `eta`: `[rows.len(), outputs]`.
    ///
    /// # Errors
    /// Those of [`Scope::observe`].
    fn observe(
        &self,
        scope: &mut Scope<'_>,
        latents: &Self::Latents,
        eta: Tensor<2>,
        rows: &Rows<'_>,
        data: &Self::Data,
    ) -> Result<()>;

    /// The mean of the label of each row: a probability, class probabilities, a rate or a mean.
    ///
    /// # Shapes
    /// `eta`: `[rows.len(), outputs]`; returns `[rows.len(), ...]`.
    ///
    /// # Errors
    /// Those of taking rows.
    fn mean(&self, latents: &Self::Latents, eta: Tensor<2>, rows: &Rows<'_>, data: &Self::Data) -> Result<Tensor<2>>;
}
