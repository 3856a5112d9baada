//! Reads the log density of a model in the coordinates that a chain walks in.

use partita_core::Result;

use super::target::Target;
use crate::fit::whitening::Whitening;

/// A target in coordinates of a chart; in the unconstrained latents themselves without one.
pub(super) struct Walk<'a> {
    pub(super) target: Target<'a>,
    pub(super) chart: Option<&'a Whitening>,
}

impl Walk<'_> {
    /// The log density in nats at a place, but for the constant of the chart; writes its gradient.
    pub(super) fn value_and_gradient(&mut self, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let Some(chart) = self.chart else { return self.target.value_and_gradient(place, gradient) };
        let value = self.target.value_and_gradient(&self.latents(place), gradient)?;
        chart.pull(gradient);
        Ok(value)
    }

    /// The latents at a place.
    pub(super) fn latents(&self, place: &[f64]) -> Vec<f64> {
        self.chart.map_or_else(|| place.to_vec(), |chart| chart.latents(place))
    }

    /// The place of latents.
    pub(super) fn place(&self, latents: Vec<f64>) -> Vec<f64> {
        match self.chart {
            Some(chart) => chart.coordinates(&latents),
            None => latents,
        }
    }
}
