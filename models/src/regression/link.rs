//! Maps the linear predictor to the mean of an outcome, by links that are called as in R.

use burn::tensor::Tensor;
use partita_core::special::{log_normal_cumulative, normal_hazard};
use partita_core::{elementwise, taped};

use crate::sigmoid::sigmoid;

/// The function $g$ of $g(\mu) = \eta$, with the mean $\mu$ of the outcome and the linear predictor $\eta$.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link {
    /// $\mu = \eta$.
    Identity,
    /// $\mu = e^\eta$.
    Log,
    /// $\mu = 1 / \eta$.
    Inverse,
    /// $\mu = \eta^2$.
    Sqrt,
    /// $\mu = 1 / (1 + e^{-\eta})$.
    Logit,
    /// $\mu = \Phi(\eta)$, with the distribution function of the standard normal distribution.
    Probit,
    /// $\mu = 1 - \exp(-e^\eta)$, the complementary log-log link.
    Cloglog,
}

impl Link {
    /// All of them, by the names that R has for them.
    pub const ALL: [(&'static str, Self); 7] = [
        ("identity", Self::Identity),
        ("log", Self::Log),
        ("inverse", Self::Inverse),
        ("sqrt", Self::Sqrt),
        ("logit", Self::Logit),
        ("probit", Self::Probit),
        ("cloglog", Self::Cloglog),
    ];

    /// The mean.
    pub(super) fn mean(self, predictor: Tensor<1>) -> Tensor<1> {
        match self {
            Self::Identity => predictor,
            Self::Log => taped::exp(predictor),
            Self::Inverse => predictor.recip(),
            Self::Sqrt => taped::times(predictor.clone(), predictor),
            Self::Logit | Self::Probit | Self::Cloglog => sigmoid(self.logits(predictor)),
        }
    }

    /// The logarithm of the mean; not a number where the mean is below zero.
    pub(super) fn log_mean(self, predictor: Tensor<1>) -> Tensor<1> {
        match self {
            Self::Log => predictor,
            Self::Identity => taped::log(predictor),
            Self::Inverse => taped::negated(taped::log(predictor)),
            Self::Sqrt => taped::log(self.mean(predictor)),
            Self::Logit | Self::Probit | Self::Cloglog => taped::log_sigmoid(self.logits(predictor)),
        }
    }

    /// The log odds of the mean; not a number where the mean is outside of 0 and 1.
    pub(super) fn logits(self, predictor: Tensor<1>) -> Tensor<1> {
        match self {
            Self::Logit => predictor,
            Self::Probit => elementwise(
                predictor,
                |z| log_normal_cumulative(z) - log_normal_cumulative(-z),
                |z| normal_hazard(z) + normal_hazard(-z),
            ),
            // log(e^u - 1) with u = e^η; below, u is its first term.
            Self::Cloglog => elementwise(
                predictor,
                |z| if z < -37.0 { z } else { z.exp() + (-(-z.exp()).exp_m1()).ln() },
                |z| if z < -37.0 { 1.0 } else { z.exp() / -(-z.exp()).exp_m1() },
            ),
            Self::Identity | Self::Log | Self::Inverse | Self::Sqrt => {
                let mean = self.mean(predictor);
                elementwise(mean, |p| p.ln() - (-p).ln_1p(), |p| 1.0 / (p * (1.0 - p)))
            }
        }
    }
}
