//! Defines the distributions of labels given the sum of contributions: binary, counts, measurements, classes.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::Tensor;
use burn::tensor::activation::softmax;
use partita_core::vertical::{Columns, Head};
use partita_core::{
    Bernoulli, Categorical, Device, Distribution, Error, HalfNormal, Normal, Poisson, Result, Rows, Scope,
};

use crate::sigmoid::sigmoid;

/// Binary labels as the column `[rows, 1]` of ones and zeros that [`BernoulliHead`] takes.
#[must_use]
pub fn binary_labels(labels: &[bool], device: &Device) -> Tensor<2> {
    device.tensor(labels.iter().map(|label| f64::from(u8::from(*label))).collect(), [labels.len(), 1])
}

/// A head whose predictors are shifted by an intercept for each output: $`b_k + \eta_{ik}`$ in place of
/// $`\eta_{ik}`$.
///
/// # Shapes
/// Latent: `intercept` `[outputs]`, before those of the head.
///
/// # Example
/// ```
/// use partita_core::{Device, Normal, vertical::{Labels, LikelihoodAt}};
/// use partita_models::vertical::{BernoulliHead, WithIntercept, binary_labels};
/// let device = Device::flex();
/// let head = WithIntercept::new(BernoulliHead {}, Normal::new(0.0, 1.0));
/// let labels = Labels::new(head, binary_labels(&[true, false], &device));
/// let at = LikelihoodAt { latents: &[0.0], eta: &[0.0, 0.0], rows: None, weight: 1.0 };
/// let share = labels.likelihood(&device, &labels.table(&device)?, at)?;
/// assert!((share.value - 2.0 * 0.5_f64.ln()).abs() < 1e-15);
/// assert_eq!(share.eta, [0.5, -0.5]);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Module, Debug)]
pub struct WithIntercept<H: Head + ModuleDisplay> {
    head: H,
    #[module(skip)]
    prior: Distribution<1>,
}

impl<H: Head + ModuleDisplay> WithIntercept<H> {
    /// The head with this prior, of one number, for each intercept.
    #[must_use]
    pub fn new(head: H, prior: Distribution<1>) -> Self {
        Self { head, prior }
    }
}

impl<H: Head + ModuleDisplay> Head for WithIntercept<H> {
    type Latents = (Tensor<1>, H::Latents);
    type Data = H::Data;

    fn outputs(&self) -> usize {
        self.head.outputs()
    }

    fn prior(&self, scope: &mut Scope<'_>) -> Result<Self::Latents> {
        Ok((scope.sample("intercept", self.prior.clone().iid([self.outputs()]))?, self.head.prior(scope)?))
    }

    fn observe(
        &self,
        scope: &mut Scope<'_>,
        (intercept, latents): &Self::Latents,
        eta: Tensor<2>,
        rows: &Rows<'_>,
        data: &Self::Data,
    ) -> Result<()> {
        self.head.observe(scope, latents, shifted(eta, intercept), rows, data)
    }

    fn mean(
        &self,
        (intercept, latents): &Self::Latents,
        eta: Tensor<2>,
        rows: &Rows<'_>,
        data: &Self::Data,
    ) -> Result<Tensor<2>> {
        self.head.mean(latents, shifted(eta, intercept), rows, data)
    }
}

/// $`b_k + \eta_{ik}`$ with $`b`$ = `intercept`.
fn shifted(eta: Tensor<2>, intercept: &Tensor<1>) -> Tensor<2> {
    let intercept = intercept.clone().unsqueeze::<2>();
    match eta.dims() {
        // The gradient by one intercept is a sum along a row, which Burn 0.22.1 takes in vectors: down a column it adds number by
        // number.
        [rows, 1] => (eta.reshape([1, rows]) + intercept).reshape([rows, 1]),
        _ => eta + intercept,
    }
}

/// Binary labels: $`\operatorname{logit}\Pr(y_i = 1) = \eta_i`$.
///
/// # Shapes
/// No latents. Data: labels `[rows, 1]` of [`binary_labels`].
#[derive(Module, Debug)]
pub struct BernoulliHead {}

impl Head for BernoulliHead {
    type Latents = ();
    type Data = Tensor<2>;

    fn outputs(&self) -> usize {
        1
    }

    fn prior(&self, _: &mut Scope<'_>) -> Result<()> {
        Ok(())
    }

    fn observe(&self, scope: &mut Scope<'_>, (): &(), eta: Tensor<2>, rows: &Rows<'_>, data: &Tensor<2>) -> Result<()> {
        scope.observe("y", Bernoulli::logits(eta), rows.take(data)?)
    }

    fn mean(&self, (): &(), eta: Tensor<2>, _: &Rows<'_>, _: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(sigmoid(eta))
    }
}

/// Counts with the logarithm of their exposure, such as a population.
#[derive(Debug, Clone)]
pub struct Counts {
    counts: Tensor<2>,
    offset: Tensor<2>,
}

impl Counts {
    /// Counts over `exposure`: the offset of a row is its logarithm.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is one exposure for each count; [`Error::Argument`] for an exposure that is not
    /// positive.
    pub fn new(counts: Vec<f64>, exposure: &[f64], device: &Device) -> Result<Self> {
        let rows = counts.len();
        let remedy = "Give one exposure for each count; 1 where there is none.";
        Error::same_length("exposures of counts", exposure.len(), rows, remedy)?;
        if let Some(found) = exposure.iter().find(|exposure| !(**exposure > 0.0 && exposure.is_finite())) {
            return Err(Error::argument("exposures of counts", "exposure", found, "finite numbers > 0"));
        }
        let offset = exposure.iter().map(|exposure| exposure.ln()).collect();
        Ok(Self { counts: device.tensor(counts, [rows, 1]), offset: device.tensor(offset, [rows, 1]) })
    }
}

impl Columns for Counts {
    fn rows(&self) -> usize {
        self.counts.dims()[0]
    }
}

/// Counts: $`y_i \sim \mathrm{Poisson}(e_i \exp\eta_i)`$ with the exposure $`e_i`$ of [`Counts`].
///
/// # Shapes
/// No latents. Data: [`Counts`].
#[derive(Module, Debug)]
pub struct PoissonHead {}

impl Head for PoissonHead {
    type Latents = ();
    type Data = Counts;

    fn outputs(&self) -> usize {
        1
    }

    fn prior(&self, _: &mut Scope<'_>) -> Result<()> {
        Ok(())
    }

    fn observe(&self, scope: &mut Scope<'_>, (): &(), eta: Tensor<2>, rows: &Rows<'_>, data: &Counts) -> Result<()> {
        scope.observe("y", Poisson::log_rate(eta + rows.take(&data.offset)?), rows.take(&data.counts)?)
    }

    fn mean(&self, (): &(), eta: Tensor<2>, rows: &Rows<'_>, data: &Counts) -> Result<Tensor<2>> {
        Ok((eta + rows.take(&data.offset)?).exp())
    }
}

/// Measurements: $`y_i \sim N(\eta_i, \sigma^2)`$.
///
/// # Shapes
/// Latent: `noise_scale` `[1]`, unless it is known. Data: `[rows, 1]`.
#[derive(Module, Debug)]
pub struct GaussianHead {
    #[module(skip)]
    scale: Option<f64>,
}

impl GaussianHead {
    /// Measurements with the standard deviation `scale`, or one that is inferred under the prior
    /// $`\mathrm{HalfNormal}(1)`$.
    #[must_use]
    pub fn new(scale: Option<f64>) -> Self {
        Self { scale }
    }
}

impl Head for GaussianHead {
    type Latents = Option<Tensor<1>>;
    type Data = Tensor<2>;

    fn outputs(&self) -> usize {
        1
    }

    fn prior(&self, scope: &mut Scope<'_>) -> Result<Self::Latents> {
        self.scale.is_none().then(|| scope.sample("noise_scale", HalfNormal::new(1.0))).transpose()
    }

    fn observe(
        &self,
        scope: &mut Scope<'_>,
        scale: &Self::Latents,
        eta: Tensor<2>,
        rows: &Rows<'_>,
        data: &Tensor<2>,
    ) -> Result<()> {
        let y = rows.take(data)?;
        match scale {
            Some(scale) => scope.observe("y", Normal::new(eta, scale.clone()), y),
            None => scope.observe("y", Normal::new(eta, self.scale.unwrap_or(1.0)), y),
        }
    }

    fn mean(&self, _: &Self::Latents, eta: Tensor<2>, _: &Rows<'_>, _: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(eta)
    }
}

/// Classes: $`\Pr(y_i = k) \propto \exp\eta_{ik}`$.
///
/// # Shapes
/// No latents. Data: class indices `[rows]`; contributions have `classes` outputs.
#[derive(Module, Debug)]
pub struct CategoricalHead {
    #[module(skip)]
    classes: usize,
}

impl CategoricalHead {
    /// The head of `classes` classes.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        Self { classes }
    }
}

impl Head for CategoricalHead {
    type Latents = ();
    type Data = Tensor<1>;

    fn outputs(&self) -> usize {
        self.classes
    }

    fn prior(&self, _: &mut Scope<'_>) -> Result<()> {
        Ok(())
    }

    fn observe(&self, scope: &mut Scope<'_>, (): &(), eta: Tensor<2>, rows: &Rows<'_>, data: &Tensor<1>) -> Result<()> {
        scope.observe("y", Categorical::logits(eta), rows.take(data)?)
    }

    fn mean(&self, (): &(), eta: Tensor<2>, _: &Rows<'_>, _: &Tensor<1>) -> Result<Tensor<2>> {
        Ok(softmax(eta, 1))
    }
}
