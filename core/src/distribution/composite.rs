//! Builds distributions out of others: truncated, censored, zero-inflated, hurdles, weighted, mixtures, nested at will.

mod censored;
mod chance;
mod cumulative;
mod hurdle;
mod inverse;
mod mass;
mod mixture;
mod moments;
mod truncated;
mod weighted;
mod zero_inflated;
mod zeros;

pub use censored::Censoring;
pub use chance::Chance;
pub use mixture::Mixture;

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::Tensor;

use super::ParameterRule;
use super::formula::{Form, Formula, Slots};
use super::law::{Law, Parameter};
use crate::error::Error;

/// Marks distributions that may only be observed though their values are not counts: censored and weighted ones, and
/// hurdles of numbers above zero.
#[derive(Debug, Clone, Copy)]
pub struct ObservedOnly;

/// A parameter of a composite distribution: a number for every event, or a tensor of rank `D`.
///
/// # Example
/// ```
/// use partita_core::{Normal, NumberOrTensor};
/// let above_zero: NumberOrTensor<1> = 0.0.into();
/// assert_eq!(Normal::new(0.0, 1.0).truncated(above_zero, f64::INFINITY).shape(), [1]);
/// ```
#[derive(Debug, Clone)]
pub struct NumberOrTensor<const D: usize>(pub(in crate::distribution) Parameter);

impl<const D: usize> From<f64> for NumberOrTensor<D> {
    fn from(number: f64) -> Self {
        Self(number.into())
    }
}

impl<const D: usize> From<Tensor<D>> for NumberOrTensor<D> {
    fn from(tensor: Tensor<D>) -> Self {
        Self(tensor.into())
    }
}

/// A distribution that a composite is made of, with the place of its parameters in the list.
#[derive(Debug, Clone)]
struct Component {
    form: Form,
    range: Range<usize>,
}

impl Component {
    /// Its own parameters among those of the composite.
    fn at<'p, 'a>(&self, parameters: &'p [&'a [f64]]) -> &'p [&'a [f64]] {
        &parameters[self.range.clone()]
    }

    /// Its log density; adds `factor` times the derivatives.
    fn log_prob(&self, value: &[f64], parameters: &[&[f64]], slots: &mut Slots<'_, '_>, factor: f64) -> f64 {
        self.form.log_prob(value, self.at(parameters), &mut slots.scaled(self.range.clone(), factor))
    }

    /// The log probability of a value, or minus infinity where it is outside the support.
    fn log_prob_at(&self, value: f64, parameters: &[&[f64]]) -> f64 {
        let own = self.at(parameters);
        if self.form.support(own).contains(&[value]) {
            self.form.log_prob(&[value], own, &mut Slots::none())
        } else {
            f64::NEG_INFINITY
        }
    }

    /// The mean and the variance of one number, where both exist.
    fn mean_and_variance(&self, parameters: &[&[f64]]) -> Option<(f64, f64)> {
        let own = self.at(parameters);
        Some((*self.form.mean(own)?.first()?, *self.form.variance(own)?.first()?))
    }
}

/// A parameter that a composite has beside those of its components.
struct Own {
    parameter: Parameter,
    rule: ParameterRule,
}

/// The law of a composite of `laws` with its `own` parameters, which stand behind those of the components.
fn compose<F: Formula + 'static>(
    laws: Vec<Law>,
    own: Vec<Own>,
    make: impl FnOnce(Vec<Component>, Vec<ParameterRule>) -> F,
) -> Law {
    let (mut rules, mut components) = (Vec::new(), Vec::with_capacity(laws.len()));
    for law in &laws {
        let start = rules.len();
        rules.extend_from_slice(law.density.rules());
        components.push(Component { form: law.density.clone(), range: start..rules.len() });
    }
    rules.extend(own.iter().map(|own| own.rule));
    let density = Form::Composite(Arc::new(make(components, rules)));
    let mut whole = Law {
        density,
        parameters: Vec::new(),
        batch: laws.first().map_or_else(|| vec![1], |law| law.batch.clone()),
        event: laws.first().map(|law| law.event.clone()).unwrap_or_default(),
        non_centred: laws.iter().any(|law| law.non_centred),
        ordered: laws.iter().any(|law| law.ordered),
        start: laws.iter().find_map(|law| law.start.clone()),
        start_scale: laws.iter().find_map(|law| law.start_scale),
        defect: laws.iter().find_map(|law| law.defect.clone()),
    };
    for law in laws {
        whole.join("component", &law.batch);
        whole.parameters.extend(law.parameters);
    }
    for Own { parameter, rule } in own {
        if let Parameter::Tensor(handle) = &parameter {
            let shape = handle.shape();
            whole.join(&format!("parameter `{}`", rule.name), &shape[..shape.len().saturating_sub(rule.event_rank)]);
        }
        whole.parameters.push(parameter);
    }
    whole
}

/// The law of a composite of one law, as [`compose`] makes it of several.
fn wrap<F: Formula + 'static>(law: Law, own: Vec<Own>, make: impl FnOnce(Component, Vec<ParameterRule>) -> F) -> Law {
    compose(vec![law], own, |mut components, rules| make(components.remove(0), rules))
}

impl Law {
    /// Takes the batch shape of a part: it must be that of the whole, or of one event.
    fn join(&mut self, part: &str, batch: &[usize]) {
        let many = |batch: &[usize]| batch.iter().product::<usize>() != 1;
        if many(batch) && many(&self.batch) && self.batch != batch {
            self.refuse(Error::Shape {
                operation: format!("{part} of {}", self.density.name()),
                found: batch.to_vec(),
                expected: self.batch.clone(),
                remedy: "All parts must have the batch shape, or one element that serves every event.".into(),
            });
        } else if many(batch) || self.batch.len() < batch.len() {
            self.batch = batch.to_vec();
        }
    }

    /// Keeps the first defect.
    fn refuse(&mut self, error: Error) {
        self.defect.get_or_insert(error);
    }

    /// Refuses the distribution that a composite is made of.
    fn refuse_base(&mut self, base: &str, expected: &'static str) {
        let operation = self.density.name().into_owned();
        self.refuse(Error::Argument { operation, argument: "distribution", found: base.to_owned(), expected });
    }
}
