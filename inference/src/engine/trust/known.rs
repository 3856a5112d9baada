//! States what a coordinator knows of globals by itself: their prior, and their natural scale.

use partita_core::{AnyModel, Array, Device, LogDensity, SiteTable, with_shared_theta};

use crate::engine::error::Result;

/// What is known of globals without any silo, at some trained parameters.
pub(crate) trait Known {
    /// Their values on the natural scale, site by site.
    fn natural(&self, globals: &[f64]) -> Result<Vec<(String, Array)>>;

    /// The log density of their prior.
    fn log_prior(&self, globals: &[f64]) -> Result<f64>;
}

/// A model whose silos hold different rows.
#[derive(Debug)]
pub(crate) struct KnownModel<'a> {
    model: AnyModel,
    device: &'a Device,
    table: &'a SiteTable,
}

impl<'a> KnownModel<'a> {
    /// The model with these trained parameters.
    pub(crate) fn new(model: &AnyModel, theta: &[f64], device: &'a Device, table: &'a SiteTable) -> Result<Self> {
        Ok(Self { model: with_shared_theta(model, theta, device)?, device, table })
    }
}

impl Known for KnownModel<'_> {
    fn natural(&self, globals: &[f64]) -> Result<Vec<(String, Array)>> {
        Ok(self.table.natural_globals(&self.model, self.device, globals)?)
    }

    fn log_prior(&self, globals: &[f64]) -> Result<f64> {
        Ok(LogDensity::new(&self.model, self.device, self.table).global(globals)?.value)
    }
}
