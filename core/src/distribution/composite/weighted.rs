//! Weights the log density of each event: a row that counts as often as its weight says.

use std::borrow::Cow;

use super::{Component, NumberOrTensor, ObservedOnly, Own, wrap};
use crate::distribution::batch::Distribution;
use crate::distribution::formula::{Formula, Known, Refusal, Slots};
use crate::distribution::{Domain, ParameterRule, Support};
use crate::error::{Error, Result};
use crate::noise::NoiseStream;

impl<const D: usize, S> Distribution<D, S> {
    /// The observation of this distribution in which each event counts as often as its weight says.
    ///
    /// $$ \log p_w(x) = w \log p(x) $$
    /// with $w$ = `weights`, numbers of zero or more: an event of weight 2 is as two events, one of weight 0 as none. May
    /// only be observed.
    ///
    /// Draws, mean and variance are those of this distribution, as if nothing were weighted. It comes last: a weighted
    /// distribution has no distribution function, so that `.censored(...)` and `.truncated(...)` after it are refused.
    ///
    /// # Shapes
    /// `weights` is a number, or a tensor with one number an event.
    ///
    /// # Errors
    /// On evaluation, [`Error::Parameter`] for a weight that is negative or not finite.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Poisson};
    /// let (once, y) = (Poisson::log_rate(0.3), Array::scalar(2.0));
    /// let single = once.log_prob_of(&y)?;
    /// assert!((Poisson::log_rate(0.3).weighted(2.5).log_prob_of(&y)? - 2.5 * single).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Bürkner (2017), *brms: an R package for Bayesian multilevel models using Stan*: the term `weights(w)`.
    #[must_use]
    pub fn weighted(self, weights: impl Into<NumberOrTensor<D>>) -> Distribution<D, ObservedOnly> {
        let rule = ParameterRule::number("weights", Domain::Real);
        let own = Own { parameter: weights.into().0, rule };
        let law = wrap(self.law, vec![own], |base, rules| Weighted { base, rules });
        Distribution::from_law(law)
    }
}

/// A distribution whose log density is multiplied by a weight.
#[derive(Debug)]
struct Weighted {
    base: Component,
    rules: Vec<ParameterRule>,
}

impl Weighted {
    fn weight(&self, parameters: &[&[f64]]) -> f64 {
        parameters[self.base.range.end][0]
    }
}

impl Formula for Weighted {
    fn name(&self) -> Cow<'static, str> {
        format!("Weighted({})", self.base.form.name()).into()
    }

    fn rules(&self) -> &[ParameterRule] {
        &self.rules
    }

    fn support(&self, parameters: &[&[f64]]) -> Support {
        self.base.form.support(self.base.at(parameters))
    }

    fn log_prob(&self, value: &[f64], parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64 {
        let weight = self.weight(parameters);
        let log = self.base.log_prob(value, parameters, slots, weight);
        slots.add(self.base.range.end, log);
        weight * log
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

    fn event_rank(&self) -> usize {
        self.base.form.event_rank()
    }

    fn censoring(&self) -> Option<Known> {
        // Its own parameters come first.
        self.base.form.censoring()
    }

    fn check(&self, parameters: &[&[f64]], index: usize) -> Result<()> {
        let found = self.weight(parameters);
        if found < 0.0 {
            let (distribution, expected) = (self.name(), "a finite number >= 0");
            return Err(Error::Parameter { distribution, parameter: "weights", found, index, expected });
        }
        self.base.form.check(self.base.at(parameters), index)
    }

    fn check_value(&self, value: &[f64], parameters: &[&[f64]]) -> std::result::Result<(), Refusal> {
        self.base.form.check_value(value, self.base.at(parameters))
    }
}
