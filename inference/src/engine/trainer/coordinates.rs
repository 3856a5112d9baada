//! Gives the coordinates in which a posterior and θ move at an adaptive rate where no trainer keeps them, as in a silo.

use std::borrow::Cow;

use super::chart::Chart;
use super::units::MeanUnit;
use super::{place, units};
use crate::engine::family::Family;

/// Numbers up to which coordinates are those of a covariance: each step takes their cube.
const FEW: usize = 64;

/// The coordinates of a family's parameters, and the units of θ behind them.
#[derive(Debug)]
pub(crate) struct Coordinates {
    chart: Chart,
    theta: Vec<f64>,
}

impl Coordinates {
    /// Units of a family's parameters at these, and of θ.
    pub(crate) fn of_units(family: &dyn Family, parameters: &[f64], theta: Vec<f64>) -> Self {
        Self { chart: Chart::Units(units::of_family(family, parameters, MeanUnit::OWN, None)), theta }
    }

    /// Those of the covariance at these parameters, for a full-rank Gaussian of few numbers.
    pub(crate) fn whitened(self, family: &dyn Family, parameters: &[f64]) -> Self {
        match of_covariance(family, parameters) {
            Some(chart) => Self { chart, ..self },
            None => self,
        }
    }

    /// The same without θ; `None` for other families.
    pub(crate) fn of_covariance(family: &dyn Family, parameters: &[f64]) -> Option<Self> {
        of_covariance(family, parameters).map(|chart| Self { chart, theta: Vec::new() })
    }

    /// A member of the family as it stands in coordinates of a covariance; in units as it is.
    pub(crate) fn inside(&self, member: Vec<f64>) -> Vec<f64> {
        match &self.chart {
            Chart::Units(_) => member,
            Chart::Whitened(own) => own.inside(&member),
        }
    }

    /// The member that stands there like this.
    pub(crate) fn outside(&self, member: Vec<f64>) -> Vec<f64> {
        match &self.chart {
            Chart::Units(_) => member,
            Chart::Whitened(own) => own.outside(member),
        }
    }

    /// Finds units anew at these parameters; coordinates of a covariance stay.
    pub(crate) fn renew(&mut self, family: &dyn Family, parameters: &[f64]) {
        if let Chart::Units(known) = &mut self.chart {
            *known = units::of_family(family, parameters, MeanUnit::OWN, Some(known.as_slice()));
        }
    }

    /// The units of all coordinates: one for those of a covariance.
    pub(crate) fn units(&self) -> Vec<f64> {
        match &self.chart {
            Chart::Units(own) => [own.as_slice(), &self.theta].concat(),
            Chart::Whitened(_) => {
                let count = self.chart.inner().map_or(0, <[f64]>::len);
                [vec![1.0; count].as_slice(), &self.theta].concat()
            }
        }
    }

    /// The coordinates of parameters and θ where they last led.
    pub(crate) fn place<'a>(&self, values: &'a [f64]) -> Cow<'a, [f64]> {
        place(Some(&self.chart), values)
    }

    /// Moves parameters and θ to the place with these coordinates.
    pub(crate) fn go_to(&mut self, place: &[f64], values: &mut [f64]) {
        values.copy_from_slice(place);
        if matches!(self.chart, Chart::Whitened(_)) {
            self.chart.leave(values);
        }
    }

    /// Replaces parameters, θ and a gradient by them by coordinates and the gradient by these.
    pub(super) fn enter(&self, values: &mut [f64], gradient: &mut [f64]) {
        let count = values.len() - self.theta.len();
        self.chart.enter(values, gradient);
        units::enter(&self.theta, &mut values[count..], &mut gradient[count..]);
    }

    /// Replaces coordinates by the parameters and θ that they stand for.
    pub(super) fn leave(&mut self, values: &mut [f64]) {
        let count = values.len() - self.theta.len();
        self.chart.leave(values);
        units::leave(&self.theta, &mut values[count..]);
    }
}

/// The chart of the covariance of a full-rank Gaussian of few numbers.
fn of_covariance(family: &dyn Family, parameters: &[f64]) -> Option<Chart> {
    family.full_rank().filter(|_| family.len() <= FEW).map(|family| Chart::whitened(family, parameters))
}
