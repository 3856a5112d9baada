//! Gives censored observations: of some events it is only known that the value is above, below or between numbers.

use std::borrow::Cow;

use super::cumulative::NO_CUMULATIVE;
use super::mass::{EndSlots, Ends, Mass};
use super::{Component, NumberOrTensor, ObservedOnly, Own, wrap};
use crate::distribution::batch::Distribution;
use crate::distribution::formula::{Formula, Known, Refusal, Slots};
use crate::distribution::tail::Tail;
use crate::distribution::{Domain, ParameterRule, Support};
use crate::error::Result;
use crate::noise::NoiseStream;

/// What is known of each event of a censored observation, for [`Distribution::censored`].
///
/// | constructor | the value observed | the tensor given | contributes |
/// |---|---|---|---|
/// | `right(status)` | a time | 1: it happened then; 0: it had not yet | $p(t)$ or $P(X > t)$ |
/// | `left(detected)` | a measurement, or the limit | 1: measured; 0: below the limit | $p(x)$ or $P(X \le x)$ |
/// | `interval(high)` | the low end | the high end; equal: observed exactly | $P(a \le X \le b)$ or $p(a)$ |
///
/// Of counts, all of these hold as they stand: a count censored on the right is above the value, and both ends of an
/// interval belong to it. The ends of an interval may be infinite.
///
/// # Shapes
/// Tensors have one number an event.
#[derive(Debug, Clone)]
pub struct Censoring<const D: usize> {
    number: NumberOrTensor<D>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Right,
    Left,
    Interval,
}

impl<const D: usize> Censoring<D> {
    /// On the right: `status` is 1 where the event happened at the value, and 0 where it had not happened by then.
    #[must_use]
    pub fn right(status: impl Into<NumberOrTensor<D>>) -> Self {
        Self { number: status.into(), kind: Kind::Right }
    }

    /// On the left: `detected` is 1 where the value was measured, and 0 where it is a limit that was not exceeded.
    #[must_use]
    pub fn left(detected: impl Into<NumberOrTensor<D>>) -> Self {
        Self { number: detected.into(), kind: Kind::Left }
    }

    /// In intervals from the value to `high`; where both are equal the value was observed exactly.
    #[must_use]
    pub fn interval(high: impl Into<NumberOrTensor<D>>) -> Self {
        Self { number: high.into(), kind: Kind::Interval }
    }
}

impl<const D: usize, S> Distribution<D, S> {
    /// The observation of this distribution under `censoring`. May only be observed.
    ///
    /// Draws, mean and variance are those of the variable itself, as if nothing were censored: censor predictive draws
    /// as the data were to compare them with data.
    ///
    /// # Shapes
    /// A value has the shape of the distribution; [`Censoring`] says what it holds.
    ///
    /// # Errors
    /// On evaluation: [`crate::Error::Argument`] for a distribution without a known cumulative function, and for an
    /// interval whose ends are exchanged, with its index; [`crate::Error::Support`] for a censored value outside the
    /// support; [`crate::Error::Parameter`] for a status other than 0 and 1.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Censoring, Exponential};
    /// // One patient still alive after three years.
    /// let alive = Exponential::new(0.5).censored(Censoring::right(0.0));
    /// assert!((alive.log_prob_of(&Array::scalar(3.0))? + 1.5).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Klein and Moeschberger (2003), *Survival Analysis*, section 3.5.
    #[must_use]
    pub fn censored(self, censoring: Censoring<D>) -> Distribution<D, ObservedOnly> {
        let Censoring { number, kind } = censoring;
        let rule = match kind {
            Kind::Right => ParameterRule::number("status", Domain::Boolean),
            Kind::Left => ParameterRule::number("detected", Domain::Boolean),
            Kind::Interval => ParameterRule::number("high", Domain::Bound),
        };
        let (name, has_tails) = (self.law.density.name(), self.law.density.has_tails());
        let own = vec![Own { parameter: number.0, rule }];
        let mut law = wrap(self.law, own, |base, rules| Censored { base, rules, kind });
        if !has_tails {
            law.refuse_base(&name, NO_CUMULATIVE);
        }
        Distribution::from_law(law)
    }
}

/// A distribution whose events may be censored.
#[derive(Debug)]
struct Censored {
    base: Component,
    rules: Vec<ParameterRule>,
    kind: Kind,
}

/// How much is known of one event.
enum Event {
    Exactly,
    /// The probability of a tail from the value on.
    In(Tail),
    /// Between the value and this number.
    UpTo(f64),
}

impl Censored {
    #[expect(clippy::float_cmp, reason = "a status is exact, and equal ends are the same number")]
    fn event(&self, value: f64, parameters: &[&[f64]]) -> Event {
        let own = parameters[self.base.range.end][0];
        match self.kind {
            Kind::Right | Kind::Left if own == 1.0 => Event::Exactly,
            Kind::Right => Event::In(Tail::Upper),
            Kind::Left => Event::In(Tail::Lower),
            Kind::Interval if own == value => Event::Exactly,
            Kind::Interval => Event::UpTo(own),
        }
    }
}

impl Formula for Censored {
    fn name(&self) -> Cow<'static, str> {
        format!("Censored({})", self.base.form.name()).into()
    }

    fn rules(&self) -> &[ParameterRule] {
        &self.rules
    }

    fn support(&self, parameters: &[&[f64]]) -> Support {
        self.base.form.support(self.base.at(parameters))
    }

    fn log_prob(&self, value: &[f64], parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64 {
        let base = &self.base;
        match self.event(value[0], parameters) {
            Event::Exactly => base.log_prob(value, parameters, slots, 1.0),
            Event::In(tail) => base.log_tail(tail, value[0], parameters, &mut slots.scaled(base.range.clone(), 1.0)),
            Event::UpTo(high) => {
                let mass = Mass::of(base, parameters, Ends { low: value[0], high });
                if slots.is_wanted() {
                    let places = EndSlots { low: None, high: Some(base.range.end), low_is_value: true };
                    mass.add(base, parameters, slots, 1.0, places);
                }
                mass.log
            }
        }
    }

    fn censoring(&self) -> Option<Known> {
        let status = self.base.range.end;
        Some(match self.kind {
            Kind::Right => Known::Right { status },
            Kind::Left => Known::Left { status },
            Kind::Interval => Known::Interval,
        })
    }

    fn draw(&self, parameters: &[&[f64]], noise: &mut NoiseStream, out: &mut [f64]) {
        self.base.form.draw(self.base.at(parameters), noise, out);
    }

    fn mean(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        self.base.form.mean(self.base.at(parameters))
    }

    fn variance(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        self.base.form.variance(self.base.at(parameters))
    }

    fn check(&self, parameters: &[&[f64]], index: usize) -> Result<()> {
        self.base.form.check(self.base.at(parameters), index)
    }

    fn check_value(&self, value: &[f64], parameters: &[&[f64]]) -> std::result::Result<(), Refusal> {
        let base = &self.base;
        let support = self.support(parameters);
        let (low, high) = support.ends().unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let outside = || Err(Refusal::Outside(0, format!("{}, its ends included", support.describe())));
        let fits = |end: f64| (low..=high).contains(&end) && (!support.is_discrete() || end.fract() == 0.0);
        match self.event(value[0], parameters) {
            Event::Exactly => base.form.check_value(value, base.at(parameters)),
            Event::In(_) if !value[0].is_finite() => Err(Refusal::NotFinite(0)),
            Event::UpTo(_) if value[0].is_nan() => Err(Refusal::NotFinite(0)),
            Event::In(_) if !fits(value[0]) => outside(),
            Event::UpTo(end) if end < value[0] => Err(Refusal::Argument(
                "high",
                end,
                "a number not below the value, which is the low end: the ends of the interval are exchanged",
            )),
            Event::UpTo(end) if !(value[0].is_infinite() || fits(value[0])) || !(end.is_infinite() || fits(end)) => {
                outside()
            }
            // A limit beyond which nothing lies.
            _ if self.log_prob(value, parameters, &mut Slots::none()) == f64::NEG_INFINITY => outside(),
            _ => Ok(()),
        }
    }
}
