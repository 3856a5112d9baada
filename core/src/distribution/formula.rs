//! States what laws evaluate: the mathematics of one event over a list of parameters, of a density or of a composite.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::evaluate::{Evaluation, View, Wanted};
use super::{Density, Gradient, ParameterRule, Support, Term};
use crate::error::{Error, Result};
use crate::noise::NoiseStream;

/// The sinks of the derivatives of one event, as [`Gradient`] for any number of parameters.
///
/// The list of parameters is empty if no derivative by them is asked for.
#[derive(Debug)]
pub(crate) struct Slots<'s, 'g> {
    pub(crate) scale: f64,
    pub(crate) value: &'s mut [f64],
    pub(crate) parameters: &'s mut [&'g mut [f64]],
}

impl<'g> Slots<'_, 'g> {
    /// Asks for no derivative.
    pub(crate) fn none() -> Self {
        Self { scale: 1.0, value: &mut [], parameters: &mut [] }
    }

    /// Whether any derivative is asked for.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.value.is_empty() || self.parameters.iter().any(|slots| !slots.is_empty())
    }

    /// The sinks of the parameters in `range`, with `factor` on every derivative; those of the value are `value`.
    pub(crate) fn part<'a>(&'a mut self, range: Range<usize>, factor: f64, value: &'a mut [f64]) -> Slots<'a, 'g> {
        let parameters = self.parameters.get_mut(range).unwrap_or_default();
        Slots { scale: self.scale * factor, value, parameters }
    }

    /// The sinks of the value and of the parameters in `range`, with `factor` on every derivative.
    pub(crate) fn scaled(&mut self, range: Range<usize>, factor: f64) -> Slots<'_, 'g> {
        let parameters = self.parameters.get_mut(range).unwrap_or_default();
        Slots { scale: self.scale * factor, value: self.value, parameters }
    }

    /// Adds the derivative by a parameter that is one number.
    pub(crate) fn add(&mut self, parameter: usize, partial: f64) {
        if let Some([slot]) = self.parameters.get_mut(parameter) {
            *slot += self.scale * partial;
        }
    }

    fn gradient(&mut self) -> Gradient<'_> {
        let mut rest = self.parameters.iter_mut();
        let mut next = || match rest.next() {
            Some(slots) => &mut **slots,
            None => &mut [],
        };
        Gradient { scale: self.scale, parameters: [next(), next(), next()], value: self.value }
    }
}

/// A value that no event of a law may have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Refusal {
    /// The number at this place is not finite.
    NotFinite(usize),
    /// The event is outside the support, the number at this place by itself.
    Outside(usize, String),
    /// The value contradicts a parameter: its name, the number found, and what was expected.
    Argument(&'static str, f64, &'static str),
}

/// What is known of the events of a censored distribution: their values where the parameter of number `status` is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Of the others that they are above their values.
    Right { status: usize },
    /// Of the others that they are not above their values.
    Left { status: usize },
    /// In which interval they are.
    Interval,
}

/// The mathematics of one event over a list of parameters: of a [`Density`], or of a composite of others.
///
/// Methods are those of [`Density`] unless stated otherwise.
pub(crate) trait Formula: Debug + Send + Sync {
    /// The name in errors and site tables; a composite names its parts: `Truncated(Normal)`.
    fn name(&self) -> Cow<'static, str>;

    /// The parameters in order.
    fn rules(&self) -> &[ParameterRule];

    /// The distribution that the parameter at `index` belongs to, for errors.
    fn owner(&self, _index: usize) -> Cow<'static, str> {
        self.name()
    }

    fn support(&self, parameters: &[&[f64]]) -> Support;

    fn log_prob(&self, value: &[f64], parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64;

    fn draw(&self, parameters: &[&[f64]], noise: &mut NoiseStream, out: &mut [f64]);

    fn mean(&self, parameters: &[&[f64]]) -> Option<Vec<f64>>;

    fn variance(&self, parameters: &[&[f64]]) -> Option<Vec<f64>>;

    fn event_rank(&self) -> usize {
        0
    }

    fn is_improper(&self) -> bool {
        false
    }

    /// What is known of its events, where some are censored.
    fn censoring(&self) -> Option<Known> {
        None
    }

    fn log_cdf(&self, _value: f64, _parameters: &[&[f64]], _slots: &mut Slots<'_, '_>) -> Option<f64> {
        None
    }

    fn log_survival(&self, _value: f64, _parameters: &[&[f64]], _slots: &mut Slots<'_, '_>) -> Option<f64> {
        None
    }

    /// Refuses parameters of the event at `index` that contradict each other.
    fn check(&self, _parameters: &[&[f64]], _index: usize) -> Result<()> {
        Ok(())
    }

    /// Refuses a value that no event may have.
    fn check_value(&self, value: &[f64], parameters: &[&[f64]]) -> std::result::Result<(), Refusal> {
        if let Some(place) = value.iter().position(|v| !v.is_finite()) {
            return Err(Refusal::NotFinite(place));
        }
        let support = self.support(parameters);
        if support.contains(value) {
            return Ok(());
        }
        // The first number that is outside by itself; a simplex is outside as a whole.
        let place = value.iter().position(|v| !support.contains(std::slice::from_ref(v))).unwrap_or(0);
        Err(Refusal::Outside(place, support.describe()))
    }

    fn log_power_integral(&self, _power: f64, _parameters: &[&[f64]], _slots: &mut Slots<'_, '_>) -> Option<f64> {
        None
    }

    /// All events at once, as [`View::evaluate`] gives them; `None` where they are evaluated one by one. A density has
    /// [`Density::batch`] for that.
    fn evaluate_batch(&self, _view: &View<'_>, _values: &[f64], _scale: f64, _wanted: &Wanted) -> Option<Evaluation> {
        None
    }

    fn on_device(&self, _value: Term, _parameters: Vec<Term>) -> Option<Vec<Term>> {
        None
    }
}

/// A density as a formula.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf(pub(crate) &'static dyn Density);

/// What a law evaluates.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    Leaf(Leaf),
    Composite(Arc<dyn Formula>),
}

impl Form {
    /// The density, if it is one.
    pub(crate) fn leaf(&self) -> Option<&'static dyn Density> {
        match self {
            Self::Leaf(Leaf(density)) => Some(*density),
            Self::Composite(_) => None,
        }
    }
}

impl Deref for Form {
    type Target = dyn Formula;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Leaf(leaf) => leaf,
            Self::Composite(formula) => &**formula,
        }
    }
}

/// The parameters of one event of a density; empty where it has fewer than three.
pub(crate) fn three<'a>(parameters: &[&'a [f64]]) -> [&'a [f64]; 3] {
    std::array::from_fn(|index| parameters.get(index).copied().unwrap_or_default())
}

impl Formula for Leaf {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.0.name())
    }

    fn rules(&self) -> &[ParameterRule] {
        self.0.parameters()
    }

    fn support(&self, parameters: &[&[f64]]) -> Support {
        self.0.support(three(parameters))
    }

    fn log_prob(&self, value: &[f64], parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64 {
        self.0.log_prob(value, three(parameters), &mut slots.gradient())
    }

    fn draw(&self, parameters: &[&[f64]], noise: &mut NoiseStream, out: &mut [f64]) {
        self.0.draw(three(parameters), noise, out);
    }

    fn mean(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        self.0.mean(three(parameters))
    }

    fn variance(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        self.0.variance(three(parameters))
    }

    fn event_rank(&self) -> usize {
        self.0.event_rank()
    }

    fn is_improper(&self) -> bool {
        self.0.is_improper()
    }

    fn log_cdf(&self, value: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        self.0.log_cdf(value, three(parameters), &mut slots.gradient())
    }

    fn log_survival(&self, value: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        self.0.log_survival(value, three(parameters), &mut slots.gradient())
    }

    fn check(&self, parameters: &[&[f64]], index: usize) -> Result<()> {
        let Some((parameter, found, expected)) = self.0.conflict(three(parameters)) else { return Ok(()) };
        Err(Error::Parameter { distribution: self.name(), parameter, found, index, expected })
    }

    fn log_power_integral(&self, power: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        self.0.log_power_integral(power, three(parameters), &mut slots.gradient())
    }

    fn on_device(&self, value: Term, parameters: Vec<Term>) -> Option<Vec<Term>> {
        let mut three = [const { Term::Number(0.0) }; 3];
        three.iter_mut().zip(parameters).for_each(|(slot, parameter)| *slot = parameter);
        self.0.on_device(value, three)
    }
}
