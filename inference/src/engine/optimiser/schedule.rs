//! Gives the learning rate at each step, without state to save.

use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};

/// The learning rate as a function of the step: no state, so that a resumed run has the same rates.
///
/// # Example
/// ```
/// use partita_inference::Schedule;
/// let schedule = Schedule::Cosine { initial: 0.02, last: 0.0 };
/// assert!((schedule.rate(50, 100) - 0.01).abs() < 1e-15);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Schedule {
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
    /// The rate at `step` of a run of `steps`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a run has far fewer than 2^52 steps")]
    pub fn rate(self, step: u64, steps: u64) -> f64 {
        let progress = (step as f64 / steps.max(1) as f64).min(1.0);
        match self {
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
            Self::Constant { rate } => (rate, rate),
            Self::Cosine { initial, last } | Self::Exponential { initial, last } | Self::Linear { initial, last } => {
                (initial, last)
            }
        };
        let geometric = matches!(self, Self::Exponential { .. });
        if initial > 0.0 && initial.is_finite() && last.is_finite() && (last > 0.0 || (last >= 0.0 && !geometric)) {
            return Ok(());
        }
        Err(Error::Setting {
            setting: "schedule",
            found: format!("{self:?}"),
            expected: "a first rate > 0 and a last rate >= 0 (> 0 for exponential decay), such as 0.02 and 0",
        })
    }
}
