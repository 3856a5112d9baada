//! Gives the learning rate at each step: as a function of the step, or as the run finds it.

use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};

/// The learning rate: found by the run, or a function of the step.
///
/// # Example
/// ```
/// use partita_inference::Schedule;
/// assert_eq!(Schedule::cosine(), Schedule::Cosine { initial: 0.02, last: 0.0 });
/// assert!((Schedule::cosine().rate(50, 100) - 0.01).abs() < 1e-15);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Schedule {
    /// Found by the run: high until iterates are stationary, then lower phase by phase, until a lower rate promises too
    /// little; [`crate::Settings::steps`] is a limit.
    ///
    /// Means of globals and of rows move in units of their posterior standard deviations, log scales as they are, and each
    /// tensor of θ in units of the root mean square of its starting values. A phase ends when the bound rests and split
    /// R-hat over the latter part of its iterates is small, which weights of a network are not asked for; the average of
    /// these iterates is where the next phase begins, at half the rate. When the next phase promises
    /// less than it costs, the rate falls to zero, and the run has converged: the answer is an average over that fall. So
    /// the rate does over the last quarter of the limit, where a run gets there first; the answer is the last iterate
    /// then. A step after which bound or gradient is not finite, and bounds that have fallen far below the best of the phase,
    /// are undone at a quarter of the rate.
    ///
    /// [`crate::AlgorithmChoice::Sfvi`] and `Central` take it step by step, `SfviAvg` round by round, and the gradient
    /// solver of `Pvi` within each local update. Methods that do not know such phases (`FedOpt`, `OnDevice`, `Vertical`,
    /// solvers that keep their optimiser) take [`Schedule::cosine`] over all steps instead, `Pvi` on a device over each visit.
    ///
    /// # References
    /// Dhaka, Catalina, Andersen, Magnusson, Huggins and Vehtari (2020), Robust, accurate stochastic optimization for
    /// variational inference; Welandawe, Andersen, Vehtari and Huggins (2022), Robust, automated, and accurate black-box
    /// variational inference.
    Adaptive {
        /// The rate of the first phase.
        initial: f64,
    },
    /// The same rate at every step.
    Constant {
        /// The rate.
        rate: f64,
    },
    /// Half a cosine from the first rate to the last over the run (Loshchilov and Hutter, 2017).
    Cosine {
        /// The rate at step 0.
        initial: f64,
        /// The rate at the end.
        last: f64,
    },
    /// Geometric decay from the first rate to the last over the run.
    Exponential {
        /// The rate at step 0.
        initial: f64,
        /// The rate at the end.
        last: f64,
    },
    /// A straight line from the first rate to the last over the run.
    Linear {
        /// The rate at step 0.
        initial: f64,
        /// The rate at the end.
        last: f64,
    },
}

impl Schedule {
    /// A rate found by the run, from 0.05 on.
    #[must_use]
    pub const fn adaptive() -> Self {
        Self::Adaptive { initial: 0.05 }
    }

    /// Half a cosine from 0.02 to 0: for runs that take all their steps.
    #[must_use]
    pub const fn cosine() -> Self {
        Self::Cosine { initial: 0.02, last: 0.0 }
    }

    /// The same, with [`Schedule::cosine`] in the place of a rate that the run finds: for methods without its phases.
    #[must_use]
    pub const fn of_steps(self) -> Self {
        if let Self::Adaptive { .. } = self { Self::cosine() } else { self }
    }

    /// The rate at `step` of a run of `steps`; of [`Schedule::Adaptive`] that of the methods which do not know phases.
    #[must_use]
    pub fn rate(self, step: u64, steps: u64) -> f64 {
        let progress = (step as f64 / steps.max(1) as f64).min(1.0);
        match self {
            Self::Adaptive { .. } => Self::cosine().rate(step, steps),
            Self::Constant { rate } => rate,
            Self::Cosine { initial, last } => {
                last + 0.5 * (initial - last) * (1.0 + (std::f64::consts::PI * progress).cos())
            }
            Self::Exponential { initial, last } => initial * (last / initial).powf(progress),
            Self::Linear { initial, last } => initial + (last - initial) * progress,
        }
    }

    /// Refuses rates that are negative or not finite, and a first rate of zero.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(self) -> Result<()> {
        let (initial, last) = match self {
            Self::Adaptive { initial: rate } | Self::Constant { rate } => (rate, rate),
            Self::Cosine { initial, last } | Self::Exponential { initial, last } | Self::Linear { initial, last } => {
                (initial, last)
            }
        };
        let geometric = matches!(self, Self::Exponential { .. });
        let are_rates =
            initial > 0.0 && initial.is_finite() && last.is_finite() && (last > 0.0 || (last >= 0.0 && !geometric));
        let expected = "a first rate > 0 and a last rate >= 0 (> 0 for exponential decay), such as 0.02 and 0";
        Error::unless(are_rates, "schedule", format_args!("{self:?}"), expected)
    }
}
