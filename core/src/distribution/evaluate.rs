//! Evaluates a whole batch of a law on the host: checks, log densities, and the derivatives asked for.

use super::few::Few;
use super::formula::{Form, Refusal, Slots, three};
use super::tape::Wish;
use super::{Batch, Density, Domain, Support};
use crate::device::{to_single, widened};
use crate::error::{Error, Result};
use crate::math::kernel::add_scaled;

/// Values of single precision that are evaluated at once.
const FEW: usize = 2_048;

/// What is asked for beside the sum: derivatives by the value and by each parameter (none where the list ends early),
/// and whether all of it event by event.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) value: bool,
    pub(crate) parameters: Few<bool>,
    /// The log density of each event, and event by event the derivatives of a parameter that is one number for all, so
    /// that the backward pass can weight them by row.
    pub(crate) events: bool,
}

impl Wanted {
    /// Whether the derivative by the parameter at `index` is asked for.
    pub(super) fn by(&self, index: usize) -> bool {
        self.parameters.get(index).is_some_and(|wanted| *wanted)
    }
}

/// The log density of a batch and what was asked for (empty where not).
#[derive(Debug, Clone, Default)]
pub(crate) struct Evaluation {
    pub(crate) total: f64,
    pub(crate) value: Vec<f64>,
    pub(crate) parameters: Few<Vec<f64>>,
    /// Lengths of parameters that serve all events but have derivatives event by event; 0 for the others, and none if
    /// there is no such parameter.
    pub(crate) shared: Few<usize>,
    pub(crate) events: Vec<f64>,
}

/// A law with its parameters read to the host.
#[derive(Debug, Clone)]
pub(crate) struct View<'a> {
    pub(crate) density: &'a Form,
    pub(crate) parameters: Few<&'a [f64]>,
    /// The length of each parameter of one event.
    pub(crate) widths: Few<usize>,
    /// Numbers in one event.
    pub(crate) event: usize,
}

impl<'a> View<'a> {
    /// The parameters of event `index`.
    pub(crate) fn at(&self, index: usize) -> Few<&'a [f64]> {
        let mut parameters = self.parameters.clone();
        self.move_to(index, &mut parameters);
        parameters
    }

    /// Writes the parameters of event `index` in place of those of another event.
    pub(crate) fn move_to(&self, index: usize, parameters: &mut [&'a [f64]]) {
        for ((slot, all), width) in parameters.iter_mut().zip(&*self.parameters).zip(&*self.widths) {
            if all.len() > *width {
                *slot = &all[index * width..(index + 1) * width];
            }
        }
    }

    /// Whether each parameter serves all events.
    pub(super) fn is_shared(&self, index: usize) -> bool {
        self.parameters[index].len() <= self.widths[index]
    }

    pub(crate) fn support(&self) -> Support {
        self.density.support(&self.at(0))
    }

    /// Refuses parameters outside their domain; `numbers` is the length of the whole value.
    pub(crate) fn check_parameters(&self, numbers: usize) -> Result<()> {
        let rules = self.density.rules().iter().zip(self.parameters.iter().zip(&*self.widths));
        for (place, (rule, (values, &width))) in rules.enumerate() {
            for (index, &found) in values.iter().enumerate() {
                let fits = match rule.domain {
                    Domain::Real => found.is_finite(),
                    Domain::Positive => found.is_finite() && found > 0.0,
                    Domain::Count => found.is_finite() && found >= 0.0 && found.fract() == 0.0,
                    Domain::CholeskyFactor => found.is_finite() && fits_cholesky(found, index % width, width),
                    Domain::Bound => !found.is_nan(),
                    Domain::Probability => (0.0..=1.0).contains(&found),
                    Domain::Boolean => Support::Boolean.contains(&[found]),
                };
                if !fits {
                    return Err(Error::Parameter {
                        distribution: self.density.owner(place),
                        parameter: rule.name,
                        found,
                        index,
                        expected: rule.domain.describe(),
                    });
                }
            }
        }
        let mut at = self.at(0);
        for index in 0..numbers / self.event.max(1) {
            self.move_to(index, &mut at);
            self.density.check(&at, index)?;
        }
        Ok(())
    }

    /// Refuses parameters outside their domain and values that are not finite or outside the support.
    pub(crate) fn check(&self, operation: &str, values: &[f64]) -> Result<()> {
        self.check_parameters(values.len())?;
        let mut at = self.at(0);
        for (event, value) in values.chunks_exact(self.event.max(1)).enumerate() {
            self.move_to(event, &mut at);
            let Err(refusal) = self.density.check_value(value, &at) else { continue };
            let (operation, distribution, index) = (operation.to_owned(), self.density.name(), event * self.event);
            return Err(match refusal {
                Refusal::NotFinite(place) => Error::NotFinite { operation, found: value[place], index: index + place },
                Refusal::Outside(place, support) => {
                    Error::Support { operation, distribution, found: value[place], index: index + place, support }
                }
                Refusal::Argument(argument, found, expected) => Error::Argument {
                    operation: if operation.is_empty() { distribution.into_owned() } else { operation },
                    argument,
                    found: format!("{found} at index {event}"),
                    expected,
                },
            });
        }
        Ok(())
    }

    /// Whether all numbers that must be positive are, among the parameters that change between evaluations (`moving`).
    ///
    /// A log density alone does not show it: that of a gamma distribution is finite for some negative concentrations.
    pub(super) fn in_domain(&self, moving: &[bool]) -> bool {
        let rules = self.density.rules().iter().zip(self.parameters.iter().zip(&*self.widths)).zip(moving);
        rules.filter(|(_, moves)| **moves).all(|((rule, (values, &width)), _)| match rule.domain {
            Domain::Positive => values.iter().all(|value| *value > 0.0),
            Domain::Probability => values.iter().all(|value| (0.0..=1.0).contains(value)),
            Domain::CholeskyFactor => {
                let diagonal = |matrix: &[f64]| matrix.iter().step_by(width.isqrt() + 1).all(|value| *value > 0.0);
                values.chunks_exact(width.max(1)).all(diagonal)
            }
            Domain::Real | Domain::Count | Domain::Bound | Domain::Boolean => true,
        })
    }

    /// Names the cause of a log density that is not finite; the caller adds the operation with [`Error::at`].
    pub(crate) fn finite(&self, values: &[f64], total: f64) -> Result<()> {
        if total.is_finite() {
            return Ok(());
        }
        self.check("", values)?;
        Err(Error::NotFiniteMade { operation: String::new(), found: total })
    }

    /// The log density of each event.
    pub(crate) fn pointwise(&self, values: &[f64]) -> Vec<f64> {
        self.evaluate(values, 1.0, &Wanted { events: true, ..Wanted::default() }).events
    }

    /// `scale` times the log density summed over events, with what is asked for.
    pub(crate) fn evaluate(&self, values: &[f64], scale: f64, wanted: &Wanted) -> Evaluation {
        let event_by_event = || if wanted.events { self.spread(values, scale, wanted) } else { None };
        self.evaluate_batch(values, scale, wanted)
            .or_else(event_by_event)
            .unwrap_or_else(|| self.evaluate_events(values, scale, wanted))
    }

    /// [`View::evaluate`] of values in single precision; the derivatives by them, in it too, are put behind the end of `gradient`.
    ///
    /// They are evaluated in double precision: where all events share their parameters, few enough at a time that what is in double
    /// precision stays near the processor.
    pub(crate) fn evaluate_single(&self, values: &[f32], scale: f64, gradient: &mut Vec<f32>) -> f64 {
        let is_alike = (0..self.parameters.len()).all(|place| self.is_shared(place));
        let event = self.event.max(1);
        let few = if is_alike { (FEW / event).max(1) * event } else { values.len().max(1) };
        let density = self.density.leaf().filter(|_| is_alike && event == 1);
        let wanted = Wanted { value: true, ..Wanted::default() };
        let mut slopes = vec![0.0; few.min(values.len())];
        let parts = values.chunks(few).map(|values| {
            let slopes = &mut slopes[..values.len()];
            let batch = |density: &dyn Density| {
                density.batch_single(values, three(&self.parameters), scale, slopes).map(|sum| scale * sum)
            };
            let total = density.and_then(batch).unwrap_or_else(|| {
                let found = self.evaluate(&widened(values), scale, &wanted);
                slopes.iter_mut().zip(found.value).for_each(|(slot, slope)| *slot = to_single(slope));
                found.total
            });
            gradient.extend_from_slice(slopes);
            total
        });
        parts.sum()
    }

    /// As [`View::evaluate_events`] with every parameter of one number repeated, so that it has a derivative for every
    /// event; `None` if there is no such parameter.
    fn spread(&self, values: &[f64], scale: f64, wanted: &Wanted) -> Option<Evaluation> {
        let events = values.len() / self.event.max(1);
        let single = |k: usize| wanted.by(k) && events > 1 && self.parameters[k].len() == self.widths[k];
        let places = 0..self.parameters.len();
        places.clone().any(single).then_some(())?;
        let repeated = |k: usize| if single(k) { self.parameters[k].repeat(events) } else { Vec::new() };
        let spread: Few<Vec<f64>> = places.clone().map(repeated).collect();
        let own = |k: usize| if single(k) { spread[k].as_slice() } else { self.parameters[k] };
        let parameters = places.clone().map(own).collect();
        let shared = places.map(|k| if single(k) { self.widths[k] } else { 0 }).collect();
        let view = View { density: self.density, parameters, widths: self.widths.clone(), event: self.event };
        Some(Evaluation { shared, ..view.evaluate_events(values, scale, wanted) })
    }

    /// The contribution of the observation to the joint density, with its derivatives: in all, or row by row.
    pub(super) fn evaluate_by(
        &self,
        values: &[f64],
        scale: f64,
        wanted: &Wanted,
        wish: &Wish,
    ) -> Result<(Evaluation, Vec<f64>)> {
        if !wish.loss.is_log() {
            let evaluation = self.evaluate_loss(wish.loss, values, scale, wanted)?;
            let totals = vec![evaluation.total];
            return Ok((evaluation, totals));
        }
        let mut evaluation = self.evaluate(values, scale, wanted);
        let Some(rows) = wish.rows else {
            let totals = vec![evaluation.total];
            return Ok((evaluation, totals));
        };
        let events = std::mem::take(&mut evaluation.events);
        let each = (events.len() / rows.max(1)).max(1);
        let totals = if each == 1 { events } else { events.chunks(each).map(|row| row.iter().sum()).collect() };
        Ok((evaluation, totals))
    }

    fn evaluate_events(&self, values: &[f64], scale: f64, wanted: &Wanted) -> Evaluation {
        let mut value = vec![0.0; if wanted.value { values.len() } else { 0 }];
        let zeros = |k: usize| vec![0.0; if wanted.by(k) { self.parameters[k].len() } else { 0 }];
        let mut parameters: Few<Vec<f64>> = (0..self.parameters.len()).map(zeros).collect();
        // The derivatives of later events, and those of the event being evaluated.
        let mut later: Few<&mut [f64]> = parameters.iter_mut().map(Vec::as_mut_slice).collect();
        let take_shared = |k: usize| if self.is_shared(k) { std::mem::take(&mut later[k]) } else { &mut [] };
        let mut own: Few<&mut [f64]> = (0..self.parameters.len()).map(take_shared).collect();
        let mut later_value = value.as_mut_slice();
        let mut at = self.at(0);
        let mut total = 0.0;
        let mut events = Vec::with_capacity(if wanted.events { values.len() / self.event.max(1) } else { 0 });
        for (index, event) in values.chunks_exact(self.event.max(1)).enumerate() {
            for ((later, own), width) in later.iter_mut().zip(&mut *own).zip(&*self.widths) {
                if !later.is_empty() {
                    (*own, *later) = std::mem::take(later).split_at_mut(*width);
                }
            }
            let width = if wanted.value { self.event } else { 0 };
            let (own_value, rest) = std::mem::take(&mut later_value).split_at_mut(width);
            later_value = rest;
            self.move_to(index, &mut at);
            let found = self.density.log_prob(event, &at, &mut Slots { scale, value: own_value, parameters: &mut own });
            total += found;
            if wanted.events {
                events.push(found);
            }
        }
        Evaluation { total: scale * total, value, parameters, shared: Few::default(), events }
    }

    /// All events at once, where the law has them so.
    pub(super) fn evaluate_batch(&self, values: &[f64], scale: f64, wanted: &Wanted) -> Option<Evaluation> {
        if let Form::Composite(formula) = self.density {
            return formula.evaluate_batch(self, values, scale, wanted);
        }
        let density = self.density.leaf()?;
        let length = values.len();
        let mut value = vec![0.0; if wanted.value { length } else { 0 }];
        let zeros = |k: usize| vec![0.0; if wanted.by(k) { length * self.widths[k] } else { 0 }];
        let [mut a, mut b, mut c] = [zeros(0), zeros(1), zeros(2)];
        let mut events = vec![0.0; if wanted.events { length } else { 0 }];
        let total = density.batch(&mut Batch {
            values,
            parameters: three(&self.parameters),
            scale,
            value_gradient: &mut value,
            parameter_gradients: [&mut a, &mut b, &mut c],
            events: &mut events,
        })?;
        let mut parameters: Few<Vec<f64>> = [a, b, c].into_iter().take(self.parameters.len()).collect();
        let mut shared = Few::default();
        let single = |k: usize, by: &[f64]| self.parameters[k].len() == self.widths[k] && by.len() > self.widths[k];
        if wanted.events {
            let own = parameters.iter().enumerate().map(|(k, by)| if single(k, by) { self.widths[k] } else { 0 });
            shared = own.collect();
        } else {
            for (k, by) in parameters.iter_mut().enumerate().filter(|(k, by)| single(*k, by)) {
                let mut sums = vec![0.0; self.widths[k]];
                by.chunks_exact(self.widths[k]).for_each(|event| add_scaled(&mut sums, 1.0, event));
                *by = sums;
            }
        }
        Some(Evaluation { total: scale * total, value, parameters, shared, events })
    }
}

fn fits_cholesky(found: f64, position: usize, width: usize) -> bool {
    let order = width.isqrt();
    let (row, column) = (position / order.max(1), position % order.max(1));
    match row.cmp(&column) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => found > 0.0,
        std::cmp::Ordering::Less => found.abs() < f64::MIN_POSITIVE,
    }
}
