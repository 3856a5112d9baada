//! Reads latents and observations with tensor operations only: their numbers never leave the device.

use burn::tensor::Tensor;

use super::affine::Affine;
use super::latent::Entered;
use super::{Reading, RowPlace, Scope, Score};
use crate::distribution::{Domain, Law, Parameter, ParameterRule, Term};
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::operation::ordered_sum;

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
        self.add_terms(log_det, events);
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
        if self.score() == Score::Skip {
            return Ok(());
        }
        let distribution = law.density.name();
        let events = draws * law.batch.iter().product::<usize>();
        let Some(terms) = law.on_device(value, draws) else { return Err(self.no_device_form(name, &distribution)) };
        self.add_terms(terms, events);
        Ok(())
    }

    /// Adds the numbers of a factor.
    pub(super) fn factor_on_device<const D: usize>(&mut self, name: &str, log_density: Tensor<D>) -> Result<()> {
        match self.score() {
            Score::Skip => Ok(()),
            Score::Sum(weight) => {
                self.outcome.add(0.0, Some(Handle::from(scaled(ordered_sum(log_density), weight))));
                Ok(())
            }
            Score::ByRow => {
                let place = self.row_place();
                let numbers = self.split_by_row(name, log_density)?;
                self.add_row_tape(&place, numbers);
                Ok(())
            }
        }
    }

    fn add_terms(&mut self, terms: Vec<Term>, events: usize) {
        match self.score() {
            Score::Skip => {}
            Score::Sum(weight) => {
                let (constant, sum) = Term::total(terms, events);
                self.outcome.add(weight * constant, sum.map(|sum| Handle::from(scaled(sum, weight))));
            }
            Score::ByRow => self.add_terms_by_row(terms, events),
        }
    }

    /// Adds the terms of so many events to the rows of the plate now evaluated.
    fn add_terms_by_row(&mut self, terms: Vec<Term>, events: usize) {
        let Some(sum) = terms.into_iter().map(Term::sum_columns).reduce(|sum, term| sum + term) else { return };
        let place = self.row_place();
        let (rows, each) = (place.rows, events / place.rows.max(1));
        let numbers = match sum {
            Term::Number(number) => self.device.tensor(vec![number * each as f64; rows], [rows]),
            Term::Tensor(own) => {
                let own = if own.dims()[0] == events { own } else { own.expand([events, 1]) };
                let own = own.reshape([rows, each]);
                let own = if each == 1 { own } else { own.sum_dim(1) };
                own.reshape([rows])
            }
        };
        self.add_row_tape(&place, numbers);
    }

    /// Adds one number for each row of a place, with the weight of this position of the model.
    fn add_row_tape(&mut self, place: &RowPlace, numbers: Tensor<1>) {
        let weight = self.place.weight;
        self.outcome.add_row_tape(place, scaled(numbers, weight));
    }

    fn no_device_form(&self, name: &str, what: &str) -> Error {
        Error::NoDeviceForm { operation: self.operation(name), what: what.to_owned() }
    }
}

/// Numbers times a weight, which is mostly one.
fn scaled(numbers: Tensor<1>, weight: f64) -> Tensor<1> {
    if (weight - 1.0).abs() > 0.0 { numbers * weight } else { numbers }
}
