//! Evaluates a whole batch of a density: checks, value and derivatives, and the fused node on Burn's tape.

use std::sync::{Arc, OnceLock};

use super::law::{Law, Parameter};
use super::loss::Loss;
use super::{Batch, Density, Domain, Gradient, Support};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::operation::{self, Vjp};

/// Which derivatives are asked for: by the value, and by each parameter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub(crate) value: bool,
    pub(crate) parameters: [bool; 3],
}

/// The log density of a batch and the derivatives asked for (empty where not).
#[derive(Debug, Clone, Default)]
pub(crate) struct Evaluation {
    pub(crate) total: f64,
    pub(crate) value: Vec<f64>,
    pub(crate) parameters: [Vec<f64>; 3],
    /// Lengths of parameters that serve all events but have derivatives event by event; 0 for the others.
    pub(crate) shared: [usize; 4],
}

/// The way an observation is scored.
#[derive(Debug, Clone, Copy)]
struct Wish {
    /// Row by row, with this number of rows; only for log densities.
    rows: Option<usize>,
    loss: Loss,
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

/// A density with its parameters read to the host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) density: &'static dyn Density,
    pub(crate) parameters: [&'a [f64]; 3],
    /// The length of each parameter of one event.
    pub(crate) widths: [usize; 3],
    /// Numbers in one event.
    pub(crate) event: usize,
}

impl<'a> View<'a> {
    /// The parameters of event `index`.
    pub(crate) fn at(&self, index: usize) -> [&'a [f64]; 3] {
        let mut parameters = self.parameters;
        for (slot, width) in parameters.iter_mut().zip(self.widths) {
            if slot.len() > width {
                *slot = &slot[index * width..(index + 1) * width];
            }
        }
        parameters
    }

    pub(crate) fn support(&self) -> Support {
        self.density.support(self.at(0))
    }

    /// Refuses parameters outside their domain; `numbers` is the length of the whole value.
    pub(crate) fn check_parameters(&self, numbers: usize) -> Result<()> {
        for (rule, (values, width)) in self.density.parameters().iter().zip(self.parameters.iter().zip(self.widths)) {
            for (index, &found) in values.iter().enumerate() {
                let fits = match rule.domain {
                    Domain::Real => found.is_finite(),
                    Domain::Positive => found.is_finite() && found > 0.0,
                    Domain::Count => found.is_finite() && found >= 0.0 && found.fract() == 0.0,
                    Domain::CholeskyFactor => found.is_finite() && fits_cholesky(found, index % width, width),
                };
                if !fits {
                    return Err(Error::Parameter {
                        distribution: self.density.name(),
                        parameter: rule.name,
                        found,
                        index,
                        expected: rule.domain.describe(),
                    });
                }
            }
        }
        for index in 0..numbers / self.event.max(1) {
            if let Some((parameter, found, expected)) = self.density.conflict(self.at(index)) {
                let distribution = self.density.name();
                return Err(Error::Parameter { distribution, parameter, found, index, expected });
            }
        }
        Ok(())
    }

    /// Refuses parameters outside their domain and values that are not finite or outside the support.
    pub(crate) fn check(&self, operation: &str, values: &[f64]) -> Result<()> {
        self.check_parameters(values.len())?;
        for (event, value) in values.chunks_exact(self.event.max(1)).enumerate() {
            let index = event * self.event;
            if let Some(offset) = value.iter().position(|v| !v.is_finite()) {
                let found = value[offset];
                return Err(Error::NotFinite { operation: operation.into(), found, index: index + offset });
            }
            let support = self.density.support(self.at(event));
            if !support.contains(value) {
                // The first number that is outside by itself; a simplex is outside as a whole.
                let offset = value.iter().position(|v| !support.contains(std::slice::from_ref(v))).unwrap_or(0);
                return Err(Error::Support {
                    operation: operation.into(),
                    distribution: self.density.name(),
                    found: value[offset],
                    index: index + offset,
                    support: support.describe(),
                });
            }
        }
        Ok(())
    }

    /// Whether all numbers that must be positive are, among the parameters that change between evaluations (`moving`).
    ///
    /// A log density alone does not show it: that of a gamma distribution is finite for some negative concentrations.
    fn in_domain(&self, moving: [bool; 3]) -> bool {
        let rules = self.density.parameters().iter().zip(self.parameters.iter().zip(self.widths)).zip(moving);
        rules.filter(|(_, moves)| *moves).all(|((rule, (values, width)), _)| match rule.domain {
            Domain::Positive => values.iter().all(|value| *value > 0.0),
            Domain::CholeskyFactor => {
                let diagonal = |matrix: &[f64]| matrix.iter().step_by(width.isqrt() + 1).all(|value| *value > 0.0);
                values.chunks_exact(width.max(1)).all(diagonal)
            }
            Domain::Real | Domain::Count => true,
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
        let mut nothing = Gradient::default();
        values
            .chunks_exact(self.event.max(1))
            .enumerate()
            .map(|(index, value)| self.density.log_prob(value, self.at(index), &mut nothing))
            .collect()
    }

    /// `scale` times the log density summed over events, with the derivatives asked for.
    pub(crate) fn evaluate(&self, values: &[f64], scale: f64, wanted: Wanted) -> Evaluation {
        self.evaluate_batch(values, scale, wanted).unwrap_or_else(|| self.evaluate_events(values, scale, wanted))
    }

    /// As [`View::evaluate`]. If rows are asked for, the derivatives of a parameter that is one number for all events
    /// stay event by event, so that the backward pass can weight them by row.
    fn evaluate_for(&self, values: &[f64], scale: f64, wanted: Wanted, rows: Option<usize>) -> Evaluation {
        let events = values.len() / self.event.max(1);
        let single = |k: usize| wanted.parameters[k] && events > 1 && self.parameters[k].len() == self.widths[k];
        if rows.is_none() || ![0, 1, 2].into_iter().any(single) {
            return self.evaluate(values, scale, wanted);
        }
        // Repeated for every event, a shared parameter has a derivative for every event.
        let spread = [0, 1, 2].map(|k| if single(k) { self.parameters[k].repeat(events) } else { Vec::new() });
        let parameters = [0, 1, 2].map(|k| if single(k) { spread[k].as_slice() } else { self.parameters[k] });
        let width = |k: usize| if single(k) { self.widths[k] } else { 0 };
        let shared = [0, width(0), width(1), width(2)];
        Evaluation { shared, ..View { parameters, ..*self }.evaluate(values, scale, wanted) }
    }

    /// The contribution of the observation to the joint density, with its derivatives: in all, or row by row.
    fn evaluate_by(&self, values: &[f64], scale: f64, wanted: Wanted, wish: Wish) -> Result<(Evaluation, Vec<f64>)> {
        let evaluation = if wish.loss.is_log() {
            self.evaluate_for(values, scale, wanted, wish.rows)
        } else {
            self.evaluate_loss(wish.loss, values, scale, wanted)?
        };
        let totals = self.totals(values, evaluation.total, wish.rows);
        Ok((evaluation, totals))
    }

    /// The total, or the totals of rows.
    fn totals(&self, values: &[f64], total: f64, rows: Option<usize>) -> Vec<f64> {
        let Some(rows) = rows else { return vec![total] };
        let events = self.pointwise(values);
        events.chunks((events.len() / rows.max(1)).max(1)).map(|row| row.iter().sum()).collect()
    }

    fn evaluate_events(&self, values: &[f64], scale: f64, wanted: Wanted) -> Evaluation {
        let mut value = vec![0.0; if wanted.value { values.len() } else { 0 }];
        let mut parameters =
            [0, 1, 2].map(|k| vec![0.0; if wanted.parameters[k] { self.parameters[k].len() } else { 0 }]);
        let mut total = 0.0;
        for (index, event) in values.chunks_exact(self.event.max(1)).enumerate() {
            let mut rest = parameters.iter_mut();
            let mut slot = |k: usize| {
                let width = self.widths[k];
                match rest.next() {
                    Some(gradient) if gradient.len() > width => &mut gradient[index * width..(index + 1) * width],
                    Some(gradient) => gradient.as_mut_slice(),
                    None => &mut [],
                }
            };
            let slots = [slot(0), slot(1), slot(2)];
            let own = if wanted.value { &mut value[index * self.event..(index + 1) * self.event] } else { &mut [] };
            let mut gradient = Gradient { scale, value: own, parameters: slots };
            total += self.density.log_prob(event, self.at(index), &mut gradient);
        }
        Evaluation { total: scale * total, value, parameters, shared: [0; 4] }
    }

    fn evaluate_batch(&self, values: &[f64], scale: f64, wanted: Wanted) -> Option<Evaluation> {
        let length = values.len();
        let mut value = vec![0.0; if wanted.value { length } else { 0 }];
        let zeros = |k: usize| vec![0.0; if wanted.parameters[k] { length * self.widths[k] } else { 0 }];
        let [mut a, mut b, mut c] = [zeros(0), zeros(1), zeros(2)];
        let total = self.density.batch(&mut Batch {
            values,
            parameters: self.parameters,
            scale,
            value_gradient: &mut value,
            parameter_gradients: [&mut a, &mut b, &mut c],
        })?;
        let mut parameters = [a, b, c];
        for (gradient, given) in parameters.iter_mut().zip(self.parameters) {
            if given.len() == 1 && gradient.len() > 1 {
                *gradient = vec![gradient.iter().sum()];
            }
        }
        Some(Evaluation { total: scale * total, value, parameters, shared: [0; 4] })
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
    /// the operation of an error with [`Error::at`].
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

    /// One total, or one for each row, and the node.
    fn on_tape(self, value: Handle, scale: f64, wish: Wish) -> Result<(Vec<f64>, Option<Handle>)> {
        self.sound()?;
        let tracked = [value.is_tracked(), self.tracks(0), self.tracks(1), self.tracks(2)];
        let wanted = Wanted { value: tracked[0], parameters: [tracked[1], tracked[2], tracked[3]] };
        if tracked == [false; 4] {
            let (arrays, value) = (self.arrays()?, value.read()?);
            let view = self.view(&arrays);
            let (_, totals) = view.evaluate_by(&value.values, scale, wanted, wish)?;
            return view.finite(&value.values, totals.iter().sum()).map(|()| (totals, None));
        }
        let (density, widths, event) = (self.density, self.widths(), self.event_len());
        let mut constants: [Option<Array>; 4] = [const { None }; 4];
        let mut inputs = Vec::with_capacity(4);
        let all = std::iter::once(Parameter::Tensor(value)).chain(self.parameters);
        for ((slot, is_tracked), parameter) in constants.iter_mut().zip(tracked).zip(all) {
            match parameter {
                Parameter::Tensor(handle) if is_tracked => inputs.push(handle),
                parameter => *slot = Some(parameter.read()?),
            }
        }
        let cell = Arc::new(OnceLock::new());
        let result = Arc::clone(&cell);
        let tape = operation::apply(
            inputs,
            Box::new(move |arrays| {
                let mut arrays = arrays.into_iter();
                let mut all = constants;
                for (slot, _) in all.iter_mut().zip(tracked).filter(|(_, is_tracked)| *is_tracked) {
                    *slot = arrays.next();
                }
                let slice = |k: usize| all[k].as_ref().map_or(&[] as &[f64], |array| array.values.as_slice());
                let view = View { density, parameters: [slice(1), slice(2), slice(3)], widths, event };
                let (evaluation, totals) = match view.evaluate_by(slice(0), scale, wanted, wish) {
                    Ok(found) => found,
                    Err(error) => {
                        let _ = result.set(Err(error));
                        return (Array::scalar(f64::NAN), Box::new(|_| Vec::new()));
                    }
                };
                let total = if view.in_domain(wanted.parameters) { totals.iter().sum() } else { f64::NAN };
                let shape = vec![totals.len()];
                let output = Array { values: totals.clone(), shape };
                let _ = result.set(view.finite(slice(0), total).map(|()| totals));
                (output, vjp(evaluation, tracked))
            }),
        );
        match cell.get() {
            Some(Ok(totals)) => Ok((totals.clone(), Some(tape))),
            Some(Err(error)) => Err(error.clone()),
            None => unreachable!("invariant: a host function runs when it is applied"),
        }
    }

    fn tracks(&self, index: usize) -> bool {
        self.parameters.get(index).is_some_and(Parameter::is_tracked)
    }

    pub(crate) fn constant_parameters(&self) -> bool {
        !self.parameters.iter().any(Parameter::is_tracked)
    }

    pub(crate) fn event_len(&self) -> usize {
        self.event.iter().product()
    }

    /// The length of each parameter of one event.
    pub(crate) fn widths(&self) -> [usize; 3] {
        let mut widths = [1; 3];
        for ((slot, parameter), rule) in widths.iter_mut().zip(&self.parameters).zip(self.density.parameters()) {
            if let Parameter::Tensor(handle) = parameter {
                *slot = handle.shape().iter().rev().take(rule.event_rank).product();
            }
        }
        widths
    }

    pub(crate) fn view<'a>(&self, arrays: &'a [Array]) -> View<'a> {
        let mut parameters: [&[f64]; 3] = [&[]; 3];
        for (slot, array) in parameters.iter_mut().zip(arrays) {
            *slot = &array.values;
        }
        View { density: self.density, parameters, widths: self.widths(), event: self.event_len() }
    }
}

/// Multiplies the derivatives of the tracked inputs by the gradient of the outputs: one scalar, or one for each row.
fn vjp(evaluation: Evaluation, tracked: [bool; 4]) -> Vjp {
    let [a, b, c] = evaluation.parameters;
    let all = [evaluation.value, a, b, c].into_iter().zip(evaluation.shared);
    let mut derivatives: Vec<(Vec<f64>, usize)> =
        all.zip(tracked).filter_map(|(derivative, wanted)| wanted.then_some(derivative)).collect();
    Box::new(move |output| {
        for (derivative, shared) in &mut derivatives {
            let each = derivative.len().div_ceil(output.len()).max(1);
            for (row, factor) in derivative.chunks_mut(each).zip(output) {
                row.iter_mut().for_each(|derivative| *derivative *= factor);
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
