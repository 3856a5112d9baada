//! Reads a model as a sampler: prior draws, predictive draws, and the log likelihood of each observation.

use super::latents::Latents;
use crate::array::Array;
use crate::declare::model::Model;
use crate::declare::scope::{Observing, Scope, Source, Table};
use crate::declare::site::{Part, SiteTable};
use crate::device::Device;
use crate::error::Result;
use crate::noise::Noise;

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
    (noise, index): (Noise, u64),
) -> Result<Draw> {
    let source = Source { prior: Some((noise, index)), ..Source::default() };
    draw(model, data, simulating(device, table, source, noise, index))
}

/// Draws new data given latents: a posterior predictive draw where the latents are a posterior draw.
///
/// With `locals` = `None` the local latents are drawn from their prior given the globals: what is expected of rows, or
/// of a silo, never seen.
///
/// # Errors
/// [`crate::Error::Length`] for vectors of the wrong length; otherwise what the model's statements refuse.
pub fn predictive_draw<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
    (globals, locals): (&[f64], Option<&[Vec<f64>]>),
    (noise, index): (Noise, u64),
) -> Result<Draw> {
    table.check_latents(globals, locals, |block| table.blocks[block].rows)?;
    let source = Source { globals: Some(globals), locals, prior: Some((noise, index)), moments: None };
    draw(model, data, simulating(device, table, source, noise, index))
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
    let source = Source { globals: Some(latents.globals), locals: Some(latents.locals), ..Source::default() };
    let mut scope = Scope::new(device, Table::Known(table), source);
    scope.observing = Observing::Pointwise;
    draw(model, data, scope).map(|draw| draw.observed)
}

/// The same with local latents drawn from their prior given the globals: what rows never seen in training have.
///
/// Averaged as densities over draws of globals from a posterior and of these, it is the posterior-predictive density of
/// the rows. `noise` with `index` names the draw.
///
/// # Errors
/// As for [`predictive_draw`].
pub fn predictive_log_likelihood<M: Model>(
    model: &M,
    device: &Device,
    table: &SiteTable,
    data: &M::Data,
    globals: &[f64],
    (noise, index): (Noise, u64),
) -> Result<Vec<(String, Array)>> {
    table.check_latents(globals, None, |block| table.blocks[block].rows)?;
    let source = Source { globals: Some(globals), prior: Some((noise, index)), ..Source::default() };
    let mut scope = Scope::new(device, Table::Known(table), source);
    scope.observing = Observing::Pointwise;
    draw(model, data, scope).map(|draw| draw.observed)
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
    let source = Source { globals: Some(latents.globals), locals: Some(latents.locals), ..Source::default() };
    let mut scope = Scope::new(device, Table::Known(table), source);
    scope.keeping = true;
    draw(model, data, scope).map(|draw| draw.values)
}

fn simulating<'a>(device: &'a Device, table: &'a SiteTable, source: Source<'a>, noise: Noise, index: u64) -> Scope<'a> {
    let mut scope = Scope::new(device, Table::Known(table), source);
    (scope.observing, scope.keeping) = (Observing::Simulate(noise, index), true);
    scope
}

fn draw<M: Model>(model: &M, data: &M::Data, mut scope: Scope<'_>) -> Result<Draw> {
    let globals = model.global(&mut scope)?;
    scope.part = Part::Local;
    model.local(&mut scope, &globals, data)?;
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
        let mut scope = Scope::new(device, Table::Known(self), Source { globals: Some(globals), ..Source::default() });
        let globals = model.global(&mut scope)?;
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
        let source = Source { globals: Some(globals), ..Source::default() };
        let mut scope = Scope::new(device, Table::Known(self), source);
        scope.keeping = true;
        model.global(&mut scope)?;
        scope.ended()?;
        Ok(scope.outcome.values)
    }
}
