//! Gives a latent site its value: from a vector, from its prior, or at the start; and puts it on the tape.

use std::borrow::Cow;

use burn::tensor::Tensor;

use super::affine::{Affine, affine};
use super::{Leaf, Origin, Quantity, Reading, RowPlace, Scope, Score, Tape, Terms};
use crate::declare::site::{Part, Role};
use crate::distribution::{Domain, Law, Loss, Parameter, ParameterRule, Support, Wanted};
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::operation::own_tape;
use crate::noise::{Key, Purpose};

/// A latent site in the table, with the law of its latent numbers.
#[derive(Debug)]
pub(super) struct Entered<'n> {
    pub(super) name: &'n str,
    pub(super) index: usize,
    pub(super) law: Law,
}

/// The values of a latent site.
#[derive(Debug)]
struct Values<'a> {
    /// Empty where the bijector is the identity, and for draws from the prior.
    unconstrained: Cow<'a, [f64]>,
    constrained: Cow<'a, [f64]>,
    /// The log-determinant of each event; empty where the bijector is the identity, and for draws from the prior.
    log_dets: Vec<f64>,
}

impl<'a> Values<'a> {
    /// Values given on the natural scale by a vector or a draw.
    fn plain(constrained: Cow<'a, [f64]>) -> Self {
        Self { unconstrained: Cow::Borrowed(&[]), constrained, log_dets: Vec::new() }
    }
}

impl<'a> Scope<'a> {
    /// The value of a latent site; records its log density and leaf as the reading asks.
    pub(super) fn latent<const D: usize>(&mut self, name: &str, law: Law) -> Result<Tensor<D>> {
        let (law, outer) = law.centred()?;
        let index = self.enter(name, Role::Latent, Some(&law))?;
        if self.is_empty_here() {
            return self.latent_of_no_rows(name, index, &law);
        }
        let entered = Entered { name, index, law };
        if let Reading::SiteTable = self.reading {
            self.register(index, &entered.law)?;
            self.start_at_declared(&entered, outer.as_ref())?;
        }
        if self.stays_on_device() {
            return self.latent_on_device(entered, outer);
        }
        let shape: [usize; D] = self.shape_of(name, &entered.law)?;
        if let Some(numbers) = self.single(&entered) {
            let handle = self.scored_single(&entered, numbers, shape)?;
            return self.placed(name, handle, outer);
        }
        let values = self.value(&entered)?;
        let handle = match &self.reading {
            Reading::Density(density) => {
                let levels = density.terms == Terms::LocalByLevel && self.place.part == Part::Local;
                let tape = if levels { Tape::Fixed } else { density.latents };
                self.scored(entered, values, tape, shape)?
            }
            _ => Handle::from(self.device.tensor(values.constrained.into_owned(), shape)),
        };
        self.placed(name, handle, outer)
    }

    /// The value of a latent where its parametrisation has it; kept for reports.
    fn placed<const D: usize>(&mut self, name: &str, handle: Handle, outer: Option<Affine>) -> Result<Tensor<D>> {
        let natural = match outer {
            Some(outer) => affine(outer, handle)?,
            None => handle,
        };
        self.keep(name, &natural)?;
        Ok(natural.typed())
    }

    /// The value of a latent in a plate without rows: no number, of log density zero.
    fn latent_of_no_rows<const D: usize>(&mut self, name: &str, index: usize, law: &Law) -> Result<Tensor<D>> {
        self.register_no_rows(index);
        // A site that has no rows in all has no numbers either.
        if self.stays_on_device() && self.table().sites[index].width > 0 {
            drop(self.next_leaf());
        }
        let shape: [usize; D] = self.shape_of(name, law)?;
        let handle = Handle::from(self.device.tensor(Vec::new(), shape));
        self.keep(name, &handle)?;
        Ok(handle.typed())
    }

    /// The shape of a latent, whose rank is that of its value.
    pub(super) fn shape_of<const D: usize>(&self, name: &str, law: &Law) -> Result<[usize; D]> {
        law.shape().try_into().map_err(|found: Vec<usize>| Error::Shape {
            operation: self.operation(name),
            expected: vec![0; D],
            found,
            remedy: "The rank of the distribution differs from the rank of the value.".into(),
        })
    }

    /// Scores the values of a latent and keeps them as a leaf.
    fn scored<const D: usize>(
        &mut self,
        entered: Entered<'_>,
        values: Values<'a>,
        tape: Tape,
        shape: [usize; D],
    ) -> Result<Handle> {
        let Values { unconstrained, constrained, log_dets } = values;
        let score = self.score();
        match score {
            Score::Skip => {}
            Score::ByRow => self.add_by_row(log_dets, None),
            Score::Sum(weight) => self.outcome.total += weight * log_dets.iter().sum::<f64>(),
        }
        let on_host = entered.law.constant_parameters();
        let host_gradient = if on_host { self.score_on_host(&entered, &constrained, score, tape)? } else { Vec::new() };
        let site = entered.index;
        let real = self.table().sites[site].support == Some(Support::Real);
        let kept = if real { Vec::new() } else { constrained.to_vec() };
        let value: Tensor<D> = match tape {
            Tape::Leaves => self.device.leaf(constrained, shape),
            Tape::Own => self.device.unregistered_leaf(constrained, shape),
            Tape::Constants | Tape::Fixed => self.device.constant(constrained, shape),
        };
        let handle = Handle::from(value);
        if tape == Tape::Own {
            own_tape::note(&handle);
        }
        let place = if score == Score::ByRow { self.row_place() } else { RowPlace::default() };
        if !on_host {
            let Entered { name, law, .. } = entered;
            self.score_on_tape(name, law, handle.clone(), Loss::NegativeLogLikelihood).map_err(made)?;
        }
        if tape == Tape::Fixed {
            return Ok(handle);
        }
        self.outcome.leaves.push(Leaf {
            site,
            quantity: Quantity::Value,
            handle: handle.clone(),
            unconstrained: if real { Vec::new() } else { unconstrained.into_owned() },
            constrained: kept,
            host_gradient,
            score,
            place,
        });
        Ok(handle)
    }

    /// Adds the log density of a latent whose parameters are constants, with its gradient by the value.
    fn score_on_host(
        &mut self,
        entered: &Entered<'_>,
        constrained: &[f64],
        score: Score,
        tape: Tape,
    ) -> Result<Vec<f64>> {
        let weight = match score {
            Score::Skip => return Ok(Vec::new()),
            Score::ByRow => 1.0,
            Score::Sum(weight) => weight,
        };
        let arrays = entered.law.arrays()?;
        let view = entered.law.view(&arrays);
        let by_row = score == Score::ByRow;
        let wanted = Wanted { value: !by_row || tape != Tape::Fixed, events: by_row, ..Wanted::default() };
        let evaluation = view.evaluate(constrained, weight, &wanted);
        let finite = view.finite(constrained, evaluation.total);
        finite.map_err(|error| made(error).at(|| self.operation(entered.name)))?;
        if by_row {
            self.add_by_row(evaluation.events, None);
        } else {
            self.outcome.total += evaluation.total;
        }
        Ok(evaluation.value)
    }

    /// The values of a latent site, from the origin that the reading names.
    fn value(&self, entered: &Entered<'_>) -> Result<Values<'a>> {
        let Entered { name, index, law } = entered;
        let site = &self.table().sites[*index];
        let numbers = law.shape().iter().product::<usize>();
        let given = match self.place.part {
            Part::Global => self.source.globals.map(|all| all.part(site.offset..site.offset + site.width).wide()),
            Part::Local => self.source.locals.map(|all| Cow::Owned(self.gather(&all[site.block], *index))),
        };
        let Some(bijector) = &site.bijector else { unreachable!("invariant: a latent site has a bijector") };
        let vector = match given {
            Origin::Prior(draw) => {
                let values = law.draw(&mut draw.noise.stream(self.key(Purpose::Prior, draw.index)));
                let values = values.map_err(|error| error.at(|| self.operation(name)))?.values;
                return Ok(Values::plain(values.into()));
            }
            Origin::Start => (!site.start.is_empty()).then(|| Cow::Owned(site.start.clone())),
            Origin::Given(vector) => Some(vector),
        };
        if law.has_bounds()
            || matches!(site.support, Some(Support::Interval(..) | Support::GreaterThan(_) | Support::LessThan(_)))
        {
            self.same_support(name, *index, law)?;
        }
        if site.support == Some(Support::Real) {
            return Ok(Values::plain(vector.unwrap_or_else(|| vec![0.0; numbers].into())));
        }
        let events = numbers / site.event.max(1);
        let one = bijector.unconstrained_len(site.event)?;
        let unconstrained = vector.unwrap_or_else(|| vec![0.0; events * one].into());
        let mut constrained = vec![0.0; numbers];
        let mut log_dets = Vec::with_capacity(events);
        // By event: one that has a single value, as the correlations of one effect, has no unconstrained numbers.
        for (event, x) in constrained.chunks_exact_mut(site.event.max(1)).enumerate() {
            log_dets.push(bijector.forward(&unconstrained[event * one..(event + 1) * one], x));
        }
        Ok(Values { unconstrained, constrained: constrained.into(), log_dets })
    }

    /// One site's columns of a block's row-major vector.
    fn gather(&self, block: &[f64], index: usize) -> Vec<f64> {
        let table = self.table();
        let site = &table.sites[index];
        let width = table.blocks[site.block].width;
        if width == site.width {
            return block.to_vec();
        }
        block.chunks_exact(width).flat_map(|row| &row[site.offset..site.offset + site.width]).copied().collect()
    }

    /// Refuses bounds that depend on other latents: the bijector is fixed when the site table is made.
    fn same_support(&self, name: &str, index: usize, law: &Law) -> Result<()> {
        let arrays = law.arrays()?;
        let view = law.view(&arrays);
        let events = law.shape().iter().product::<usize>() / law.event_len().max(1);
        let expected = match self.table().sites[index].support {
            Some(Support::Ordered) => Some(Support::Real),
            Some(Support::PositiveOrdered) => Some(Support::Positive),
            support => support,
        };
        match (0..events).map(|event| view.density.support(&view.at(event))).find(|support| Some(*support) != expected)
        {
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
        let site = u32::try_from(self.place.next).unwrap_or(u32::MAX);
        Key::new(purpose, index).block(site)
    }
}

/// A latent that is not finite comes from a step that was too long, not from the data.
pub(super) fn made(error: Error) -> Error {
    match error {
        Error::NotFinite { operation, found, .. } => Error::NotFiniteMade { operation, found },
        other => other,
    }
}

impl Law {
    /// Whether a parameter is a bound of the values.
    fn has_bounds(&self) -> bool {
        self.density.rules().iter().any(|rule| rule.domain == Domain::Bound)
    }

    /// The law of the latent and, for a non-centred site, the map to its natural scale.
    fn centred(self) -> Result<(Self, Option<Affine>)> {
        if !self.non_centred {
            return Ok((self, None));
        }
        let outer = self.location_and_scale()?;
        Ok((self.standardised(), Some(outer)))
    }

    /// The location and scale of a location-scale family.
    fn location_and_scale(&self) -> Result<Affine> {
        let rules = self.density.leaf().map_or(&[] as &[ParameterRule], |density| density.parameters());
        let find = |wanted: &str| rules.iter().position(|rule| rule.name == wanted);
        // Whatever the parameters: those of a location-scale family do not bound its values.
        let is_real = self.density.leaf().is_some_and(|density| density.support([&[1.0]; 3]) == Support::Real);
        match (find("location"), find("scale")) {
            (Some(location), Some(scale)) if self.density.event_rank() == 0 && is_real => {
                Ok(Affine { location: self.parameters[location].clone(), scale: self.parameters[scale].clone() })
            }
            _ => Err(Error::Argument {
                operation: format!("{}::non_centred", self.density.name()),
                argument: "distribution",
                found: self.density.name().into_owned(),
                expected: "a location-scale family on all numbers (Normal, StudentT, Cauchy, Laplace); leave out `.non_centred()`",
            }),
        }
    }

    /// The same family at location 0 and scale 1.
    fn standardised(&self) -> Self {
        let mut law = self.clone();
        for (parameter, rule) in law.parameters.iter_mut().zip(self.density.rules()) {
            match rule.name {
                "location" => *parameter = Parameter::Number(0.0),
                "scale" => *parameter = Parameter::Number(1.0),
                _ => {}
            }
        }
        law
    }
}
