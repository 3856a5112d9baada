//! Gives a latent site its value: from a vector, from its prior, or at the start; and puts it on the tape.

use std::borrow::Cow;

use burn::tensor::Tensor;

use super::affine::affine;
use super::{Leaf, Scope, Table};
use crate::bijector;
use crate::declare::site::{Part, Role};
use crate::distribution::{Law, Parameter, Support, Wanted};
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::noise::{Key, Purpose};

/// Unconstrained value, constrained value and the log-determinant of each event of a latent.
type Values<'a> = (Cow<'a, [f64]>, Cow<'a, [f64]>, Vec<f64>);

impl<'a> Scope<'a> {
    /// The value of a latent site; its log density and leaf are recorded as the reading asks.
    pub(super) fn latent<const D: usize>(&mut self, name: &str, law: Law) -> Result<Tensor<D>> {
        let outer = if law.non_centred { Some(law.location_and_scale()?) } else { None };
        let inner = if law.non_centred { law.standardised() } else { law };
        let index = match self.enter(name, Role::Latent, Some(&inner))? {
            Some(index) => index,
            None => self.register(&inner)?,
        };
        if self.resident.is_some() {
            return self.latent_on_device(name, index, inner, outer);
        }
        let (unconstrained, constrained, log_dets) = self.value(name, index, &inner)?;
        let shape: [usize; D] = inner.shape().try_into().map_err(|found: Vec<usize>| Error::Shape {
            operation: self.operation(name),
            expected: vec![0; D],
            found,
            remedy: "The rank of the distribution differs from the rank of the value.".into(),
        })?;
        let score = self.scoring && !self.quiet;
        let by_row = self.by_row();
        let weight = match (score, by_row) {
            (false, _) => 0.0,
            (true, true) => 1.0,
            (true, false) => self.weight_here(),
        };
        let mut host_gradient = Vec::new();
        let on_host = inner.constant_parameters();
        if score && by_row {
            self.add_rows(&log_dets, None);
        } else if score {
            self.outcome.total += weight * log_dets.iter().sum::<f64>();
        }
        if score && on_host {
            let arrays = inner.arrays()?;
            let wanted = Wanted { value: self.tracking, ..Wanted::default() };
            let view = inner.view(&arrays);
            let evaluation = view.evaluate(&constrained, weight, wanted);
            view.finite(&constrained, evaluation.total).map_err(|error| made(error).at(|| self.operation(name)))?;
            if by_row {
                let events = view.pointwise(&constrained);
                self.add_rows(&events, None);
            } else {
                self.outcome.total += evaluation.total;
            }
            host_gradient = evaluation.value;
        }
        let real = self.table.get().sites[index].support == Some(Support::Real);
        let kept = if self.tracking && !real { constrained.to_vec() } else { Vec::new() };
        let value: Tensor<D> = if self.tracking && self.taping {
            self.device.leaf(constrained, shape)
        } else {
            self.device.tensor(constrained.into_owned(), shape)
        };
        let handle = Handle::from(value);
        if score && !on_host && by_row {
            let rows = inner.shape()[0];
            let scored = inner.score_rows(handle.clone(), rows);
            let scored = scored.map_err(|error| made(error).at(|| self.operation(name)))?;
            self.add_rows(&scored.rows, scored.tape);
        } else if score && !on_host {
            let scored = inner.score(handle.clone(), weight);
            let scored = scored.map_err(|error| made(error).at(|| self.operation(name)))?;
            self.add(scored.total, scored.tape);
        }
        if self.tracking {
            let unconstrained = if real { Vec::new() } else { unconstrained.into_owned() };
            let leaf = Leaf {
                site: index,
                handle: handle.clone(),
                unconstrained,
                constrained: kept,
                host_gradient,
                weight,
                rowwise: by_row,
                variance: false,
            };
            self.outcome.leaves.push(leaf);
        }
        let natural = match outer {
            Some((location, scale)) => affine(location, scale, handle)?,
            None => handle,
        };
        self.keep(name, &natural)?;
        Ok(natural.typed())
    }

    /// Writes support, bijector and place of the latent just entered into the table being built.
    fn register(&mut self, law: &Law) -> Result<usize> {
        let arrays = law.arrays()?;
        let view = law.view(&arrays);
        let numbers = law.shape().iter().product::<usize>();
        view.check_parameters(numbers)?;
        let support = view.support();
        let events = numbers / law.event_len().max(1);
        let bijector = bijector::for_support(&support)?;
        let one = bijector.unconstrained_len(law.event_len())?;
        let rows = self.plate.as_ref().map_or(1, |plate| plate.total);
        let plate = self.plate.as_ref().map(|plate| plate.name.clone());
        let local = self.part == Part::Local;
        let block = if local { self.block(plate.as_deref(), rows)? } else { 0 };
        let Table::Building(table) = &mut self.table else {
            unreachable!("invariant: a site is registered only while the table is built")
        };
        let width = events / rows * one;
        let offset = if local { table.blocks[block].width } else { table.global_len };
        if local {
            table.blocks[block].width += width
        } else {
            table.global_len += width
        }
        let index = table.sites.len() - 1;
        let site = &mut table.sites[index];
        (site.support, site.block, site.offset, site.width) = (Some(support), block, offset, width);
        site.bijector = Some(bijector.into());
        Ok(index)
    }

    /// Unconstrained value, constrained value and the log-determinant of each event of a latent.
    fn value(&self, name: &str, index: usize, law: &Law) -> Result<Values<'a>> {
        let site = &self.table.get().sites[index];
        let numbers = law.shape().iter().product::<usize>();
        let globals: Option<&'a [f64]> = self.source.globals;
        let vector = match self.part {
            Part::Global => globals.map(|globals| Cow::Borrowed(&globals[site.offset..site.offset + site.width])),
            Part::Local => self.source.locals.map(|locals| Cow::Owned(self.gather(&locals[site.block], index))),
        };
        let none = Cow::Borrowed(&[] as &[f64]);
        let Some(bijector) = &site.bijector else { unreachable!("invariant: a latent site has a bijector") };
        if let (None, Some((noise, draw))) = (&vector, self.source.prior) {
            let values = law.draw(&mut noise.stream(self.key(Purpose::Prior, draw)))?.values;
            return Ok((none, values.into(), Vec::new()));
        }
        if site.support == Some(Support::Real) {
            let values = vector.unwrap_or_else(|| vec![0.0; numbers].into());
            return Ok((none, values, Vec::new()));
        }
        if let Some(Support::Interval(..)) = site.support {
            self.same_support(name, index, law)?;
        }
        let events = numbers / site.event.max(1);
        let one = bijector.unconstrained_len(site.event)?;
        let unconstrained = vector.unwrap_or_else(|| vec![0.0; events * one].into());
        let mut constrained = vec![0.0; numbers];
        let mut log_dets = Vec::with_capacity(events);
        for (u, x) in unconstrained.chunks_exact(one.max(1)).zip(constrained.chunks_exact_mut(site.event.max(1))) {
            log_dets.push(bijector.forward(u, x));
        }
        Ok((unconstrained, constrained.into(), log_dets))
    }

    /// One site's columns of a block's row-major vector.
    fn gather(&self, block: &[f64], index: usize) -> Vec<f64> {
        let table = self.table.get();
        let site = &table.sites[index];
        let width = table.blocks[site.block].width;
        if width == site.width {
            return block.to_vec();
        }
        block.chunks_exact(width).flat_map(|row| &row[site.offset..site.offset + site.width]).copied().collect()
    }

    /// Refuses bounds that move with other latents: the bijector is fixed when the site table is made.
    fn same_support(&self, name: &str, index: usize, law: &Law) -> Result<()> {
        let arrays = law.arrays()?;
        let view = law.view(&arrays);
        let events = law.shape().iter().product::<usize>() / law.event_len().max(1);
        let expected = self.table.get().sites[index].support;
        match (0..events).map(|event| view.density.support(view.at(event))).find(|support| Some(*support) != expected) {
            None => Ok(()),
            Some(found) => Err(Error::Argument {
                operation: self.operation(name),
                argument: "support",
                found: found.describe(),
                expected: "the same constant bounds for every event and evaluation; sample on (0, 1) and rescale with `deterministic` instead",
            }),
        }
    }

    /// The noise key of the site now being read.
    pub(super) fn key(&self, purpose: Purpose, index: u64) -> Key {
        let site = u32::try_from(self.next).unwrap_or(u32::MAX);
        Key::new(purpose, index).block(site)
    }
}

/// A latent that is not finite was made by a step too long: no data are to be blamed.
fn made(error: Error) -> Error {
    match error {
        Error::NotFinite { operation, found, .. } => Error::NotFiniteMade { operation, found },
        other => other,
    }
}

impl Law {
    /// The location and scale of a location-scale family.
    fn location_and_scale(&self) -> Result<(Parameter, Parameter)> {
        let find = |wanted: &str| self.density.parameters().iter().position(|rule| rule.name == wanted);
        match (find("location"), find("scale")) {
            (Some(location), Some(scale)) if self.density.event_rank() == 0 => {
                Ok((self.parameters[location].clone(), self.parameters[scale].clone()))
            }
            _ => Err(Error::Argument {
                operation: format!("{}::non_centred", self.density.name()),
                argument: "distribution",
                found: self.density.name().into(),
                expected: "a location-scale family (Normal, StudentT, Cauchy, Laplace); leave out `.non_centred()`",
            }),
        }
    }

    /// The same family at location 0 and scale 1.
    fn standardised(&self) -> Self {
        let mut law = self.clone();
        for (parameter, rule) in law.parameters.iter_mut().zip(self.density.parameters()) {
            match rule.name {
                "location" => *parameter = Parameter::Number(0.0),
                "scale" => *parameter = Parameter::Number(1.0),
                _ => {}
            }
        }
        law
    }
}
