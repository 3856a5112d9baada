//! Reads a model as a sampler: prior draws, predictive draws, and the log likelihood of each observation.

use super::latents::Latents;
use crate::array::Array;
use crate::declare::model::Model;
use crate::declare::scope::{LocalPart, Origin, Outcomes, Reading, Scope, Source};
use crate::declare::site::SiteTable;
use crate::device::Device;
use crate::error::Result;
use crate::noise::DrawNoise;
use crate::number::Numbers;

/// Values of all sites from one draw, on the natural scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// Latent and deterministic sites, in the order of declaration.
    pub values: Vec<(String, Array)>,
    /// Simulated data of the observed sites.
    pub observed: Vec<(String, Array)>,
}

impl Draw {
    /// The value of a site, latent, deterministic or observed.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Array> {
        self.values.iter().chain(&self.observed).find(|(site, _)| site == name).map(|(_, value)| value)
    }
}

/// What a prediction is made at: latents, or where they are drawn from.
#[derive(Debug, Clone, Copy)]
pub struct Predictive<'a> {
    /// The unconstrained global vector.
    pub globals: &'a [f64],
    /// One unconstrained vector for each local block; for `None` local latents are drawn from their prior given the
    /// globals: what is expected of rows, or of a silo, never seen.
    pub locals: Option<&'a [Vec<f64>]>,
    /// The noise of what is drawn.
    pub noise: DrawNoise,
}

impl<'a> Predictive<'a> {
    /// Checks the latents; the source of a reading at them.
    fn source(self, table: &SiteTable) -> Result<Source<'a>> {
        table.check_latents(self.globals, self.locals, |block| table.blocks[block].rows)?;
        let locals = self.locals.map_or(Origin::Prior(self.noise), Origin::Given);
        Ok(Source { globals: Origin::Given(Numbers::Double(self.globals)), locals })
    }
}

/// Draws all latents from the prior, and new data given them; `data` gives the shapes.
///
/// The draw depends on seed, index and sites, not on a silo: to simulate several silos give each another seed or index.
///
/// # Errors
/// What the model's statements refuse.
pub fn prior_draw<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
    noise: DrawNoise,
) -> Result<Draw> {
    let source = Source { globals: Origin::Prior(noise), locals: Origin::Prior(noise) };
    draw(model, data, Scope::new(device, table, source, Reading::Simulate(noise)))
}

/// The same for one of several silos: `globals` is the noise of the global latents, which silos share, `own` that of
/// what the silo has alone.
pub(super) fn silo_draw<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
    globals: DrawNoise,
    own: DrawNoise,
) -> Result<Draw> {
    let source = Source { globals: Origin::Prior(globals), locals: Origin::Prior(own) };
    draw(model, data, Scope::new(device, table, source, Reading::Simulate(own)))
}

/// Draws new data given latents: a posterior predictive draw where the latents are a posterior draw.
///
/// # Errors
/// [`crate::Error::Length`] for vectors of the wrong length; otherwise what the model's statements refuse.
pub fn predictive_draw<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
    predictive: Predictive<'_>,
) -> Result<Draw> {
    let source = predictive.source(table)?;
    draw(model, data, Scope::new(device, table, source, Reading::Simulate(predictive.noise)))
}

/// The mean of the distribution of every observation given latents, by observed site; NaN where any of a site has none.
///
/// With the noise of [`predictive_draw`] local latents that are drawn are the same, so that its draws are around these means.
///
/// # Errors
/// As for [`predictive_draw`].
///
/// # Example
/// ```
/// use partita_core::{Device, DrawNoise, Model, Noise, Normal, Poisson, Predictive, Result, Scope, SiteTable, burn, expected_values};
/// use burn::{module::Module, tensor::Tensor};
///
/// #[derive(Module, Debug)]
/// struct Counts {}
/// impl Model for Counts {
///     type Globals = Tensor<1>;
///     type Data = Tensor<1>;
///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("log_rate", Normal::new(0.0, 1.0)) }
///     fn local(&self, scope: &mut Scope, rate: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
///         scope.plate("row", data.dims()[0], |s, rows| s.observe("y", Poisson::log_rate(rate.clone()).over(rows), rows.take(data)?))
///     }
/// }
///
/// let device = Device::flex();
/// let data = device.tensor(vec![4.0, 1.0], [2]);
/// let table = SiteTable::of(&Counts {}, &device, &data)?;
/// let at = Predictive { globals: &[3.0_f64.ln()], locals: None, noise: DrawNoise { noise: Noise::new(1), index: 0 } };
/// let expected = expected_values(&Counts {}, &device, &table, &data, at)?;
/// assert!(expected[0].1.values.iter().all(|mean| (mean - 3.0).abs() < 1e-12));
/// # Ok::<(), partita_core::Error>(())
/// ```
pub fn expected_values<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
    predictive: Predictive<'_>,
) -> Result<Vec<(String, Array)>> {
    let scope = Scope::new(device, table, predictive.source(table)?, Reading::Expected);
    draw(model, data, scope).map(|draw| draw.observed)
}

/// The log likelihood (nats) of every observation, unscaled, by observed site.
///
/// # Errors
/// As for [`predictive_draw`].
pub fn pointwise_log_likelihood<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
    latents: Latents<'_>,
) -> Result<Vec<(String, Array)>> {
    table.check_latents(latents.globals, Some(latents.locals), |block| table.blocks[block].rows)?;
    let scope = Scope::new(device, table, latents.source(), Reading::Pointwise);
    draw(model, data, scope).map(|draw| draw.observed)
}

/// The same where local latents may be drawn from their prior given the globals: what rows never seen in training have.
///
/// Averaged as densities over draws of globals from a posterior and of these, it is the posterior-predictive density of
/// the rows.
///
/// # Errors
/// As for [`predictive_draw`].
pub fn predictive_log_likelihood<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
    predictive: Predictive<'_>,
) -> Result<Vec<(String, Array)>> {
    let scope = Scope::new(device, table, predictive.source(table)?, Reading::Pointwise);
    draw(model, data, scope).map(|draw| draw.observed)
}

/// The same for outcomes that [`predictive_draw`] drew, in place of those of the data.
///
/// # Errors
/// As for [`predictive_draw`].
pub fn replicated_log_likelihood<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
    replicate: &Draw,
    predictive: Predictive<'_>,
) -> Result<Vec<(String, Array)>> {
    let scope = Scope::new(device, table, predictive.source(table)?, Reading::Pointwise);
    let outcomes = Outcomes::new(&replicate.observed, device);
    draw_given(model, data, Some(&outcomes), LocalPart::WHOLE, scope).map(|draw| draw.observed)
}

/// All latents and deterministic sites of one silo on their natural scale, for unconstrained latents.
///
/// # Errors
/// As for [`predictive_draw`].
pub fn natural_values<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
    latents: Latents<'_>,
) -> Result<Vec<(String, Array)>> {
    table.check_latents(latents.globals, Some(latents.locals), |block| table.blocks[block].rows)?;
    let scope = Scope::new(device, table, latents.source(), Reading::NaturalValues);
    draw(model, data, scope).map(|draw| draw.values)
}

/// The data of one silo, by observed site.
///
/// # Errors
/// What the model's statements refuse.
///
/// # Example
/// ```
/// use partita_core::{Device, Model, Normal, Result, Scope, SiteTable, burn, observed_values};
/// use burn::{module::Module, tensor::Tensor};
///
#[doc = include_str!("../../doc/mean.md")]
///
/// let device = Device::flex();
/// let data = device.tensor(vec![1.0, 2.0], [2]);
/// let observed = observed_values(&Mean {}, &device, &SiteTable::of(&Mean {}, &device, &data)?, &data)?;
/// assert_eq!(observed[0].1.values, [1.0, 2.0]);
/// # Ok::<(), partita_core::Error>(())
/// ```
pub fn observed_values<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
) -> Result<Vec<(String, Array)>> {
    draw(model, data, Scope::new(device, table, Source::START, Reading::Observed)).map(|draw| draw.observed)
}

fn draw<M: Model>(model: &M, data: &M::Data, scope: Scope<'_>) -> Result<Draw> {
    draw_given(model, data, None, LocalPart::WHOLE, scope)
}

/// What the observed sites of a part of the rows hold in a reading.
pub(super) fn observed_at<'a, M: Model>(
    model: &M,
    data: &M::Data,
    part: LocalPart<'a>,
    scope: Scope<'a>,
) -> Result<Vec<(String, Array)>> {
    draw_given(model, data, None, part, scope).map(|draw| draw.observed)
}

/// With outcomes in place of those of the data, where there are some.
fn draw_given<'a, M: Model>(
    model: &M,
    data: &M::Data,
    outcomes: Option<&Outcomes>,
    part: LocalPart<'a>,
    mut scope: Scope<'a>,
) -> Result<Draw> {
    let globals = scope.run(|scope| model.global(scope))?;
    scope.begin_local(part);
    scope.run(|scope| match outcomes {
        None => model.local(scope, &globals, data),
        Some(outcomes) => scope.with_outcomes(outcomes, |scope| model.local(scope, &globals, data)),
    })?;
    scope.ended()?;
    Ok(Draw { values: scope.outcome.values, observed: scope.outcome.observed })
}

impl SiteTable {
    /// The global latents as the model's local function gets them, for one unconstrained global vector.
    ///
    /// # Errors
    /// As for [`SiteTable::natural_globals`].
    pub fn globals_at<M: Model>(&self, model: &M, device: &Device, globals: &[f64]) -> Result<M::Globals> {
        self.check_latents(globals, None, |_| 0)?;
        let mut scope = Scope::new(device, self, Source::globals(globals), Reading::Values);
        let globals = scope.run(|scope| model.global(scope))?;
        scope.ended()?;
        Ok(globals)
    }

    /// The global latents and deterministic sites on their natural scale, for one unconstrained global vector.
    ///
    /// # Errors
    /// [`crate::Error::Length`] for a vector of the wrong length; otherwise what the model's statements refuse.
    pub fn natural_globals<M: Model>(
        &self,
        model: &M,
        device: &Device,
        globals: &[f64],
    ) -> Result<Vec<(String, Array)>> {
        self.check_latents(globals, None, |_| 0)?;
        let scope = Scope::new(device, self, Source::globals(globals), Reading::NaturalValues);
        self.natural_values_of(model, scope)
    }

    /// The global latents and deterministic sites on their natural scale, drawn from the prior.
    ///
    /// # Errors
    /// What the model's statements refuse, such as a draw from a prior that is no distribution.
    pub fn prior_globals<M: Model>(
        &self,
        model: &M,
        device: &Device,
        noise: DrawNoise,
    ) -> Result<Vec<(String, Array)>> {
        let source = Source { globals: Origin::Prior(noise), locals: Origin::Start };
        self.natural_values_of(model, Scope::new(device, self, source, Reading::NaturalValues))
    }

    fn natural_values_of<M: Model>(&self, model: &M, mut scope: Scope<'_>) -> Result<Vec<(String, Array)>> {
        scope.run(|scope| model.global(scope))?;
        scope.ended()?;
        Ok(scope.outcome.values)
    }
}
