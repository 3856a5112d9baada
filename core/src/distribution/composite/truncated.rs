//! Gives truncated distributions: values outside two bounds cannot occur, and the density is divided by the mass inside.

use std::borrow::Cow;

use super::cumulative::NO_CUMULATIVE;
use super::inverse::Search;
use super::mass::{EndSlots, Ends, Mass};
use super::{Component, NumberOrTensor, Own, wrap};
use crate::distribution::batch::Distribution;
use crate::distribution::formula::{Formula, Refusal, Slots};
use crate::distribution::{Domain, ParameterRule, Support};
use crate::error::{Error, Result};
use crate::noise::NoiseStream;

/// Rejection needs at most four draws on average above this mass.
const REJECTION: f64 = 0.25;
/// Draws after which a rejection gives way to the inverse.
const TRIES: usize = 200;

impl<const D: usize, S> Distribution<D, S> {
    /// The distribution of a value that is known to lie between `low` and `high`.
    ///
    /// $$ \log p(x) = \log p_0(x) - \log P_0(a \le X \le b),\qquad a \le x \le b $$
    /// with $p_0$ the distribution that is truncated, $a$ = `low` and $b$ = `high`; an infinite bound is none. Counts at
    /// the bounds belong to the support: `Poisson::log_rate(eta).truncated(1.0, f64::INFINITY)` has no zeros. May be a
    /// latent, with constant bounds.
    ///
    /// # Shapes
    /// `low` and `high` are numbers, or tensors with one number an event.
    ///
    /// # Errors
    /// On evaluation: [`Error::Argument`] for a distribution without a known cumulative function,
    /// [`Error::Parameter`] for bounds that are exchanged or have no mass between them.
    ///
    /// # Numerics
    /// The mass comes from the nearer tail, so that a normal truncated to $(8, \infty)$ keeps all digits; a narrow
    /// interval far in a tail loses those that the tail at its near end has above the mass. Draws are exact there too:
    /// by inversion of the tail's logarithm, by rejection where the mass is above ¼. Mean and variance are integrals
    /// over the quantiles.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Exponential};
    /// // Exponential times have no memory.
    /// let late = Exponential::new(0.5).truncated(3.0, f64::INFINITY);
    /// let log_prob = late.log_prob_of(&Array::scalar(5.0))?;
    /// assert!((log_prob - (0.5_f64.ln() - 0.5 * 2.0)).abs() < 1e-14);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Stan Reference Manual, "Truncated distributions".
    #[must_use]
    pub fn truncated(self, low: impl Into<NumberOrTensor<D>>, high: impl Into<NumberOrTensor<D>>) -> Self {
        let bound =
            |name, NumberOrTensor(parameter)| Own { parameter, rule: ParameterRule::number(name, Domain::Bound) };
        let own = vec![bound("low", low.into()), bound("high", high.into())];
        let (name, has_tails) = (self.law.density.name(), self.law.density.has_tails());
        let mut law = wrap(self.law, own, |base, rules| Truncated { base, rules });
        if !has_tails {
            law.refuse_base(&name, NO_CUMULATIVE);
        }
        Self::from_law(law)
    }
}

/// A distribution between two bounds.
#[derive(Debug)]
pub(super) struct Truncated {
    pub(super) base: Component,
    rules: Vec<ParameterRule>,
}

impl Truncated {
    fn ends(&self, parameters: &[&[f64]]) -> Ends {
        let place = self.base.range.end;
        Ends { low: parameters[place][0], high: parameters[place + 1][0] }
    }

    fn places(&self) -> EndSlots {
        let place = self.base.range.end;
        EndSlots { low: Some(place), high: Some(place + 1), low_is_value: false }
    }

    pub(super) fn mass(&self, parameters: &[&[f64]]) -> Mass {
        Mass::of(&self.base, parameters, self.ends(parameters))
    }

    /// The number below which `lower` of the mass lies, and above which `upper`.
    pub(super) fn quantile(&self, parameters: &[&[f64]], mass: &Mass, lower: f64, upper: f64) -> f64 {
        let (tail, log) = mass.target(&self.base, parameters, lower, upper);
        let search = Search { component: &self.base, parameters, tail, log };
        let support = self.support(parameters);
        let (low, high) = support.ends().unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        if support.is_discrete() {
            return search.count(low, high);
        }
        search.number(low, high).clamp(low.next_up(), high.next_down())
    }

    /// A tail of the truncated distribution: the logarithm of the share of the mass between `part`, with derivatives.
    fn log_share(&self, parameters: &[&[f64]], slots: &mut Slots<'_, '_>, at: f64, is_lower: bool) -> f64 {
        let ends = self.ends(parameters);
        let part = if is_lower {
            Ends { high: at.min(ends.high), ..ends }
        } else if self.support(parameters).is_discrete() {
            Ends { low: (at.floor() + 1.0).max(ends.low), ..ends }
        } else {
            Ends { low: at.max(ends.low), ..ends }
        };
        if part == ends {
            return 0.0;
        }
        let (part, whole) = (Mass::of(&self.base, parameters, part), self.mass(parameters));
        if part.log == f64::NEG_INFINITY {
            return part.log;
        }
        let own = self.places();
        if slots.is_wanted() {
            let mut by_value = [0.0];
            let places = if is_lower { EndSlots { high: None, ..own } } else { EndSlots { low: None, ..own } };
            part.add(&self.base, parameters, slots, 1.0, places);
            whole.add(&self.base, parameters, slots, -1.0, own);
            // The derivative by the value is the density over the share.
            if !slots.value.is_empty() && !self.support(parameters).is_discrete() {
                let density = self.base.log_prob_at(at, parameters) - part.log;
                by_value[0] = if is_lower { density.exp() } else { -density.exp() };
            }
            slots.value.iter_mut().for_each(|slot| *slot += slots.scale * by_value[0]);
        }
        (part.log - whole.log).min(0.0)
    }
}

impl Formula for Truncated {
    fn name(&self) -> Cow<'static, str> {
        format!("Truncated({})", self.base.form.name()).into()
    }

    fn rules(&self) -> &[ParameterRule] {
        &self.rules
    }

    fn support(&self, parameters: &[&[f64]]) -> Support {
        let Ends { low, high } = self.ends(parameters);
        self.base.form.support(self.base.at(parameters)).between(low, high)
    }

    fn log_prob(&self, value: &[f64], parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64 {
        let Ends { low, high } = self.ends(parameters);
        // Bounds that depend on latents may exclude an observation that was inside them when it was checked.
        if value[0] < low || value[0] > high {
            return f64::NEG_INFINITY;
        }
        let mass = self.mass(parameters);
        let log_prob = self.base.log_prob(value, parameters, slots, 1.0);
        if slots.is_wanted() {
            mass.add(&self.base, parameters, slots, -1.0, self.places());
        }
        log_prob - mass.log
    }

    fn draw(&self, parameters: &[&[f64]], noise: &mut NoiseStream, out: &mut [f64]) {
        let mass = self.mass(parameters);
        let support = self.support(parameters);
        if mass.log > REJECTION.ln() {
            for _ in 0..TRIES {
                self.base.form.draw(self.base.at(parameters), noise, out);
                if support.contains(out) {
                    return;
                }
            }
        }
        let lower = noise.uniform();
        out[0] = self.quantile(parameters, &mass, lower, 1.0 - lower);
    }

    fn mean(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        self.mean_and_variance(parameters).map(|(mean, _)| vec![mean])
    }

    fn variance(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        self.mean_and_variance(parameters).map(|(_, variance)| vec![variance])
    }

    fn log_cdf(&self, value: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        Some(self.log_share(parameters, slots, value, true))
    }

    fn log_survival(&self, value: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        Some(self.log_share(parameters, slots, value, false))
    }

    fn check(&self, parameters: &[&[f64]], index: usize) -> Result<()> {
        self.base.form.check(self.base.at(parameters), index)?;
        let Ends { low, high } = self.ends(parameters);
        let refuse = |parameter, found, expected| {
            Err(Error::Parameter { distribution: self.name(), parameter, found, index, expected })
        };
        if low > high {
            return refuse("high", high, "a bound above `low`: the two are exchanged");
        }
        if self.mass(parameters).log > f64::NEG_INFINITY {
            return Ok(());
        }
        refuse("low", low, "bounds between which the distribution has mass")
    }

    fn check_value(&self, value: &[f64], parameters: &[&[f64]]) -> std::result::Result<(), Refusal> {
        self.base.form.check_value(value, self.base.at(parameters))?;
        let Ends { low, high } = self.ends(parameters);
        if value[0] >= low && value[0] <= high {
            return Ok(());
        }
        Err(Refusal::Outside(0, self.support(parameters).describe()))
    }
}
