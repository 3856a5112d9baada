//! Gives hurdles: zero with some probability, and otherwise a count above zero or a positive number.

use std::borrow::Cow;
use std::f64::consts::LN_2;

use super::chance::{Chance, Inflated, Scale};
use super::inverse::Search;
use super::mass::{EndSlots, Ends, Mass};
use super::zeros::{AtZero, Event, Mixed, evaluate};
use super::{Component, ObservedOnly, wrap};
use crate::distribution::batch::{Continuous, Discrete, Distribution};
use crate::distribution::evaluate::{Evaluation, View, Wanted};
use crate::distribution::formula::{Formula, Refusal, Slots};
use crate::distribution::law::Law;
use crate::distribution::tail::Tail;
use crate::distribution::{ParameterRule, Support};
use crate::error::{Error, Result};
use crate::math::special::log_one_minus_exp;
use crate::noise::NoiseStream;

/// The chance of a zero of a distribution above which counts are drawn by inversion, where it has tails, not by rejection.
const REJECTION: f64 = 0.9;

impl<const D: usize> Distribution<D, Discrete> {
    /// A hurdle: zero with probability $\pi$ = `chance`, otherwise a count of this distribution that is not zero.
    ///
    /// $$ p(0) = \pi,\qquad p(k) = (1 - \pi)\frac{p_0(k)}{1 - p_0(0)},\quad k = 1, 2, \dots $$
    ///
    /// # Shapes
    /// `chance` is a number, or a tensor with one number an event.
    ///
    /// # Errors
    /// On evaluation, [`crate::Error::Argument`] for a distribution that is not of counts one by one.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Chance, Poisson};
    /// let counts = Poisson::log_rate(0.0).hurdle(Chance::probability(0.25));
    /// let log_prob = counts.log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob - (0.75 / 1.0_f64.exp_m1()).ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Mullahy (1986), *Specification and testing of some modified count data models*.
    #[must_use]
    pub fn hurdle(self, chance: Chance<D>) -> Self {
        Self::from_law(hurdle(self.law, chance))
    }
}

impl<const D: usize> Distribution<D, Continuous> {
    /// A hurdle: exactly zero with probability $\pi$ = `chance`, otherwise a positive number of this distribution.
    ///
    /// $$ P(X = 0) = \pi,\qquad p(x) = (1 - \pi)\thinspace p_0(x),\quad x > 0 $$
    /// The log density of a zero is $\log\pi$, a probability. May only be observed.
    ///
    /// # Shapes
    /// `chance` is a number, or a tensor with one number an event.
    ///
    /// # Errors
    /// On evaluation, [`crate::Error::Argument`] for a distribution whose support is not above zero.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Chance, Exponential};
    /// let rain = Exponential::new(2.0).hurdle(Chance::probability(0.5));
    /// assert!((rain.log_prob_of(&Array::scalar(0.0))? - 0.5_f64.ln()).abs() < 1e-15);
    /// assert_eq!(rain.mean()?.unwrap().values, [0.25]);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    #[must_use]
    pub fn hurdle(self, chance: Chance<D>) -> Distribution<D, ObservedOnly> {
        Distribution::from_law(hurdle(self.law, chance))
    }
}

fn hurdle<const D: usize>(law: Law, chance: Chance<D>) -> Law {
    let (scale, name, rank) = (chance.scale, law.density.name(), law.density.event_rank());
    let mut law = wrap(law, vec![chance.own()], |base, rules| Hurdle { base, rules, scale });
    if rank > 0 {
        law.refuse_base(&name, "a distribution of counts or of positive numbers, one by one");
    }
    law
}

/// Zero, or a value above it.
#[derive(Debug)]
struct Hurdle {
    base: Component,
    rules: Vec<ParameterRule>,
    scale: Scale,
}

impl Hurdle {
    fn chance(&self, parameters: &[&[f64]]) -> f64 {
        parameters[self.base.range.end][0]
    }

    fn is_discrete(&self, parameters: &[&[f64]]) -> bool {
        self.base.form.support(self.base.at(parameters)).is_discrete()
    }

    /// $-\log(1 - p_0(0))$, zero for a distribution without zeros; adds the derivatives.
    fn above_zero(&self, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64 {
        if !self.is_discrete(parameters) {
            return 0.0;
        }
        let log_zero = self.base.log_prob_at(0.0, parameters);
        if log_zero == f64::NEG_INFINITY {
            return 0.0;
        }
        let log = -log_one_minus_exp(log_zero);
        if slots.is_wanted() {
            let mut own = slots.part(self.base.range.clone(), (log_zero + log).exp(), &mut []);
            self.base.form.log_prob(&[0.0], self.base.at(parameters), &mut own);
        }
        log
    }

    /// The logarithm of $P(X \le x)$ by what is not above `at` ≥ 0, which keeps its digits where that is little.
    fn log_below(&self, at: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64 {
        let (range, chance) = (self.base.range.clone(), self.chance(parameters));
        let counts = Mass::of(&self.base, parameters, Ends { low: 1.0, high: at });
        let share = counts.log + self.above_zero(parameters, &mut Slots::none());
        let Inflated { log, by_base, by_chance } = self.scale.inflate(chance, share);
        if slots.is_wanted() && log > f64::NEG_INFINITY {
            slots.add(range.end, by_chance);
            if by_base > 0.0 {
                counts.add(&self.base, parameters, slots, by_base, EndSlots::default());
                self.above_zero(parameters, &mut slots.scaled(0..range.end, by_base));
            }
        }
        log
    }

    /// A draw above zero where zeros are frequent: the count whose upper tail is as large as a uniform number says.
    fn draw_by_inversion(&self, parameters: &[&[f64]], log_share: f64, noise: &mut NoiseStream) -> f64 {
        let log = noise.uniform().ln() - log_share;
        Search { component: &self.base, parameters, tail: Tail::Upper, log }.count(1.0, f64::INFINITY)
    }
}

impl Formula for Hurdle {
    fn name(&self) -> Cow<'static, str> {
        format!("Hurdle({})", self.base.form.name()).into()
    }

    fn rules(&self) -> &[ParameterRule] {
        &self.rules
    }

    fn support(&self, parameters: &[&[f64]]) -> Support {
        self.base.form.support(self.base.at(parameters)).with_zero()
    }

    fn log_prob(&self, value: &[f64], parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64 {
        let (place, chance) = (self.base.range.end, self.chance(parameters));
        if value[0] <= 0.0 {
            let (log, by_chance) = self.scale.log_zero(chance);
            slots.add(place, by_chance);
            return log;
        }
        let (log, by_chance) = self.scale.log_other(chance);
        slots.add(place, by_chance);
        let own = self.base.log_prob(value, parameters, slots, 1.0);
        log + own + self.above_zero(parameters, slots)
    }

    fn evaluate_batch(&self, view: &View<'_>, values: &[f64], scale: f64, wanted: &Wanted) -> Option<Evaluation> {
        let chances = view.parameters[self.base.range.end];
        let logs = |chance: f64| [self.scale.log_zero(chance), self.scale.log_other(chance)];
        // One chance for all events has its logarithms once.
        let once = if let [chance] = *chances { Some(logs(chance)) } else { None };
        let mix = |Event { index, value, own, zero }: Event| {
            let [of_zero, of_other] = once.unwrap_or_else(|| logs(chances[index]));
            if value <= 0.0 {
                return Mixed { log: of_zero.0, by_chance: of_zero.1, ..Mixed::default() };
            }
            let above = if zero == f64::NEG_INFINITY { 0.0 } else { -log_one_minus_exp(zero) };
            let log = of_other.0 + own + above;
            Mixed { log, by_own: 1.0, by_zero: (zero + above).exp(), by_chance: of_other.1 }
        };
        evaluate(&self.base, view, values, scale, wanted, AtZero::Needed, mix)
    }

    fn draw(&self, parameters: &[&[f64]], noise: &mut NoiseStream, out: &mut [f64]) {
        if noise.uniform() < self.scale.probability(self.chance(parameters)) {
            out[0] = 0.0;
            return;
        }
        let log_share = self.above_zero(parameters, &mut Slots::none());
        if log_share > -log_one_minus_exp(REJECTION.ln()) && self.base.form.has_tails() {
            out[0] = self.draw_by_inversion(parameters, log_share, noise);
            return;
        }
        self.base.form.draw(self.base.at(parameters), noise, out);
        while out[0] <= 0.0 {
            self.base.form.draw(self.base.at(parameters), noise, out);
        }
    }

    fn mean(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        let mean = *self.base.form.mean(self.base.at(parameters))?.first()?;
        let share = self.above_zero(parameters, &mut Slots::none()).exp();
        Some(vec![(1.0 - self.scale.probability(self.chance(parameters))) * share * mean])
    }

    fn variance(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        let (mean, variance) = self.base.mean_and_variance(parameters)?;
        let share = self.above_zero(parameters, &mut Slots::none()).exp();
        let factor = (1.0 - self.scale.probability(self.chance(parameters))) * share;
        Some(vec![factor * (variance + mean * mean) - (factor * mean).powi(2)])
    }

    fn log_cdf(&self, value: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        let survival = self.log_survival(value, parameters, &mut Slots::none())?;
        if survival > -LN_2 && value >= 0.0 {
            return Some(self.log_below(value, parameters, slots));
        }
        let log = log_one_minus_exp(survival);
        if slots.is_wanted() && survival > f64::NEG_INFINITY && log > f64::NEG_INFINITY {
            let scale = slots.scale;
            slots.scale *= -(survival - log).exp();
            self.log_survival(value, parameters, slots);
            slots.scale = scale;
        }
        Some(log)
    }

    fn log_survival(&self, value: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        // A point mass beside a density is neither discrete nor continuous: nothing is built on it.
        if !self.is_discrete(parameters) {
            return None;
        }
        if value < 0.0 {
            return Some(0.0);
        }
        let base = &self.base;
        let own = base.form.log_survival(value, base.at(parameters), &mut slots.scaled(base.range.clone(), 1.0))?;
        if own == f64::NEG_INFINITY {
            return Some(own);
        }
        let (log, by_chance) = self.scale.log_other(self.chance(parameters));
        slots.add(base.range.end, by_chance);
        Some(log + own + self.above_zero(parameters, slots))
    }

    fn check(&self, parameters: &[&[f64]], index: usize) -> Result<()> {
        let own = self.base.at(parameters);
        self.base.form.check(own, index)?;
        let support = self.base.form.support(own);
        if support.ends().is_some_and(|(low, _)| low >= 0.0) {
            return Ok(());
        }
        Err(Error::Argument {
            operation: self.name().into_owned(),
            argument: "distribution",
            found: format!("{} on {}", self.base.form.name(), support.describe()),
            expected: "a distribution of counts or of numbers above zero; truncate it at 0 first",
        })
    }

    fn check_value(&self, value: &[f64], parameters: &[&[f64]]) -> std::result::Result<(), Refusal> {
        if Support::Boolean.contains(value) && value[0] <= 0.0 {
            return Ok(());
        }
        match self.base.form.check_value(value, self.base.at(parameters)) {
            Err(Refusal::Outside(place, _)) => Err(Refusal::Outside(place, self.support(parameters).describe())),
            other => other,
        }
    }
}
