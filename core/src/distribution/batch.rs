//! Carries a density with its parameters and batch shape: the argument of `sample` and `observe`.

use std::marker::PhantomData;
use std::ops::Range;

use burn::tensor::{Tensor, TensorCreationOptions};

use super::evaluate;
use super::law::Law;
use super::tape::ScoredRows;
use super::{Loss, NumberOrTensor, Support};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::operation::computes_on_host;
use crate::noise::NoiseStream;

/// Marks distributions with a density on real numbers: they may be latent.
#[derive(Debug, Clone, Copy)]
pub struct Continuous;

/// Marks distributions on counts and categories: they may only be observed.
#[derive(Debug, Clone, Copy)]
pub struct Discrete;

/// Marks the distributions that may be latent: those with a density on real numbers.
///
/// # Laws
/// Distributions of [`Continuous`] are latents and those of [`Discrete`] are not. The compiler enforces it, as the
/// example shows.
///
/// # Example
/// A count has no gradient, so that a model in which it is latent does not compile:
/// ```compile_fail,E0277
/// use partita_core::{Model, Poisson, Result, Scope, burn};
/// use burn::{module::Module, tensor::Tensor};
/// #[derive(Module, Debug)]
/// struct Counts {}
/// impl Model for Counts {
///     type Globals = Tensor<1>;
///     type Data = ();
///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("count", Poisson::log_rate(1.0)) }
///     fn local(&self, _: &mut Scope, _: &Tensor<1>, _: &()) -> Result<()> { Ok(()) }
/// }
/// ```
/// The same model with a continuous latent does:
/// ```
/// use partita_core::{Gamma, Model, Result, Scope, burn};
/// use burn::{module::Module, tensor::Tensor};
/// #[derive(Module, Debug)]
/// struct Counts {}
/// impl Model for Counts {
///     type Globals = Tensor<1>;
///     type Data = ();
///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("rate", Gamma::new(2.0, 1.0)) }
///     fn local(&self, _: &mut Scope, _: &Tensor<1>, _: &()) -> Result<()> { Ok(()) }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a discrete distribution cannot be latent: variational inference needs gradients, and a count has none; nor can a censored one",
    label = "this may only be observed",
    note = "observe it with `scope.observe(...)`, or sum it out of the density by hand and add the result with `scope.factor(...)`"
)]
pub trait Latent {}

impl<const D: usize> Latent for Distribution<D, Continuous> {}

/// Never constructed. With a second kind of latent the compiler cannot infer that the argument of `sample` is
/// continuous, and so prints the message above instead of a type mismatch.
enum Undecided {}

impl<const D: usize> Latent for Distribution<D, Undecided> {}

/// A distribution of tensors of rank `D`: a density, its parameters, and the shape of a value.
///
/// # Shapes
/// A value has shape `[batch..., event...]` with `D` dimensions in all; univariate densities have no event dimension.
/// Parameters are numbers, tensors of the batch shape, or tensors with one element that serve every event. Any other
/// broadcast is refused when the distribution is used.
#[derive(Debug, Clone)]
pub struct Distribution<const D: usize, S = Continuous> {
    pub(crate) law: Law,
    marker: PhantomData<S>,
}

impl<const D: usize, S> Distribution<D, S> {
    pub(crate) fn from_law(law: Law) -> Self {
        Self { law, marker: PhantomData }
    }

    /// Independent copies in a batch of `shape`.
    ///
    /// The distribution must be of one event: numbers or one-element tensors as parameters. Inside a plate the
    /// first dimension is the number of rows.
    #[must_use]
    pub fn iid<const E: usize>(mut self, shape: [usize; E]) -> Distribution<E, S> {
        if self.law.batch.iter().product::<usize>() != 1 || !self.law.event.is_empty() {
            self.law.defect = Some(Error::Shape {
                operation: format!("{}::iid", self.law.density.name()),
                found: self.law.shape(),
                expected: vec![1],
                remedy:
                    "Only a distribution of one number can be repeated; give its parameters the full shape instead."
                        .into(),
            });
        }
        self.law.batch = shape.to_vec();
        Distribution { law: self.law, marker: PhantomData }
    }

    /// The shape of a value.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        self.law.shape()
    }

    /// Where values lie, taken from the first event's parameters.
    ///
    /// # Errors
    /// [`Error::Shape`] for parameters that do not fit; [`Error::Device`] if they cannot be read.
    pub fn support(&self) -> Result<Support> {
        let arrays = self.law.arrays()?;
        Ok(self.law.view(&arrays).support())
    }

    /// The mean, or `None` where any event has none.
    ///
    /// # Errors
    /// As for [`Distribution::support`].
    pub fn mean(&self) -> Result<Option<Array>> {
        self.law.moment(|density, parameters| density.mean(parameters))
    }

    /// The variance of each number, or `None` where any event has none.
    ///
    /// # Errors
    /// As for [`Distribution::support`].
    pub fn variance(&self) -> Result<Option<Array>> {
        self.law.moment(|density, parameters| density.variance(parameters))
    }

    /// Draws one value.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its domain; otherwise as for [`Distribution::support`].
    pub fn draw(&self, noise: &mut NoiseStream) -> Result<Array> {
        self.law.draw(noise)
    }

    /// The log density of a value on the host, summed over the batch, in nats.
    ///
    /// # Errors
    /// [`Error::Support`] or [`Error::NotFinite`] for a bad value, [`Error::Parameter`] for a bad parameter,
    /// [`Error::Shape`] for a value of another shape.
    pub fn log_prob_of(&self, value: &Array) -> Result<f64> {
        let arrays = self.law.arrays()?;
        self.law.check_shape(|| "log_prob_of".into(), &value.shape)?;
        let view = self.law.view(&arrays);
        view.check("log_prob_of", &value.values)?;
        self.law.check_order("log_prob_of", &view, &value.values)?;
        Ok(view.evaluate(&value.values, 1.0, &evaluate::Wanted::default()).total)
    }

    /// The `loss` of a value on the host, summed over the events of the batch; see [`Loss`].
    ///
    /// # Errors
    /// As for [`Distribution::log_prob_of`]; [`Error::Argument`] for an index outside its domain, [`Error::Loss`] for a
    /// distribution without the normalising integral that the loss needs, [`Error::NotFiniteMade`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Loss, Normal};
    /// // -2 N(0|0,1)^½ + ⅔ ∫ N^1.5, and the shift 1/0.5 - 1 = 1.
    /// let loss = Normal::new(0.0, 1.0).loss_of(Loss::Beta(1.5), &Array::scalar(0.0))?;
    /// assert!((loss - 1.0 + 0.919_427_840_505_9).abs() < 1e-9);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn loss_of(&self, loss: Loss, value: &Array) -> Result<f64> {
        loss.check()?;
        let arrays = self.law.arrays()?;
        self.law.check_shape(|| "loss_of".into(), &value.shape)?;
        let view = self.law.view(&arrays);
        view.check("loss_of", &value.values)?;
        if loss.is_log() {
            return Ok(-view.evaluate(&value.values, 1.0, &evaluate::Wanted::default()).total);
        }
        let found = view.evaluate_loss(loss, &value.values, 1.0, &evaluate::Wanted::default());
        let total = -found.map_err(|error| error.at(|| "loss_of".into()))?.total;
        view.finite(&value.values, total).map_err(|error| error.at(|| "loss_of".into()))?;
        Ok(total)
    }

    /// The log density of each event of a tensor, in nats: one node of the tape.
    ///
    /// # Shapes
    /// `value`: the shape of the distribution. Returns the same, but with length 1 in the dimension of a vector event.
    ///
    /// # Errors
    /// As for [`Distribution::log_prob_of`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Exponential};
    /// let times = Device::flex().tensor(vec![1.0, 3.0], [2]);
    /// let each = Exponential::new(1.0).iid([2]).log_prob_each(times)?;
    /// assert_eq!(each.into_data().try_into_vec::<f64>().unwrap(), [-1.0, -3.0]);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn log_prob_each(&self, value: Tensor<D>) -> Result<Tensor<D>> {
        computes_on_host("log_prob_each");
        let handle = Handle::from(value);
        let array = handle.read()?;
        self.law.check_shape(|| "log_prob_each".into(), &array.shape)?;
        self.law.check("log_prob_each", &array.values)?;
        let found = self.law.clone().score_events(handle.clone());
        let ScoredRows { rows, tape } = found.map_err(|error| error.at(|| "log_prob_each".into()))?;
        let mut shape = [1; D];
        shape.iter_mut().zip(&self.law.batch).for_each(|(slot, length)| *slot = *length);
        if let Some(tape) = tape {
            return Ok(tape.typed::<1>().reshape(shape));
        }
        let value: Tensor<D> = handle.typed();
        let options = TensorCreationOptions::new(value.device()).with_dtype(value.dtype());
        Ok(Tensor::<1>::from_data(rows.as_slice(), options).reshape(shape))
    }

    /// The log density of a tensor, summed over the batch, in nats: one node of the tape.
    ///
    /// # Shapes
    /// `value`: the shape of the distribution. Returns shape `[1]`.
    ///
    /// # Errors
    /// As for [`Distribution::log_prob_of`].
    pub fn log_prob(&self, value: Tensor<D>) -> Result<Tensor<1>> {
        computes_on_host("log_prob");
        let handle = Handle::from(value);
        let array = handle.read()?;
        let total = self.log_prob_of(&array)?;
        let scored = self.law.clone().score(handle.clone(), 1.0).map_err(|error| error.at(|| "log_prob".into()))?;
        match scored.tape {
            Some(tape) => Ok(tape.typed()),
            None => {
                let value: Tensor<D> = handle.typed();
                let options = TensorCreationOptions::new(value.device()).with_dtype(value.dtype());
                Ok(Tensor::from_data([total], options))
            }
        }
    }
}

impl<S> Distribution<1, S> {
    /// The distribution of the events in `range`; unchanged if it is of one number that serves every event.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let length = range.len();
        let law = if self.law.is_single() { self.law.clone() } else { self.law.part(range, [length]) };
        Self::from_law(law)
    }
}

impl<const D: usize> Distribution<D, Continuous> {
    /// Asks for the non-centred parametrisation: the latent is the standardised value.
    ///
    /// For location-scale distributions the latent becomes $z = (x - \text{location})/\text{scale}$, and `sample`
    /// returns $x = \text{location} + \text{scale}\cdot z$. Use it for random effects whose scale is itself unknown
    /// and that have few data each (Papaspiliopoulos, Roberts and Sköld, 2007), and for a global far from zero, whose
    /// posterior mean then starts at the location of its prior.
    #[must_use]
    pub fn non_centred(mut self) -> Self {
        self.law.non_centred = true;
        self
    }

    /// Starts the posterior mean of the site at `value`, a value of the site on its natural scale: one number for all
    /// of it, or a tensor of its shape.
    ///
    /// The value goes through the bijector of the support to the unconstrained scale, and through location and scale
    /// where the site is [`Distribution::non_centred`]. It is refused where the site is read if it lies outside the
    /// support. Chains of the sampler start around it. It changes neither the density nor the draws of the prior.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Gamma, Model, Normal, Result, Scope, SiteTable, burn};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    /// #[derive(Module, Debug)]
    /// struct Year {}
    /// impl Model for Year {
    ///     type Globals = Tensor<1>;
    ///     type Data = ();
    ///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> {
    ///         scope.sample("rate", Gamma::new(2.0, 1.0).start(3.0))?;
    ///         scope.sample("year", Normal::new(0.0, 1e4).start(1_950.0).start_scale(10.0))
    ///     }
    ///     fn local(&self, _: &mut Scope, _: &Tensor<1>, _: &()) -> Result<()> { Ok(()) }
    /// }
    ///
    /// let table = SiteTable::globals(&Year {}, &Device::flex())?;
    /// assert_eq!(table.start(), [3.0_f64.ln(), 1_950.0]);
    /// assert_eq!(table.start_scales(0.1), Some(vec![0.1, 10.0]));
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    #[must_use]
    pub fn start(mut self, value: impl Into<NumberOrTensor<D>>) -> Self {
        self.law.start = Some(value.into().0);
        self
    }

    /// Starts the posterior standard deviations of the site at `scale`, on the unconstrained scale, in place of that of
    /// the family plan; chains of the sampler start within so many times their radius. See [`Distribution::start`].
    #[must_use]
    pub fn start_scale(mut self, scale: f64) -> Self {
        self.law.start_scale = Some(scale);
        self
    }
}
