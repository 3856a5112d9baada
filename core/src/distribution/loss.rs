//! Defines the loss of an observation: its negative log density, or a robust loss that bounds the effect of an outlier.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The loss of an observation $x$ of density $p = p(x\mid\theta)$ in a generalised posterior.
///
/// The negative log likelihood grows without limit as $p$ falls to zero, so that one outlier can move a whole
/// posterior. The other losses are bounded, and the slope of an observation vanishes with its density.
///
/// | loss | formula | no longer robust at |
/// |---|---|---|
/// | `NegativeLogLikelihood` | $-\log p$ | |
/// | `Beta(β)` | $-\frac1{\beta-1}p^{\beta-1} + \frac1\beta\int p(y)^\beta dy + s$ | $\beta = 1$ |
/// | `Gamma(γ)` | $-\frac\gamma{\gamma-1}p^{\gamma-1}\bigl(\int p(y)^\gamma dy\bigr)^{-(\gamma-1)/\gamma} + s$ | $\gamma = 1$ |
/// | `GeneralisedCrossEntropy(q)` | $\frac1q(1 - p^q)$ | $q = 0$ |
///
/// The shift $s$ = [`Loss::shift`] holds no parameter. It makes every loss tend to $-\log p$ as its index tends to the
/// number in the last column, where the textbook formulas go to minus infinity; *at* that number the loss is $-\log p$.
/// Losses are per observation and are summed: an observation is one event of a distribution, one number of a normal
/// or one class of a categorical.
///
/// # Numerics
/// Computed with `expm1` from $\log p$ and $\log\int p^\beta$: a relative error of some 1e-15 at every index, 1 + 1e-9
/// included.
///
/// # Example
/// ```
/// use partita_core::Loss;
/// let log_prob = (0.2_f64).ln();
/// assert!((Loss::GeneralisedCrossEntropy(0.5).value(log_prob, 0.0) - 2.0 * (1.0 - 0.2_f64.sqrt())).abs() < 1e-15);
/// // At 1 + 1e-9 it is the negative log likelihood to nine digits.
/// assert!((Loss::Beta(1.0 + 1e-9).value(log_prob, -1e-9) + log_prob).abs() < 1e-8);
/// ```
///
/// # References
/// Basu et al. (1998) for the β loss; Fujisawa and Eguchi (2008), Hung et al. (2018) for the γ loss; Zhang and
/// Sabuncu (2018), arXiv:1805.07836, for the generalised cross-entropy; Mildner et al. (2025), arXiv:2502.00846, for
/// all of them in federated posteriors.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Loss {
    /// The negative log likelihood, which gives the Bayesian posterior.
    #[default]
    NegativeLogLikelihood,
    /// The β loss (density power divergence), index at least 1.
    Beta(f64),
    /// The γ loss, index at least 1; unlike the β loss it does not change when densities are multiplied by a
    /// constant.
    Gamma(f64),
    /// The generalised cross-entropy of classes and counts, index between 0 and 1; at 1 it is the probability of error.
    GeneralisedCrossEntropy(f64),
}

impl Loss {
    /// Refuses an index outside its domain.
    ///
    /// # Errors
    /// [`Error::Argument`]: β and γ are finite and at least 1 (below, an outlier would weigh *more* than under the log
    /// likelihood), q lies between 0 and 1.
    pub fn check(self) -> Result<()> {
        let (index, within, expected) = match self {
            Self::NegativeLogLikelihood => return Ok(()),
            Self::Beta(index) | Self::Gamma(index) => {
                (index, index >= 1.0 && index.is_finite(), "a finite number of at least 1; begin with 1.1 to 1.5")
            }
            Self::GeneralisedCrossEntropy(index) => {
                (index, (0.0..=1.0).contains(&index), "a number from 0 to 1; 0.7 is usual")
            }
        };
        if within {
            return Ok(());
        }
        Err(Error::Argument { operation: self.name().into(), argument: "index", found: index.to_string(), expected })
    }

    /// Whether it is the negative log likelihood, by name or at the limit of its index.
    #[must_use]
    pub fn is_log(self) -> bool {
        self.excess() == 0.0
    }

    /// The power $\beta$ whose integral $\int p(y\mid\theta)^\beta dy$ it needs; `None` if it needs none.
    #[must_use]
    pub fn power(self) -> Option<f64> {
        match self {
            Self::Beta(index) | Self::Gamma(index) => Some(index),
            Self::NegativeLogLikelihood | Self::GeneralisedCrossEntropy(_) => None,
        }
    }

    /// The constant added to the textbook formula of Beta and Gamma, for each observation.
    ///
    /// $\frac1{\beta-1} - 1$ for the β loss of $-\frac1{\beta-1}p^{\beta-1} + \frac1\beta\int p^\beta$, and
    /// $\frac1{\gamma-1} + 1$ for the γ loss; 0 for the others. Infinite at index 1.
    #[must_use]
    pub fn shift(self) -> f64 {
        match self {
            Self::Beta(index) => 1.0 / (index - 1.0) - 1.0,
            Self::Gamma(index) => 1.0 / (index - 1.0) + 1.0,
            Self::NegativeLogLikelihood | Self::GeneralisedCrossEntropy(_) => 0.0,
        }
    }

    /// The loss of an observation from its `log_prob`, $\log p$, and `log_integral`, $\log\int p(y\mid\theta)^\beta dy$
    /// at the power [`Loss::power`] (unused if that is `None`).
    #[must_use]
    pub fn value(self, log_prob: f64, log_integral: f64) -> f64 {
        self.with_slopes(log_prob, log_integral).0
    }

    /// The loss, and its derivatives by $\log p$ and by the logarithm of the integral.
    pub(crate) fn with_slopes(self, log_prob: f64, log_integral: f64) -> (f64, [f64; 2]) {
        let excess = self.excess();
        if self.is_log() {
            return (-log_prob, [-1.0, 0.0]);
        }
        match self {
            Self::NegativeLogLikelihood => (-log_prob, [-1.0, 0.0]),
            Self::Beta(index) => {
                let integral = log_integral.exp() / index;
                // ∫/β - 1 + 1/(β - 1) - p^(β-1)/(β - 1); the first two tend to 0 with β - 1.
                let rest = log_integral.exp_m1() / index - excess / index;
                (rest - (excess * log_prob).exp_m1() / excess, [-(excess * log_prob).exp(), integral])
            }
            Self::Gamma(index) => {
                let log_ratio = excess * (log_prob - log_integral / index);
                (-index * log_ratio.exp_m1() / excess, [-index * log_ratio.exp(), log_ratio.exp()])
            }
            Self::GeneralisedCrossEntropy(_) => {
                (-(excess * log_prob).exp_m1() / excess, [-(excess * log_prob).exp(), 0.0])
            }
        }
    }

    /// The distance of the index from the negative log likelihood: the power of $p$ in the loss.
    fn excess(self) -> f64 {
        match self {
            Self::NegativeLogLikelihood => 0.0,
            Self::Beta(index) | Self::Gamma(index) => index - 1.0,
            Self::GeneralisedCrossEntropy(index) => index,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::NegativeLogLikelihood => "negative log likelihood",
            Self::Beta(_) => "β loss",
            Self::Gamma(_) => "γ loss",
            Self::GeneralisedCrossEntropy(_) => "generalised cross-entropy",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegativeLogLikelihood => formatter.write_str(self.name()),
            Self::Beta(index) | Self::Gamma(index) | Self::GeneralisedCrossEntropy(index) => {
                write!(formatter, "{} of index {index}", self.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formulas_are_those_of_the_definitions() {
        let (p, integral) = (0.37_f64, 0.61_f64);
        let (log_p, log_integral) = (p.ln(), integral.ln());
        for index in [1.05_f64, 1.2, 1.5, 2.0, 3.0] {
            let beta = -p.powf(index - 1.0) / (index - 1.0) + integral / index;
            let gamma = -p.powf(index - 1.0) / (index - 1.0) * index / integral.powf((index - 1.0) / index);
            for (loss, textbook) in [(Loss::Beta(index), beta), (Loss::Gamma(index), gamma)] {
                let found = loss.value(log_p, log_integral) - loss.shift();
                // The textbook forms cancel up to 1/(index - 1) = 20.
                assert!((found - textbook).abs() < 1e-13, "{loss}: {found} {textbook}");
            }
        }
    }

    #[test]
    fn every_loss_tends_to_the_negative_log_likelihood_at_the_rate_of_its_index() {
        let log_p = -3.7;
        for excess in [1e-3, 1e-6, 1e-9, 1e-12] {
            // Any normalised density behaves like one whose integral at 1 + c is exp(-2 c).
            let log_integral = -2.0 * excess;
            for loss in [Loss::Beta(1.0 + excess), Loss::Gamma(1.0 + excess), Loss::GeneralisedCrossEntropy(excess)] {
                // The next term of the series is below 10 c; the index itself is rounded to 1e-16.
                let (value, [slope, _]) = loss.with_slopes(log_p, log_integral);
                assert!((value + log_p).abs() < 10.0 * excess + 1e-14, "{loss}: {value}");
                assert!((slope + 1.0).abs() < 10.0 * excess + 1e-14, "{loss}: {slope}");
            }
        }
    }

    #[test]
    fn at_the_limit_a_loss_is_the_negative_log_likelihood() {
        for loss in [
            Loss::NegativeLogLikelihood,
            Loss::default(),
            Loss::Beta(1.0),
            Loss::Gamma(1.0),
            Loss::GeneralisedCrossEntropy(0.0),
        ] {
            assert!(loss.check().is_ok() && loss.is_log());
            assert_eq!(loss.value(-2.5, 0.0).to_bits(), 2.5_f64.to_bits());
        }
    }

    #[test]
    fn slopes_are_the_derivatives_of_the_value() {
        for loss in [Loss::Beta(1.5), Loss::Gamma(1.3), Loss::GeneralisedCrossEntropy(0.7)] {
            let (log_p, log_integral, step) = (-1.2, -0.4, 1e-5);
            let (_, [by_log_prob, by_log_integral]) = loss.with_slopes(log_p, log_integral);
            let at = |a: f64, b: f64| loss.value(log_p + a, log_integral + b);
            // Central differences of second order: 1e-10 from the third derivative, 1e-11 from rounding.
            assert!((by_log_prob - (at(step, 0.0) - at(-step, 0.0)) / (2.0 * step)).abs() < 1e-9, "{loss}");
            assert!((by_log_integral - (at(0.0, step) - at(0.0, -step)) / (2.0 * step)).abs() < 1e-9, "{loss}");
        }
    }

    #[test]
    fn an_index_outside_its_domain_is_refused() {
        let bad = [
            Loss::Beta(0.9),
            Loss::Beta(f64::NAN),
            Loss::Gamma(0.0),
            Loss::Gamma(f64::INFINITY),
            Loss::GeneralisedCrossEntropy(-0.1),
            Loss::GeneralisedCrossEntropy(1.1),
            Loss::GeneralisedCrossEntropy(f64::NAN),
        ];
        for loss in bad {
            assert!(matches!(loss.check(), Err(Error::Argument { argument: "index", .. })), "{loss}");
        }
        assert!(Loss::Beta(1.5).check().is_ok() && Loss::GeneralisedCrossEntropy(1.0).check().is_ok());
    }
}
