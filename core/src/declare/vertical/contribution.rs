//! Defines one party's part of a vertical model: its prior, and what it adds to the predictor of each row.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::declare::design::Design;
use crate::declare::rows::Rows;
use crate::declare::scope::Scope;
use crate::error::Result;

/// One party's columns of rows that all parties share.
///
/// # Laws
/// A clone has as many rows. All parties must have as many rows as there are labels: an error names a party that has
/// not (`tests/columns/failure.rs`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` are no columns of a party",
    note = "a party's columns are a `Design`, a tensor with one row in its first dimension for each row of data, or a type that implements `Columns` by saying its number of rows"
)]
pub trait Columns: Clone + Send {
    /// The number of rows.
    fn rows(&self) -> usize;
}

impl<const D: usize> Columns for Design<D> {
    fn rows(&self) -> usize {
        self.shape()[0]
    }
}

impl<const D: usize> Columns for Tensor<D> {
    fn rows(&self) -> usize {
        self.dims()[0]
    }
}

/// One party's contribution to the predictor: $`g_j(x_j, \theta_j)`$ with the prior $`p_j(\theta_j)`$.
///
/// Each party chooses its own, with the statements of any model: [`Contribution::prior`] samples latents as
/// [`crate::Model::global`] does. A contribution is a Burn module: parameters it holds as `Param` are trained as point
/// parameters, and never leave the party.
///
/// # Laws
/// At every evaluation the prior declares the same sites, with the same shapes, in the same order. Given the latents,
/// the output of a row depends on that row alone.
///
/// # Example
/// ```
/// use partita_core::vertical::Contribution;
/// use partita_core::{Design, Normal, Result, Rows, Scope, burn};
/// use burn::{module::Module, tensor::Tensor};
///
/// #[derive(Module, Debug)]
/// struct Slopes {
///     #[module(skip)]
///     columns: usize,
/// }
///
/// impl Contribution for Slopes {
///     type Latents = Tensor<1>;
///     type Data = Design;
///     fn prior(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
///         scope.sample("beta", Normal::new(0.0, 1.0).iid([self.columns]))
///     }
///     fn contribute(&self, beta: &Tensor<1>, rows: &Rows<'_>, data: &Design) -> Result<Tensor<2>> {
///         data.take(rows)?.predictor(beta.clone(), None)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no contribution of a party",
    note = "implement `vertical::Contribution` for it: `prior` samples its latents and `contribute` returns predictors; derive `burn::module::Module` first"
)]
pub trait Contribution: Module + 'static {
    /// The latents $`\theta_j`$ on their natural scale: a plain struct of tensors.
    type Latents: Send + 'static;
    /// The party's columns; they never leave it.
    type Data: Columns + 'static;

    /// Declares the party's latents and returns their values.
    ///
    /// # Errors
    /// Those of [`Scope::sample`].
    fn prior(&self, scope: &mut Scope<'_>) -> Result<Self::Latents>;

    /// The party's contribution to the predictors of these rows.
    ///
    /// # Shapes
    /// Returns `[rows.len(), outputs]`: one output for most heads, one for each class for a categorical head.
    ///
    /// # Errors
    /// Those of taking rows or computing with them.
    fn contribute(&self, latents: &Self::Latents, rows: &Rows<'_>, data: &Self::Data) -> Result<Tensor<2>>;

    /// The standard deviation of a normal prior with mean 0 for every point parameter, which are then trained to the
    /// posterior mode; `None` for maximum likelihood.
    fn weight_prior(&self) -> Option<f64> {
        None
    }
}
