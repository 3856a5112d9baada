//! Gives the probability of an extra zero, by its log odds or by itself, and mixes it into log probabilities.

use super::mass::log_add_exp;
use super::{NumberOrTensor, Own};
use crate::distribution::{Domain, ParameterRule};
use crate::math::special::{sigmoid, softplus};

/// The probability of a zero that the counts themselves do not explain, for [`crate::Distribution::zero_inflated`] and
/// [`crate::Distribution::hurdle`].
///
/// # Shapes
/// A number, or a tensor of the counts' rank: one number an event, or one element that serves every event (`unsqueeze()`
/// raises the rank of a global of shape `[1]`).
///
/// # Example
/// ```
/// use partita_core::{Array, Chance, Poisson};
/// let by_logits = Poisson::log_rate(0.0).zero_inflated(Chance::logits(0.0));
/// let by_itself = Poisson::log_rate(0.0).zero_inflated(Chance::probability(0.5));
/// let zero = Array::scalar(0.0);
/// assert!((by_logits.log_prob_of(&zero)? - by_itself.log_prob_of(&zero)?).abs() < 1e-15);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Chance<const D: usize> {
    number: NumberOrTensor<D>,
    pub(super) scale: Scale,
}

/// How a chance is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Logits,
    Probability,
}

impl<const D: usize> Chance<D> {
    /// The chance with these log odds.
    #[must_use]
    pub fn logits(logits: impl Into<NumberOrTensor<D>>) -> Self {
        Self { number: logits.into(), scale: Scale::Logits }
    }

    /// The chance with this probability, from 0 to 1.
    #[must_use]
    pub fn probability(probability: impl Into<NumberOrTensor<D>>) -> Self {
        Self { number: probability.into(), scale: Scale::Probability }
    }

    /// The chance as a parameter of a composite.
    pub(super) fn own(self) -> Own {
        let rule = match self.scale {
            Scale::Logits => ParameterRule::number("logits", Domain::Real),
            Scale::Probability => ParameterRule::number("probability", Domain::Probability),
        };
        Own { parameter: self.number.0, rule }
    }
}

/// A log probability with an extra zero mixed in, and its derivatives.
pub(super) struct Inflated {
    pub(super) log: f64,
    /// By the log probability without the zero.
    pub(super) by_base: f64,
    /// By the parameter of the chance.
    pub(super) by_chance: f64,
}

impl Scale {
    /// The probability.
    pub(super) fn probability(self, parameter: f64) -> f64 {
        match self {
            Self::Logits => sigmoid(parameter),
            Self::Probability => parameter,
        }
    }

    /// The logarithm of the probability, and its derivative by the parameter.
    pub(super) fn log_zero(self, parameter: f64) -> (f64, f64) {
        match self {
            Self::Logits => (-softplus(-parameter), sigmoid(-parameter)),
            Self::Probability => (parameter.ln(), 1.0 / parameter),
        }
    }

    /// The logarithm of one less the probability, and its derivative by the parameter.
    pub(super) fn log_other(self, parameter: f64) -> (f64, f64) {
        match self {
            Self::Logits => (-softplus(parameter), -sigmoid(parameter)),
            Self::Probability => ((-parameter).ln_1p(), -1.0 / (1.0 - parameter)),
        }
    }

    /// $\log(\pi + (1 - \pi)e^b)$ with $b$ = `base`.
    pub(super) fn inflate(self, parameter: f64, base: f64) -> Inflated {
        self.mix([self.log_zero(parameter).0, self.log_other(parameter).0], base)
    }

    /// The same from the logarithms of the probability and of one less it.
    pub(super) fn mix(self, [zero, other]: [f64; 2], base: f64) -> Inflated {
        let log = log_add_exp(zero, other + base);
        // (1 - e^b)/(π + (1 - π)e^b) by π; by the log odds it is times π(1 - π).
        let by_probability = -base.exp_m1() * (-log).exp();
        let by_chance = match self {
            Self::Logits => -base.exp_m1() * (zero + other - log).exp(),
            Self::Probability => by_probability,
        };
        Inflated { log, by_base: (other + base - log).exp(), by_chance }
    }
}
