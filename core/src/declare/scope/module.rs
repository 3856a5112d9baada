//! Gives the statement `module`: every float parameter of a Burn module becomes a latent.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;

use super::{Scope, Table};
use crate::declare::site::SiteTable;
use crate::distribution::{Distribution, Law, Support};
use crate::error::{Error, Result};
use crate::handle::Handle;

impl Scope<'_> {
    /// Makes a Burn module Bayesian: every float parameter becomes a latent with the prior `prior`. A prior of one
    /// number is repeated; otherwise it has one number for each parameter, in the order Burn visits them.
    ///
    /// Returns the module with its parameters drawn; sites are named `name.0`, `name.1`, ... in the order Burn visits
    /// them. Under a prior on all real numbers without [`Distribution::start`] their posterior means start at the values
    /// that `module` has: give it the starting values of a network, the same for every party. The module must not be
    /// part of θ: mark its field `#[module(skip)]`.
    ///
    /// # Errors
    /// [`Error::Shape`] for a prior of another length, [`Error::Plate`] inside a plate; otherwise as for
    /// [`Scope::sample`].
    pub fn module<M: Module>(&mut self, name: &str, module: &M, prior: Distribution<1>) -> Result<M> {
        prior.law.sound()?;
        let count = Module::num_params(module);
        if !prior.law.is_single() && (prior.law.batch != [count] || !prior.law.event.is_empty()) {
            return Err(Error::Shape {
                operation: format!("prior of module `{name}`"),
                found: prior.shape(),
                expected: vec![1],
                remedy: format!(
                    "Give a prior of one number, of which every parameter of the module gets a copy, or of {count} numbers, one for each."
                ),
            });
        }
        if let Some(plate) = &self.place.plate {
            return Err(Error::Plate {
                plate: plate.name.clone(),
                problem: format!(
                    "module `{name}` stands in it, but the parameters of a module have no rows. Declare it outside the plate."
                ),
            });
        }
        let mut lift = Lift { scope: self, name, law: prior.law, next: 0, taken: 0, error: None };
        let lifted = module.clone().map(&mut lift);
        lift.error.map_or(Ok(lifted), Err)
    }

    /// Lets the posterior mean of the global site just registered start at a parameter's values.
    fn start_at<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) -> Result<()> {
        let Table::Building(SiteTable { sites, .. }) = &mut self.table else { return Ok(()) };
        let Some(site) = sites.last_mut() else { return Ok(()) };
        site.lifted = true;
        if site.support == Some(Support::Real) && site.start.is_empty() {
            site.start = Handle::from(parameter.val()).read()?.values;
        }
        Ok(())
    }
}

/// Replaces a module's parameters by latents, in the order Burn visits them.
struct Lift<'s, 'a> {
    scope: &'s mut Scope<'a>,
    name: &'s str,
    law: Law,
    next: usize,
    /// Parameters lifted so far.
    taken: usize,
    error: Option<Error>,
}

impl ModuleMapper for Lift<'_, '_> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let shape = parameter.val().dims();
        let own = self.taken..self.taken + shape.iter().product::<usize>();
        self.taken = own.end;
        let law = if self.law.is_single() {
            Law { batch: shape.to_vec(), ..self.law.clone() }
        } else {
            self.law.part(own, shape)
        };
        let site = format!("{}.{}", self.name, self.next);
        self.next += 1;
        if self.error.is_some() {
            return parameter;
        }
        let latent = self.scope.latent(&site, law).and_then(|value| {
            self.scope.start_at(&parameter)?;
            Ok(value)
        });
        match latent {
            Ok(value) => Param::initialized(parameter.id, value),
            Err(error) => {
                self.error = Some(error);
                parameter
            }
        }
    }
}
