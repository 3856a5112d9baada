//! Defines the distributions of labels given the sum of contributions: binary, counts, measurements, classes.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::{sigmoid, softmax};
use partita_core::vertical::{Columns, Head};
use partita_core::{
    Bernoulli, Categorical, Device, Distribution, Error, HalfNormal, Normal, Poisson, Result, Rows, Scope,
};

/// Binary labels as the column `[rows, 1]` of ones and zeros that [`BernoulliHead`] takes.
#[must_use]
pub fn binary_labels(labels: &[bool], device: &Device) -> Tensor<2> {
    device.tensor(labels.iter().map(|label| f64::from(u8::from(*label))).collect(), [labels.len(), 1])
}

/// Declares the intercepts of a head, one for each output.
fn intercept(prior: Option<&Distribution<1>>, outputs: usize, scope: &mut Scope<'_>) -> Result<Option<Tensor<1>>> {
    prior.map(|prior| scope.sample("intercept", prior.clone().iid([outputs]))).transpose()
}

/// Predictors with the intercepts added.
fn shifted(eta: Tensor<2>, intercept: Option<&Tensor<1>>) -> Tensor<2> {
    match intercept {
        Some(intercept) => eta + intercept.clone().unsqueeze::<2>(),
        None => eta,
    }
}

/// Binary labels: $`\operatorname{logit}\Pr(y_i = 1) = b + \eta_i`$.
///
/// # Shapes
/// Latent: `intercept` `[1]`, if there is one. Data: labels `[rows, 1]` of [`binary_labels`].
#[derive(Module, Debug)]
pub struct BernoulliHead {
    #[module(skip)]
    prior: Option<Distribution<1>>,
}

impl BernoulliHead {
    /// The head with this prior of the intercept.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Normal, vertical::{Labels, LikelihoodAt}};
    /// use partita_models::vertical::{BernoulliHead, binary_labels};
    /// let device = Device::flex();
    /// let labels = Labels::new(BernoulliHead::new(Normal::new(0.0, 1.0)), binary_labels(&[true, false], &device));
    /// let at = LikelihoodAt { latents: &[0.0], eta: &[0.0, 0.0], rows: None, weight: 1.0 };
    /// let share = labels.likelihood(&device, &labels.table(&device)?, at)?;
    /// assert!((share.value - 2.0 * 0.5_f64.ln()).abs() < 1e-15);
    /// assert_eq!(share.eta, [0.5, -0.5]);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    #[must_use]
    pub fn new(intercept: Distribution<1>) -> Self {
        Self { prior: Some(intercept) }
    }

    /// The head without an intercept.
    #[must_use]
    pub fn without_intercept() -> Self {
        Self { prior: None }
    }
}

impl Head for BernoulliHead {
    type Latents = Option<Tensor<1>>;
    type Data = Tensor<2>;

    fn outputs(&self) -> usize {
        1
    }

    fn prior(&self, scope: &mut Scope<'_>) -> Result<Self::Latents> {
        intercept(self.prior.as_ref(), 1, scope)
    }

    fn observe(
        &self,
        scope: &mut Scope<'_>,
        latents: &Self::Latents,
        eta: Tensor<2>,
        rows: &Rows<'_>,
        data: &Self::Data,
    ) -> Result<()> {
        scope.observe("y", Bernoulli::logits(shifted(eta, latents.as_ref())), rows.take(data)?)
    }

    fn mean(&self, latents: &Self::Latents, eta: Tensor<2>, _: &Rows<'_>, _: &Self::Data) -> Result<Tensor<2>> {
        Ok(sigmoid(shifted(eta, latents.as_ref())))
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
        if exposure.len() != rows {
            return Err(Error::Length {
                operation: "exposures of counts".into(),
                found: exposure.len(),
                expected: rows,
                remedy: "Give one exposure for each count; 1 where there is none.".into(),
            });
        }
        if let Some(found) = exposure.iter().find(|exposure| !(**exposure > 0.0 && exposure.is_finite())) {
            return Err(Error::Argument {
                operation: "exposures of counts".into(),
                argument: "exposure",
                found: found.to_string(),
                expected: "finite numbers > 0",
            });
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

/// Counts: $`y_i \sim \mathrm{Poisson}(e_i \exp(b + \eta_i))`$ with the exposure $`e_i`$ of [`Counts`].
///
/// # Shapes
/// Latent: `intercept` `[1]`, if there is one. Data: [`Counts`].
#[derive(Module, Debug)]
pub struct PoissonHead {
    #[module(skip)]
    prior: Option<Distribution<1>>,
}

impl PoissonHead {
    /// The head with this prior of the intercept.
    #[must_use]
    pub fn new(intercept: Distribution<1>) -> Self {
        Self { prior: Some(intercept) }
    }

    /// The head without an intercept.
    #[must_use]
    pub fn without_intercept() -> Self {
        Self { prior: None }
    }
}

impl Head for PoissonHead {
    type Latents = Option<Tensor<1>>;
    type Data = Counts;

    fn outputs(&self) -> usize {
        1
    }

    fn prior(&self, scope: &mut Scope<'_>) -> Result<Self::Latents> {
        intercept(self.prior.as_ref(), 1, scope)
    }

    fn observe(
        &self,
        scope: &mut Scope<'_>,
        latents: &Self::Latents,
        eta: Tensor<2>,
        rows: &Rows<'_>,
        data: &Self::Data,
    ) -> Result<()> {
        let log_rate = shifted(eta, latents.as_ref()) + rows.take(&data.offset)?;
        scope.observe("y", Poisson::log_rate(log_rate), rows.take(&data.counts)?)
    }

    fn mean(&self, latents: &Self::Latents, eta: Tensor<2>, rows: &Rows<'_>, data: &Self::Data) -> Result<Tensor<2>> {
        Ok((shifted(eta, latents.as_ref()) + rows.take(&data.offset)?).exp())
    }
}

/// Measurements: $`y_i \sim N(b + \eta_i, \sigma^2)`$.
///
/// # Shapes
/// Latents: `intercept` `[1]`, if there is one; `noise_scale` `[1]`, unless it is known. Data: `[rows, 1]`.
#[derive(Module, Debug)]
pub struct GaussianHead {
    #[module(skip)]
    prior: Option<Distribution<1>>,
    #[module(skip)]
    scale: Option<f64>,
}

/// The latents of [`GaussianHead`].
#[derive(Debug, Clone)]
pub struct GaussianLatents {
    intercept: Option<Tensor<1>>,
    scale: Option<Tensor<1>>,
}

impl GaussianHead {
    /// Measurements with the standard deviation `scale`, or one that is inferred under the prior
    /// $`\mathrm{HalfNormal}(1)`$, and this prior of the intercept.
    #[must_use]
    pub fn new(intercept: Distribution<1>, scale: Option<f64>) -> Self {
        Self { prior: Some(intercept), scale }
    }

    /// The head without an intercept.
    #[must_use]
    pub fn without_intercept(scale: Option<f64>) -> Self {
        Self { prior: None, scale }
    }
}

impl Head for GaussianHead {
    type Latents = GaussianLatents;
    type Data = Tensor<2>;

    fn outputs(&self) -> usize {
        1
    }

    fn prior(&self, scope: &mut Scope<'_>) -> Result<Self::Latents> {
        let intercept = intercept(self.prior.as_ref(), 1, scope)?;
        let scale = match self.scale {
            Some(_) => None,
            None => Some(scope.sample("noise_scale", HalfNormal::new(1.0))?),
        };
        Ok(GaussianLatents { intercept, scale })
    }

    fn observe(
        &self,
        scope: &mut Scope<'_>,
        latents: &Self::Latents,
        eta: Tensor<2>,
        rows: &Rows<'_>,
        data: &Self::Data,
    ) -> Result<()> {
        let mean = shifted(eta, latents.intercept.as_ref());
        let y = rows.take(data)?;
        match (self.scale, &latents.scale) {
            (_, Some(scale)) => {
                let scale = scale.clone().unsqueeze::<2>().expand(mean.dims());
                scope.observe("y", Normal::new(mean, scale), y)
            }
            (scale, None) => scope.observe("y", Normal::new(mean, scale.unwrap_or(1.0)), y),
        }
    }

    fn mean(&self, latents: &Self::Latents, eta: Tensor<2>, _: &Rows<'_>, _: &Self::Data) -> Result<Tensor<2>> {
        Ok(shifted(eta, latents.intercept.as_ref()))
    }
}

/// Classes: $`\Pr(y_i = k) \propto \exp(b_k + \eta_{ik})`$.
///
/// # Shapes
/// Latent: `intercept` `[classes]`, if there is one. Data: class indices `[rows]`; contributions have `classes`
/// outputs.
#[derive(Module, Debug)]
pub struct CategoricalHead {
    #[module(skip)]
    classes: usize,
    #[module(skip)]
    prior: Option<Distribution<1>>,
}

impl CategoricalHead {
    /// The head of `classes` classes with this prior, of one number, for each intercept.
    #[must_use]
    pub fn new(classes: usize, intercept: Distribution<1>) -> Self {
        Self { classes, prior: Some(intercept) }
    }

    /// The head without intercepts.
    #[must_use]
    pub fn without_intercept(classes: usize) -> Self {
        Self { classes, prior: None }
    }
}

impl Head for CategoricalHead {
    type Latents = Option<Tensor<1>>;
    type Data = Tensor<1>;

    fn outputs(&self) -> usize {
        self.classes
    }

    fn prior(&self, scope: &mut Scope<'_>) -> Result<Self::Latents> {
        intercept(self.prior.as_ref(), self.classes, scope)
    }

    fn observe(
        &self,
        scope: &mut Scope<'_>,
        latents: &Self::Latents,
        eta: Tensor<2>,
        rows: &Rows<'_>,
        data: &Self::Data,
    ) -> Result<()> {
        scope.observe("y", Categorical::logits(shifted(eta, latents.as_ref())), rows.take(data)?)
    }

    fn mean(&self, latents: &Self::Latents, eta: Tensor<2>, _: &Rows<'_>, _: &Self::Data) -> Result<Tensor<2>> {
        Ok(softmax(shifted(eta, latents.as_ref()), 1))
    }
}
