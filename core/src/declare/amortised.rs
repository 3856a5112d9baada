//! Gives rows local posteriors through an encoder that reads the row's data, in place of parameters for each row.

use burn::module::{Module, ModuleDisplay};

use super::encoding::{Encoder, Encoding};
use crate::declare::model::Model;
use crate::declare::rows::Rows;
use crate::declare::scope::Scope;
use crate::error::{Error, Result};

/// A model whose rows of one plate get their local posteriors from an encoder: amortised inference.
///
/// The encoder's parameters are point parameters like the model's own θ, and come last among them. They travel between
/// the parties, or stay in each silo if [`Amortised::private`]. The same encoder serves rows never seen in training.
///
/// # Example
/// ```
/// use partita_core::{
///     Amortised, Device, Encoded, Encoder, Encoding, Model, Normal, Result, Rows, Scope, SiteTable, burn,
/// };
/// use burn::{module::{Module, Param}, tensor::Tensor};
/// # #[derive(Module, Debug)]
/// # struct Means {}
/// # impl Model for Means {
/// #     type Globals = ();
/// #     type Data = Tensor<1>;
/// #     fn global(&self, _: &mut Scope) -> Result<()> { Ok(()) }
/// #     fn local(&self, scope: &mut Scope, _: &(), y: &Tensor<1>) -> Result<()> {
/// #         scope.plate("row", y.dims()[0], |s, rows| {
/// #             let z = s.sample("z", Normal::new(0.0, 1.0).over(rows))?;
/// #             s.observe("y", Normal::new(z, 1.0), rows.take(y)?)
/// #         })
/// #     }
/// # }
///
/// /// Means in proportion to the data, standard deviations of one.
/// #[derive(Module, Debug)]
/// struct Proportional { slope: Param<Tensor<1>> }
///
/// impl Encoder<Tensor<1>> for Proportional {
///     fn encode(&self, y: &Tensor<1>, rows: &Rows) -> Result<Encoding> {
///         let mean = (rows.take(y)? * self.slope.val()).reshape([rows.len(), 1]);
///         Ok(Encoding { log_scale: mean.zeros_like(), mean })
///     }
/// }
///
/// let device = Device::flex();
/// let encoder = Proportional { slope: Param::from_tensor(device.tensor(vec![0.5], [1])) };
/// // `Means` has the latent `z` in its plate `row`.
/// let model = Amortised::new(Means {}, "row", encoder);
/// let y = device.tensor(vec![1.0, 3.0], [2]);
/// let table = SiteTable::of(&model, &device, &y)?;
/// let second = Encoded::of(&model, &table, 0, &y, Some(&[1]))?;
/// assert_eq!(second.map(|row| row.parameters().to_vec()), Some(vec![1.5, 0.0]));
/// # Ok::<(), partita_core::Error>(())
/// ```
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

    /// Lets every silo train its own encoder, which never leaves it.
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
        let own = self.model.private_len();
        if own > 0 && !self.private {
            return Err(Error::Argument {
                operation: format!("the encoder of plate `{}`", self.plate),
                argument: "model",
                found: format!("a model that keeps {own} parameters private, with an encoder that parties share"),
                expected: "private parameters last: call `.private()` on this `Amortised` too",
            });
        }
        self.model.global(scope)
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Self::Globals, data: &Self::Data) -> Result<()> {
        self.model.local(scope, globals, data)?;
        scope.check_encoded(&self.plate)
    }

    fn encode(&self, plate: &str, data: &Self::Data, rows: &Rows<'_>) -> Result<Option<Encoding>> {
        if plate == self.plate {
            self.encoder.encode(data, rows).map(Some)
        } else {
            self.model.encode(plate, data, rows)
        }
    }

    fn private_len(&self) -> usize {
        if self.private { self.model.private_len() + Module::num_params(&self.encoder) } else { 0 }
    }
}
