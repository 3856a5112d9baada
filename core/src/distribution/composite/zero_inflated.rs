//! Gives zero-inflated counts: zero with some probability, and otherwise a count that may be zero as well.

use std::borrow::Cow;

use super::chance::{Chance, Inflated, Scale};
use super::mass::log_add_exp;
use super::zeros::{AtZero, Event, Mixed, evaluate};
use super::{Component, wrap};
use crate::distribution::batch::{Discrete, Distribution};
use crate::distribution::evaluate::{Evaluation, View, Wanted};
use crate::distribution::formula::{Formula, Slots};
use crate::distribution::{ParameterRule, Support};
use crate::error::Result;
use crate::noise::NoiseStream;

impl<const D: usize> Distribution<D, Discrete> {
    /// Counts with more zeros: zero with probability $\pi$ = `chance`, otherwise a count of this distribution.
    ///
    /// $$ p(0) = \pi + (1 - \pi)\thinspace p_0(0),\qquad p(k) = (1 - \pi)\thinspace p_0(k),\quad k = 1, 2, \dots $$
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
    /// let counts = Poisson::log_rate(0.0).zero_inflated(Chance::probability(0.25));
    /// let log_prob = counts.log_prob_of(&Array::scalar(0.0))?;
    /// assert!((log_prob - (0.25 + 0.75 * (-1.0_f64).exp()).ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Lambert (1992), *Zero-inflated Poisson regression*.
    #[must_use]
    pub fn zero_inflated(self, chance: Chance<D>) -> Self {
        let (scale, name, rank) = (chance.scale, self.law.density.name(), self.law.density.event_rank());
        let mut law = wrap(self.law, vec![chance.own()], |base, rules| ZeroInflated { base, rules, scale });
        if rank > 0 {
            law.refuse_base(&name, "a distribution of counts one by one, such as Poisson or NegativeBinomial");
        }
        Self::from_law(law)
    }
}

/// Counts with an extra zero.
#[derive(Debug)]
struct ZeroInflated {
    base: Component,
    rules: Vec<ParameterRule>,
    scale: Scale,
}

impl ZeroInflated {
    fn chance(&self, parameters: &[&[f64]]) -> f64 {
        parameters[self.base.range.end][0]
    }

    /// The logarithm with the zero mixed into `base`, which adds its own derivatives with the factor it is given.
    fn inflate(
        &self,
        parameters: &[&[f64]],
        slots: &mut Slots<'_, '_>,
        base: impl Fn(&mut Slots<'_, '_>) -> Option<f64>,
    ) -> Option<f64> {
        let own = base(&mut Slots::none())?;
        let found = self.scale.inflate(self.chance(parameters), own);
        if slots.is_wanted() {
            if found.by_base > 0.0 {
                base(&mut slots.scaled(self.base.range.clone(), found.by_base));
            }
            slots.add(self.base.range.end, found.by_chance);
        }
        Some(found.log)
    }
}

impl Formula for ZeroInflated {
    fn name(&self) -> Cow<'static, str> {
        format!("ZeroInflated({})", self.base.form.name()).into()
    }

    fn rules(&self) -> &[ParameterRule] {
        &self.rules
    }

    fn support(&self, parameters: &[&[f64]]) -> Support {
        self.base.form.support(self.base.at(parameters)).with_zero()
    }

    fn log_prob(&self, value: &[f64], parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64 {
        if value[0] > 0.0 {
            let (log, by_chance) = self.scale.log_other(self.chance(parameters));
            slots.add(self.base.range.end, by_chance);
            return log + self.base.log_prob(value, parameters, slots, 1.0);
        }
        let own = self.base.at(parameters);
        // A base without zeros, such as a truncated one, adds none.
        let has_zero = self.base.form.support(own).contains(&[0.0]);
        let base = |slots: &mut Slots<'_, '_>| {
            Some(if has_zero { self.base.form.log_prob(value, own, slots) } else { f64::NEG_INFINITY })
        };
        self.inflate(parameters, slots, base).unwrap_or(f64::NAN)
    }

    fn evaluate_batch(&self, view: &View<'_>, values: &[f64], scale: f64, wanted: &Wanted) -> Option<Evaluation> {
        let (chances, is_wanted) = (view.parameters[self.base.range.end], wanted.parameters.contains(&true));
        let logs = |chance: f64| [self.scale.log_zero(chance).0, self.scale.log_other(chance).0];
        // One chance for all events has its logarithms once.
        let once = if let [chance] = *chances { Some((logs(chance), self.scale.log_other(chance))) } else { None };
        let mix = |Event { index, value, own, .. }: Event| {
            if value > 0.0 {
                let (log, by_chance) = once.map_or_else(|| self.scale.log_other(chances[index]), |(_, other)| other);
                return Mixed { log: log + own, by_own: 1.0, by_chance, ..Mixed::default() };
            }
            let logs = once.map_or_else(|| logs(chances[index]), |(logs, _)| logs);
            if !is_wanted {
                return Mixed { log: log_add_exp(logs[0], logs[1] + own), ..Mixed::default() };
            }
            let Inflated { log, by_base, by_chance } = self.scale.mix(logs, own);
            Mixed { log, by_own: by_base, by_chance, ..Mixed::default() }
        };
        evaluate(&self.base, view, values, scale, wanted, AtZero::Unused, mix)
    }

    fn draw(&self, parameters: &[&[f64]], noise: &mut NoiseStream, out: &mut [f64]) {
        if noise.uniform() < self.scale.probability(self.chance(parameters)) {
            out[0] = 0.0;
        } else {
            self.base.form.draw(self.base.at(parameters), noise, out);
        }
    }

    fn mean(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        let mean = *self.base.form.mean(self.base.at(parameters))?.first()?;
        Some(vec![(1.0 - self.scale.probability(self.chance(parameters))) * mean])
    }

    fn variance(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        let (mean, variance) = self.base.mean_and_variance(parameters)?;
        let zero = self.scale.probability(self.chance(parameters));
        Some(vec![(1.0 - zero) * (variance + zero * mean * mean)])
    }

    fn log_cdf(&self, value: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        if value < 0.0 {
            return Some(f64::NEG_INFINITY);
        }
        self.inflate(parameters, slots, |slots| self.base.form.log_cdf(value, self.base.at(parameters), slots))
    }

    fn log_survival(&self, value: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        if value < 0.0 {
            return Some(0.0);
        }
        let base = &self.base;
        let own = base.form.log_survival(value, base.at(parameters), &mut slots.scaled(base.range.clone(), 1.0))?;
        let (log, by_chance) = self.scale.log_other(self.chance(parameters));
        if own > f64::NEG_INFINITY {
            slots.add(base.range.end, by_chance);
        }
        Some(log + own)
    }

    fn check(&self, parameters: &[&[f64]], index: usize) -> Result<()> {
        self.base.form.check(self.base.at(parameters), index)
    }
}
