//! Puts the log density of a whole batch of a law on the tape, as one node where it has at most four inputs.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::ParameterRule;
use super::evaluate::{Evaluation, View, Wanted};
use super::few::Few;
use super::law::{Law, Parameter};
use super::loss::Loss;
use crate::array::Array;
use crate::error::Result;
use crate::handle::Handle;
use crate::math::operation::{self, Vjp};

/// The most tensors of one node of the tape.
const INPUTS: usize = 4;

/// The way an observation is scored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// Row by row, with this number of rows; only for log densities.
    pub(super) rows: Option<usize>,
    pub(super) loss: Loss,
}

/// A log density as part of a joint density: its value, and its node where gradients flow.
#[derive(Debug)]
pub(crate) struct Scored {
    pub(crate) total: f64,
    pub(crate) tape: Option<Handle>,
}

/// Log densities of a batch, row by row, with their node where gradients flow.
#[derive(Debug)]
pub(crate) struct ScoredRows {
    pub(crate) rows: Vec<f64>,
    pub(crate) tape: Option<Handle>,
}

impl Law {
    /// Refuses bad parameters and bad values of a site.
    pub(crate) fn check(&self, operation: &str, values: &[f64]) -> Result<()> {
        let arrays = self.arrays()?;
        let view = self.view(&arrays);
        view.check(operation, values)?;
        self.check_order(operation, &view, values)
    }

    /// `scale` times the log density of `value`; a node of the tape if the value or a parameter is tracked.
    ///
    /// Consumes its arguments: a tensor without other owners is moved to the host instead of copied. The caller adds
    /// the operation of an error with [`crate::Error::at`].
    pub(crate) fn score(self, value: Handle, scale: f64) -> Result<Scored> {
        self.score_by(Loss::NegativeLogLikelihood, value, scale)
    }

    /// Minus `scale` times the loss of `value`, as [`Law::score`] for the log density.
    pub(crate) fn score_by(self, loss: Loss, value: Handle, scale: f64) -> Result<Scored> {
        let (totals, tape) = self.on_tape(value, scale, Wish { rows: None, loss })?;
        Ok(Scored { total: totals[0], tape })
    }

    /// The log density of `value` summed within each of `rows` rows; a node of the tape as for [`Law::score`].
    pub(crate) fn score_rows(self, value: Handle, rows: usize) -> Result<ScoredRows> {
        let (rows, tape) = self.on_tape(value, 1.0, Wish { rows: Some(rows), loss: Loss::NegativeLogLikelihood })?;
        Ok(ScoredRows { rows, tape })
    }

    /// The log density of each event; a node of the tape as for [`Law::score`].
    pub(super) fn score_events(self, value: Handle) -> Result<ScoredRows> {
        let events = self.batch.iter().product();
        self.score_rows(value, events)
    }

    /// One total, or one for each row, and the node.
    fn on_tape(self, value: Handle, scale: f64, wish: Wish) -> Result<(Vec<f64>, Option<Handle>)> {
        self.sound()?;
        let wanted = Wanted {
            value: value.is_tracked(),
            parameters: self.parameters.iter().map(Parameter::is_tracked).collect(),
            events: wish.rows.is_some(),
        };
        if !wanted.value && !wanted.parameters.contains(&true) {
            let (arrays, values) = (self.arrays()?, value.borrow()?);
            let view = self.view(&arrays);
            let (evaluation, totals) = view.evaluate_by(&values, scale, &wanted, &wish)?;
            return view.finite(&values, evaluation.total).map(|()| (totals, None));
        }
        let (density, widths, event) = (self.density.clone(), self.widths(), self.event_len());
        let mut known = Vec::with_capacity(1 + self.parameters.len());
        let mut inputs = Vec::with_capacity(INPUTS);
        let mut others = Vec::new();
        for parameter in std::iter::once(Parameter::Tensor(value)).chain(self.parameters) {
            match parameter {
                Parameter::Tensor(handle) if handle.is_tracked() && inputs.len() < INPUTS => {
                    inputs.push(handle);
                    known.push(None);
                }
                parameter => {
                    others.extend(parameter.clone().on_tape());
                    known.push(Some(parameter));
                }
            }
        }
        let cell = Arc::new(OnceLock::new());
        let result = Arc::clone(&cell);
        let tape = operation::apply(
            inputs,
            Box::new(move |arrays| {
                let mut arrays = arrays.into_iter();
                let mut next = || Cow::Owned(arrays.next().map(|array| array.values).unwrap_or_default());
                let mut scored = || {
                    let numbers =
                        known.iter().map(|known| known.as_ref().map_or_else(|| Ok(next()), Parameter::borrow));
                    let all: Vec<Cow<'_, [f64]>> = numbers.collect::<Result<_>>()?;
                    let parameters = all[1..].iter().map(AsRef::as_ref).collect();
                    let view = View { density: &density, parameters, widths: widths.clone(), event };
                    let (evaluation, totals) = view.evaluate_by(&all[0], scale, &wanted, &wish)?;
                    let total = if view.in_domain(&wanted.parameters) { evaluation.total } else { f64::NAN };
                    Ok((evaluation, view.finite(&all[0], total).map(|()| totals.clone()), totals))
                };
                let (evaluation, found, totals) = match scored() {
                    Ok(scored) => scored,
                    Err(error) => {
                        let _ = result.set(Err(error));
                        return (Array::scalar(f64::NAN), Box::new(|_| Vec::new()));
                    }
                };
                let output = Array { shape: vec![totals.len()], values: totals };
                let mut first = derivatives(evaluation, &wanted);
                let rest = first.split_off(first.len().min(INPUTS));
                let _ = result.set(found.map(|totals| (totals, rest)));
                (output, vjp(first))
            }),
        );
        match cell.get() {
            Some(Ok((totals, rest))) => Ok((totals.clone(), Some(with_others(tape, totals.len(), others, rest)))),
            Some(Err(error)) => Err(error.clone()),
            None => unreachable!("invariant: a host function runs when it is applied"),
        }
    }

    pub(crate) fn constant_parameters(&self) -> bool {
        !self.parameters.iter().any(Parameter::is_tracked)
    }

    pub(crate) fn event_len(&self) -> usize {
        self.event.iter().product()
    }

    /// The length of each parameter of one event.
    pub(crate) fn widths(&self) -> Few<usize> {
        let width = |(parameter, rule): (&Parameter, &ParameterRule)| match parameter {
            Parameter::Tensor(handle) => handle.shape().iter().rev().take(rule.event_rank).product(),
            Parameter::Number(_) => 1,
        };
        self.parameters.iter().zip(self.density.rules()).map(width).collect()
    }

    pub(crate) fn view<'a>(&'a self, arrays: &'a [Cow<'_, [f64]>]) -> View<'a> {
        let parameters = arrays.iter().map(AsRef::as_ref).collect();
        View { density: &self.density, parameters, widths: self.widths(), event: self.event_len() }
    }
}

impl Parameter {
    /// The tensor, if gradients flow through it.
    fn on_tape(self) -> Option<Handle> {
        match self {
            Self::Tensor(handle) if handle.is_tracked() => Some(handle),
            _ => None,
        }
    }
}

/// The derivatives by one tracked input, and the length of a parameter that serves all events but has them event by
/// event, or 0.
type Derivative = (Vec<f64>, usize);

/// The derivatives by the tracked inputs in order.
fn derivatives(mut evaluation: Evaluation, wanted: &Wanted) -> Vec<Derivative> {
    let value = wanted.value.then_some((evaluation.value, 0));
    let shared = |k: usize| evaluation.shared.get(k).copied().unwrap_or_default();
    let parameters = evaluation.parameters.iter_mut().enumerate().filter(|(k, _)| wanted.by(*k));
    value.into_iter().chain(parameters.map(|(k, own)| (std::mem::take(own), shared(k)))).collect()
}

/// Multiplies the derivatives by the gradient of the outputs: one scalar, or one for each row.
fn vjp(mut derivatives: Vec<Derivative>) -> Vjp {
    Box::new(move |output| {
        // As of a sum of log densities by each.
        let is_one = output.iter().all(|factor| factor.to_bits() == 1.0_f64.to_bits());
        for (derivative, shared) in &mut derivatives {
            match derivative.len().div_ceil(output.len()).max(1) {
                _ if is_one => {}
                1 => derivative.iter_mut().zip(output).for_each(|(derivative, factor)| *derivative *= factor),
                each => derivative
                    .chunks_mut(each)
                    .zip(output)
                    .for_each(|(row, factor)| row.iter_mut().for_each(|derivative| *derivative *= factor)),
            }
            if *shared > 0 {
                let mut sum = vec![0.0; *shared];
                derivative.chunks(*shared).for_each(|own| sum.iter_mut().zip(own).for_each(|(slot, d)| *slot += d));
                *derivative = sum;
            }
        }
        derivatives.into_iter().map(|(derivative, _)| derivative).collect()
    })
}

/// Adds further nodes of value zero, which carry the derivatives by the inputs that the first node has no place for.
fn with_others(tape: Handle, outputs: usize, others: Vec<Handle>, derivatives: &[Derivative]) -> Handle {
    let groups = others.chunks(INPUTS).zip(derivatives.chunks(INPUTS));
    groups.fold(tape, |sum, (inputs, derivatives)| {
        let derivatives = derivatives.to_vec();
        let zeros = Array { values: vec![0.0; outputs], shape: vec![outputs] };
        let node = operation::apply(inputs.to_vec(), Box::new(move |_| (zeros, vjp(derivatives))));
        sum.plus(node)
    })
}
