//! Defines a model: two functions that declare its global and its local sites.

use burn::module::Module;

use crate::declare::encoding::Encoding;
use crate::declare::rows::Rows;
use crate::declare::scope::Scope;
use crate::error::Result;

/// A probability model of data that several silos hold.
///
/// [`Model::global`] declares the sites that all silos share, [`Model::local`] the latents and observations of one silo
/// given the globals. No global can be counted twice, and the signature shows what stays in a silo. A model is a Burn
/// module: parameters that it holds as `Param` are trained as point parameters $\theta$ (empirical Bayes).
///
/// # Laws
/// At every evaluation a model declares the same sites, with the same shapes, in the same order. Given the globals,
/// silos are independent, and so are the rows of a plate. `laws::model` checks gradients against differences.
///
/// # Example
/// ```
/// use partita_core::{Device, Model, Normal, Result, Scope, SiteTable, burn};
/// use burn::{module::Module, tensor::Tensor};
///
/// #[derive(Module, Debug)]
/// struct Mean {}
///
/// impl Model for Mean {
///     type Globals = Tensor<1>;
///     type Data = Tensor<1>;
///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> {
///         scope.sample("mean", Normal::new(0.0, 10.0))
///     }
///     fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
///         scope.plate("row", data.dims()[0], |scope, rows| {
///             scope.observe("y", Normal::new(mean.clone(), 1.0).over(rows), rows.take(data)?)
///         })
///     }
/// }
///
/// let device = Device::flex();
/// let table = SiteTable::of(&Mean {}, &device, &device.tensor(vec![1.0, 2.0], [2]))?;
/// assert_eq!(table.global_len(), 1);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no model",
    note = "implement `Model` for it: `global` samples what silos share and `local` says how a silo's data arise; derive `burn::module::Module` first"
)]
pub trait Model: Module + 'static {
    /// The global latents on their natural scale, as the local function reads them: a plain struct of tensors.
    type Globals;
    /// One silo's data; it never leaves the silo.
    type Data: Clone + Send + Sync;

    /// Declares the global sites and returns their values.
    ///
    /// # Errors
    /// Those of [`Scope::sample`].
    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals>;

    /// Declares one silo's local sites and observations.
    ///
    /// # Errors
    /// Those of [`Scope::sample`], [`Scope::plate`] and [`Scope::observe`].
    fn local(&self, scope: &mut Scope<'_>, globals: &Self::Globals, data: &Self::Data) -> Result<()>;

    /// Local posteriors of these rows of `plate` from an encoder, or `None` where each row has parameters of its own.
    ///
    /// [`crate::Amortised`] gives any model an encoder.
    ///
    /// # Errors
    /// Those of taking the rows.
    fn encode(&self, _plate: &str, _data: &Self::Data, _rows: &Rows<'_>) -> Result<Option<Encoding>> {
        Ok(None)
    }

    /// How many of the point parameters, the last that Burn visits, stay in each silo.
    fn private_len(&self) -> usize {
        0
    }
}
