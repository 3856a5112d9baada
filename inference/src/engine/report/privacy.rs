//! Says what a fit promises about single rows, and what the noise for it did to the answer.

use serde::{Deserialize, Serialize};

use super::Report;
use super::warning::{Severity, Warning};

/// What was promised of everything that silos sent, and what that cost the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Privacy {
    /// Epsilon of everything that one silo sent in the run.
    pub epsilon: f64,
    /// The delta at which epsilon is stated.
    pub delta: f64,
    /// What is protected: one of these, such as a row of an outermost plate, or a child where the formula groups rows by it.
    pub unit: String,
    /// The noised sums that each silo sent, or its answers follow from.
    pub releases: u64,
    /// The scale of their noise in units of the clip of a row.
    pub noise: f64,
    /// By how much noise widened the standard deviation of each unconstrained global, where the posterior of the report has
    /// it in it; empty where it has not, as after private visits of PVI.
    pub widened: Vec<f64>,
    /// How far the last round moved the mean of each unconstrained global, in its standard deviations; empty where `widened`
    /// is.
    #[serde(default)]
    pub last_step: Vec<f64>,
    /// The standard deviation of such a step of a mean that noise alone moves, in the same units.
    #[serde(default)]
    pub last_step_of_noise: Vec<f64>,
    /// By how many standard deviations the clip would move the answer if rows were as the posterior has them; `None` where
    /// no rows were drawn from it.
    #[serde(default)]
    pub clipping_moves: Option<f64>,
}

/// The standard deviations that clipping may move an answer that is trusted.
const CLIPPING: f64 = 0.5;

/// The standard deviations that a mean may move in the last round, whatever noise explains.
const LATE: f64 = 0.5;
/// The standard deviations of steps by noise alone beyond which noise does not explain a step.
const EXPLAINED: f64 = 4.0;

/// The factor by which noise may widen the posterior before it says mostly what noise says.
const MOSTLY_NOISE: f64 = 3.0;

impl Report {
    /// Says what the clip does to rows like those that the posterior expects: it would move the answer by so many standard
    /// deviations, and such a share of the rows is clipped. The verdict counts it.
    pub fn tell_clipping(&mut self, moves: f64, share: f64) {
        if let Some(own) = &mut self.privacy {
            own.clipping_moves = Some(moves);
        }
        if moves <= CLIPPING {
            return;
        }
        let problem = format!(
            "the clip is too short for rows such as this posterior expects: {:.2} % of them are clipped, which moves the answer, in standard deviations, by about",
            100.0 * share
        );
        let remedy = "Outcomes are rare, or have long tails. A new study with a larger `clip` under `[privacy]` has more noise and less of this; so has a larger epsilon, by which the clip is longer by itself.";
        let warning = Warning::new(Severity::Doubt, problem, remedy).measured(moves);
        self.warn(vec![warning.beyond(CLIPPING, "standard deviations")]);
    }
}

impl Privacy {
    /// What is protected where nothing else is said.
    pub(crate) const ROW: &'static str = "row of an outermost plate";

    /// A promise about one row by so many sums, of whose noise nothing is known in the posterior.
    pub(crate) fn promised(epsilon: f64, delta: f64, releases: u64, noise: f64) -> Self {
        let [widened, last_step, last_step_of_noise] = [const { Vec::new() }; 3];
        let unit = Self::ROW.to_owned();
        Self { epsilon, delta, unit, releases, noise, widened, last_step, last_step_of_noise, clipping_moves: None }
    }

    /// What was promised, and by which noise it is kept.
    #[must_use]
    pub fn promise(&self) -> String {
        let Self { epsilon, delta, unit, releases, noise, .. } = self;
        format!(
            "everything that a silo sent is ({epsilon}, {delta:e})-differentially private for one {unit}: {releases} sums over clipped rows, with noise of {noise:.2} clips on every number"
        )
    }

    /// What speaks against the answer, for the verdict.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        self.of_last_step().into_iter().chain([self.of_noise()]).collect()
    }

    /// That the last round moved a mean farther than its noise explains.
    fn of_last_step(&self) -> Option<Warning> {
        let steps = self.last_step.iter().map(|step| step.abs()).zip(&self.last_step_of_noise);
        let unexplained = steps.filter(|(step, noise)| !(*step <= LATE || *step <= EXPLAINED * **noise));
        let (step, _) = unexplained.max_by(|one, other| one.0.total_cmp(&other.0))?;
        let problem = "a mean was still on its way: its last round moved it farther than noise explains, in standard deviations by";
        let remedy = "The rounds of this study did not suffice. Declare ranges nearer to what the columns can hold, or ask for more `rounds` in a new study, which needs a budget of its own; a larger epsilon or more rows let a round go farther.";
        let warning = Warning::new(Severity::Doubt, problem, remedy).measured(step);
        Some(warning.beyond(LATE, "standard deviations"))
    }

    /// What noise did.
    fn of_noise(&self) -> Warning {
        if self.widened.is_empty() {
            let problem = format!(
                "noise for differential privacy (epsilon {} at delta {:e} for one {}) moved this posterior and is not in it: its intervals are too narrow",
                self.epsilon, self.delta, self.unit
            );
            let remedy = "Read the deviations as those without noise. Several runs with other noise show how far it moves the answer, each at the same price; few rounds and SFVI have it in their intervals.";
            return Warning::new(Severity::Doubt, problem, remedy);
        }
        let widest = self.widened.iter().copied().fold(1.0, f64::max);
        let problem = format!(
            "noise for differential privacy (epsilon {} at delta {:e} for one {}) is in this posterior: it widened a standard deviation by a factor of",
            self.epsilon, self.delta, self.unit
        );
        let remedy = "More rows, fewer silos or a larger epsilon need less; intervals have the noise in them, and the estimate moves with it.";
        let severity = if widest > MOSTLY_NOISE { Severity::Doubt } else { Severity::Limit };
        Warning::new(severity, problem, remedy).measured(widest).beyond(MOSTLY_NOISE, "a factor")
    }
}
