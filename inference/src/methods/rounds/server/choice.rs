//! Lets a user choose the coordinator's rule in words, and refuses constants with which it is not defined.

use serde::{Deserialize, Serialize};

use super::{Adaptive, FedAdagrad, FedAdam, FedYogi, Masked, ServerMean, ServerRule};
use crate::engine::error::{Error, Result};

/// A rule of the coordinator by name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ServerChoice {
    /// [`ServerMean`].
    Mean {
        /// The step size $\eta$; 1 takes the mean itself.
        rate: f64,
    },
    /// [`FedAdagrad`].
    Adagrad {
        /// The step size $\eta$.
        rate: f64,
        /// $`\beta_1`$.
        momentum: f64,
        /// $\tau$, in the units of the parameters.
        adaptivity: f64,
    },
    /// [`FedAdam`].
    Adam {
        /// The step size $\eta$.
        rate: f64,
        /// $`\beta_1`$ and $`\beta_2`$.
        decay: [f64; 2],
        /// $\tau$, in the units of the parameters.
        adaptivity: f64,
    },
    /// [`FedYogi`].
    Yogi {
        /// The step size $\eta$.
        rate: f64,
        /// $`\beta_1`$ and $`\beta_2`$.
        decay: [f64; 2],
        /// $\tau$, in the units of the parameters.
        adaptivity: f64,
    },
}

/// Which numbers of a step [`Masked`] lets through.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mask {
    /// The agreement $\tau$ from which a number moves freely: 0 for always, 1 for unanimity.
    pub threshold: f64,
    /// Multiplies what agrees less by its agreement, as the paper does, instead of holding it back altogether.
    pub soft: bool,
}

impl ServerChoice {
    /// The rule before its first round, under a mask where there is one.
    #[must_use]
    pub fn start(self, mask: Option<Mask>) -> Box<dyn ServerRule> {
        let rule: Box<dyn ServerRule> = match self {
            Self::Mean { rate } => Box::new(ServerMean { rate }),
            Self::Adagrad { rate, momentum, adaptivity } => {
                Box::new(Adaptive::new(FedAdagrad, rate, momentum, adaptivity))
            }
            Self::Adam { rate, decay: [momentum, decay], adaptivity } => {
                Box::new(Adaptive::new(FedAdam { decay }, rate, momentum, adaptivity))
            }
            Self::Yogi { rate, decay: [momentum, decay], adaptivity } => {
                Box::new(Adaptive::new(FedYogi { decay }, rate, momentum, adaptivity))
            }
        };
        match mask {
            Some(mask) => Box::new(Masked::new(rule, mask)),
            None => rule,
        }
    }

    /// Refuses constants with which the rule is not defined.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(self) -> Result<()> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let keeps = |share: f64| (0.0..1.0).contains(&share);
        let is_defined = match self {
            Self::Mean { rate } => positive(rate),
            Self::Adagrad { rate, momentum, adaptivity } => positive(rate) && keeps(momentum) && positive(adaptivity),
            Self::Adam { rate, decay, adaptivity } | Self::Yogi { rate, decay, adaptivity } => {
                positive(rate) && decay.into_iter().all(keeps) && positive(adaptivity)
            }
        };
        if is_defined {
            return Ok(());
        }
        Err(Error::Setting {
            setting: "server",
            found: format!("{self:?}"),
            expected: "rate > 0, 0 <= momentum < 1, 0 <= decay < 1 and adaptivity > 0, all finite, such as 0.01, 0.9, 0.99 and 0.001",
        })
    }
}

impl Mask {
    /// Refuses a threshold that is negative or not a number.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(self) -> Result<()> {
        if self.threshold >= 0.0 {
            return Ok(());
        }
        let expected = "a share of silos >= 0, such as 0.4; above 1 nothing moves";
        Err(Error::Setting { setting: "mask.threshold", found: self.threshold.to_string(), expected })
    }
}
