//! Says what a fit promises about single rows, and what the noise for it did to the answer.

use serde::{Deserialize, Serialize};

use super::warning::{Severity, Warning};

/// What was promised of everything that silos sent, and what that cost the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Privacy {
    /// Epsilon of everything that one silo sent in the run.
    pub epsilon: f64,
    /// The delta at which epsilon is stated.
    pub delta: f64,
    /// What is protected: one row of this plate, or of outermost plates.
    pub unit: String,
    /// The noised sums that each silo sent, or its answers follow from.
    pub releases: u64,
    /// The scale of their noise in units of the clip of a row.
    pub noise: f64,
    /// By how much noise widened the standard deviation of each unconstrained global, where the posterior of the report has
    /// it in it; empty where it has not, as after private visits of PVI.
    pub widened: Vec<f64>,
}

/// The factor by which noise may widen the posterior before it says mostly what noise says.
const MOSTLY_NOISE: f64 = 3.0;

impl Privacy {
    /// What was promised, and by which noise it is kept.
    #[must_use]
    pub fn promise(&self) -> String {
        let Self { epsilon, delta, unit, releases, noise, .. } = self;
        format!(
            "everything that a silo sent is ({epsilon}, {delta:e})-differentially private for one row of {unit}: {releases} sums over clipped rows, with noise of {noise:.2} clips on every number"
        )
    }

    /// What noise did, for the verdict.
    pub(super) fn warning(&self) -> Warning {
        if self.widened.is_empty() {
            let problem = format!(
                "noise for differential privacy (epsilon {} at delta {:e} for one row of {}) moved this posterior and is not in it: its intervals are too narrow",
                self.epsilon, self.delta, self.unit
            );
            let remedy = "Read the deviations as those without noise. Several runs with other noise show how far it moves the answer, each at the same price; few rounds and SFVI have it in their intervals.";
            return Warning::new(Severity::Doubt, problem, remedy);
        }
        let widest = self.widened.iter().copied().fold(1.0, f64::max);
        let problem = format!(
            "noise for differential privacy (epsilon {} at delta {:e} for one row of {}) is in this posterior: it widened a standard deviation by a factor of",
            self.epsilon, self.delta, self.unit
        );
        let remedy = "More rows, fewer silos or a larger epsilon need less; intervals have the noise in them, and the estimate moves with it.";
        let severity = if widest > MOSTLY_NOISE { Severity::Doubt } else { Severity::Limit };
        Warning::new(severity, problem, remedy).measured(widest).beyond(MOSTLY_NOISE, "a factor")
    }
}
