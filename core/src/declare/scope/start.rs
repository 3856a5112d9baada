//! Carries the declared start of a latent site to the unconstrained scale, after a check against its support.

use super::affine::Affine;
use super::latent::Entered;
use super::{Scope, Table};
use crate::bijector::Bijector;
use crate::declare::site::SiteTable;
use crate::distribution::{Parameter, Support};
use crate::error::{Error, Result};

impl Scope<'_> {
    /// Writes the start that the law of a latent declares into the table being written; `outer` is the map from a
    /// standardised latent to its natural scale.
    pub(super) fn start_at_declared(&mut self, entered: &Entered<'_>, outer: Option<&Affine>) -> Result<()> {
        let Entered { name, index, law } = entered;
        let scale = law.start_scale.map(|scale| self.start_scale_of(name, scale)).transpose()?;
        let start = match &law.start {
            Some(start) => self.unconstrained_start(entered, start, outer)?,
            None => Vec::new(),
        };
        if let Table::Building(SiteTable { sites, .. }) = &mut self.table {
            (sites[*index].start, sites[*index].start_scale) = (start, scale);
        }
        Ok(())
    }

    fn start_scale_of(&self, name: &str, scale: f64) -> Result<f64> {
        if scale > 0.0 && scale.is_finite() {
            return Ok(scale);
        }
        let expected = "a finite number > 0, a standard deviation on the unconstrained scale";
        Err(Error::argument(self.operation(name), "start_scale", scale, expected))
    }

    /// The unconstrained numbers of a start on the natural scale.
    fn unconstrained_start(
        &self,
        entered: &Entered<'_>,
        start: &Parameter,
        outer: Option<&Affine>,
    ) -> Result<Vec<f64>> {
        let Entered { name, index, law } = entered;
        let (shape, found) = (law.shape(), start.read()?);
        let mut values = match found.values.as_slice() {
            [one] => vec![*one; shape.iter().product()],
            _ if found.shape == shape => found.values,
            _ => {
                return Err(Error::Shape {
                    operation: format!("start of {}", self.operation(name)),
                    found: found.shape,
                    expected: shape,
                    remedy: "Give one number for the whole site, or a tensor of its shape.".into(),
                });
            }
        };
        if let Some(Affine { location, scale }) = outer {
            let (location, scale) = (location.read()?.values, scale.read()?.values);
            let own = |all: &[f64], place: usize| all[if all.len() == 1 { 0 } else { place }];
            for (place, value) in values.iter_mut().enumerate() {
                *value = (*value - own(&location, place)) / own(&scale, place);
            }
        }
        let site = &self.table().sites[*index];
        let (Some(support), Some(bijector)) = (&site.support, &site.bijector) else {
            unreachable!("invariant: a registered latent has a support")
        };
        let (length, mut start) = (site.event.max(1), Vec::new());
        let mut one = vec![0.0; bijector.unconstrained_len(site.event)?];
        for (event, numbers) in values.chunks_exact(length).enumerate() {
            if let Some(place) = outside(support, &**bijector, numbers, &mut one) {
                return Err(Error::Support {
                    operation: format!("start of {}", self.operation(name)),
                    distribution: law.density.name(),
                    found: numbers[place],
                    index: event * length + place,
                    support: support.describe(),
                });
            }
            start.extend_from_slice(&one);
        }
        Ok(start)
    }
}

/// The place of a number for which an event is outside its support; otherwise writes the unconstrained event.
fn outside(support: &Support, bijector: &dyn Bijector, event: &[f64], out: &mut [f64]) -> Option<usize> {
    match bijector.inverse(event, out) {
        Err(Error::Support { index, .. }) => Some(index.min(event.len() - 1)),
        Err(_) => Some(0),
        Ok(()) if support.contains(event) && out.iter().all(|number| number.is_finite()) => None,
        Ok(()) => Some(0),
    }
}
