//! Reads latents and observations with tensor operations only: their numbers never leave the device.

use burn::tensor::Tensor;

use super::affine::Affine;
use super::latent::Entered;
use super::{Reading, Scope};
use crate::distribution::{Domain, Law, Parameter, ParameterRule, Term};
use crate::error::{Error, Result};
use crate::handle::Handle;

impl Scope<'_> {
    /// The value of the latent site at `index` of the table; its log density is added.
    pub(super) fn latent_on_device<const D: usize>(
        &mut self,
        entered: Entered<'_>,
        outer: Option<Affine>,
    ) -> Result<Tensor<D>> {
        let Entered { name, index, law } = entered;
        let mut shape: [usize; D] = self.shape_of(name, &law)?;
        // The numbers of several draws lie one below the other.
        let draws = self.draws();
        let site = &self.table().sites[index];
        let Some(bijector) = site.bijector.clone() else { unreachable!("invariant: a latent site has a bijector") };
        let fixed = |parameter: &Parameter| matches!(parameter, Parameter::Number(_));
        let moves = |(rule, own): (&ParameterRule, &Parameter)| rule.domain == Domain::Bound && !fixed(own);
        if law.density.rules().iter().zip(&law.parameters).any(moves) {
            return Err(self.no_device_form(name, "bounds that are tensors"));
        }
        let (event, one) = (site.event.max(1), bijector.unconstrained_len(site.event)?);
        let events = draws * shape.iter().product::<usize>() / event;
        let leaf = self.next_leaf();
        let leaf = leaf.map(|leaf| Term::Tensor(leaf.reshape([events, one])));
        let mapped = leaf.filter(|_| one > 0).and_then(|leaf| bijector.on_device(leaf));
        let Some((Term::Tensor(value), log_det)) = mapped else {
            return Err(self.no_device_form(name, &format!("the map onto the support of {}", law.density.name())));
        };
        let weight = self.weight_here();
        self.add_terms(log_det, events, weight);
        self.score_draws(name, law, Handle::from(value.clone()), draws)?;
        let value = match outer {
            None => value,
            Some(outer) => match outer.location.term(1) + outer.scale.term(1) * Term::Tensor(value) {
                Term::Tensor(value) => value,
                Term::Number(_) => unreachable!("invariant: a term with a tensor is one"),
            },
        };
        shape[0] *= draws;
        Ok(value.reshape(shape))
    }

    /// The next latents of this reading.
    pub(super) fn next_leaf(&mut self) -> Option<Tensor<2>> {
        let Reading::OnDevice(latents) = &mut self.reading else { return None };
        latents.next += 1;
        latents.leaves.get(latents.next - 1).cloned()
    }

    /// Adds the log density of a value that stays on the device.
    pub(super) fn score_on_device(&mut self, name: &str, law: Law, value: Handle) -> Result<()> {
        self.score_draws(name, law, value, 1)
    }

    /// Adds the log densities of the values of some draws, which have the same parameters.
    fn score_draws(&mut self, name: &str, law: Law, value: Handle, draws: usize) -> Result<()> {
        let (distribution, weight) = (law.density.name(), self.weight_here());
        let events = draws * law.batch.iter().product::<usize>();
        let Some(terms) = law.on_device(value, draws) else { return Err(self.no_device_form(name, &distribution)) };
        self.add_terms(terms, events, weight);
        Ok(())
    }

    fn add_terms(&mut self, terms: Vec<Term>, events: usize, weight: f64) {
        let (constant, sum) = Term::total(terms, events);
        let scaled = |sum: Tensor<1>| if (weight - 1.0).abs() > 0.0 { sum * weight } else { sum };
        self.outcome.add(weight * constant, sum.map(|sum| Handle::from(scaled(sum))));
    }

    fn no_device_form(&self, name: &str, what: &str) -> Error {
        Error::NoDeviceForm { operation: self.operation(name), what: what.to_owned() }
    }
}
