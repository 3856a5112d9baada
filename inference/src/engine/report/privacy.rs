//! Says what a fit promises about single rows, and what the noise for it did to the answer.

use serde::{Deserialize, Serialize};

use super::warning::{Severity, Warning};
use super::{Report, number};

/// What was promised of everything that silos sent, and what that cost the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Privacy {
    /// Epsilon of everything that one silo sent in the run.
    #[serde(with = "number")]
    pub epsilon: f64,
    /// The delta at which epsilon is stated.
    #[serde(with = "number")]
    pub delta: f64,
    /// What is protected: one of these, such as a row of an outermost plate, or a child where the formula groups rows by it.
    pub unit: String,
    /// The noised sums that each silo sent, or its answers follow from.
    pub releases: u64,
    /// The scale of their noise in units of the clip of a row.
    #[serde(with = "number")]
    pub noise: f64,
    /// How many silos may work together with the coordinator, where each has a share of the noise behind masks and the others
    /// follow the protocol; `None` where every silo has all of it, and the promise holds whoever works together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colluders: Option<u64>,
    /// By how much noise widened the standard deviation of each unconstrained global, where the posterior of the report has
    /// it in it; empty where it has not, as after private visits of PVI.
    #[serde(with = "number::list")]
    pub widened: Vec<f64>,
    /// How far the last round moved the mean of each unconstrained global, in its standard deviations; empty where `widened`
    /// is.
    #[serde(default, with = "number::list")]
    pub last_step: Vec<f64>,
    /// The standard deviation of such a step of a mean that noise alone moves, in the same units.
    #[serde(default, with = "number::list")]
    pub last_step_of_noise: Vec<f64>,
    /// By how many standard deviations the clip would move the answer if rows were as the posterior has them; `None` where
    /// no rows were drawn from it.
    #[serde(default, with = "number::optional")]
    pub clipping_moves: Option<f64>,
    /// The share of all rows that were longer than the clip in the last third of the rounds; `None` where rows are not counted.
    #[serde(default)]
    pub clipped: Option<ClippedShare>,
    /// Whether the latents of a row are integrated out, or have Gaussian posteriors of their own, with which intervals are too
    /// narrow; `None` where it is not stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrates_rows: Option<bool>,
}

/// A share of rows that noise is on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClippedShare {
    /// The share, which noise may have moved below zero.
    #[serde(with = "number")]
    pub share: f64,
    /// The standard deviation of its noise.
    #[serde(with = "number")]
    pub deviation: f64,
}

/// What clipping does to rows like those that a posterior expects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedClipping {
    /// By how many standard deviations it moves the answer.
    pub moves: f64,
    /// The share of the rows that are clipped.
    pub share: f64,
    /// By how many standard deviations it would move the answer if all rows lost half a clip, all the same way.
    pub most: f64,
}

/// The standard deviations that clipping may move an answer that is trusted.
const CLIPPING: f64 = 0.5;

/// The standard deviations of noise beyond which a share of clipped rows is hardly one by chance, and is none.
const HARDLY_BY_CHANCE: f64 = 2.0;
const NOT_BY_CHANCE: f64 = 3.0;
/// The factor by which it may be above what the posterior expects, whose columns are spread as declared.
const AS_EXPECTED: f64 = 1.5;

/// The standard deviations that a mean may move in the last round, whatever noise explains.
const LATE: f64 = 0.5;
/// The standard deviations of steps by noise alone beyond which noise does not explain a step.
const EXPLAINED: f64 = 4.0;

/// The factor by which noise may widen the posterior before it says mostly what noise says.
const MOSTLY_NOISE: f64 = 3.0;

impl Report {
    /// Says in a word what is protected, such as `child` where the rows of the model are the children of a study; nothing of a
    /// fit without a promise.
    pub fn protects(&mut self, unit: &str) {
        if let Some(own) = &mut self.privacy {
            unit.clone_into(&mut own.unit);
        }
    }

    /// Says whether the latents of a row were integrated out. The verdict counts it where they were not.
    pub fn tell_rows(&mut self, are_integrated: bool) {
        let Some(own) = &mut self.privacy else { return };
        own.integrates_rows = Some(are_integrated);
        if !are_integrated {
            let warning = of_approximated_rows(&own.unit);
            self.warn(vec![warning]);
        }
    }

    /// Says what the clip does to rows like those that the posterior expects, and whether more rows are clipped than it
    /// expects, whose tails are longer then than the family has them. The verdict counts both.
    pub fn tell_clipping(&mut self, expected: &ExpectedClipping) {
        let Some(own) = &mut self.privacy else { return };
        own.clipping_moves = Some(expected.moves);
        let warnings = [of_short_clip(expected), own.clipped.and_then(|found| of_long_tails(expected, found))];
        self.warn(warnings.into_iter().flatten().collect());
    }
}

/// That rows have posteriors of their own.
fn of_approximated_rows(unit: &str) -> Warning {
    let problem = format!(
        "the effects of each {unit} were approximated by normal distributions that lag behind the answer, and not integrated out: 95 % intervals are too narrow"
    );
    let remedy = "Read them as wider than they are. At most three effects are integrated out where `local_steps` asks for no approximation; few rounds integrate up to eight.";
    Warning::new(Severity::Limit, problem, remedy)
}

/// That the clip is short even for rows that are as the posterior has them.
fn of_short_clip(&ExpectedClipping { moves, share, .. }: &ExpectedClipping) -> Option<Warning> {
    let problem = format!(
        "the clip is too short for rows such as this posterior expects: {:.2} % of them are clipped, which moves the answer, in standard deviations, by about",
        100.0 * share
    );
    let remedy = "Outcomes are rare, or have long tails. A new study with a larger `clip` under `[privacy]` has more noise and less of this; so has a larger epsilon, by which the clip is longer by itself.";
    let warning = Warning::new(Severity::Doubt, problem, remedy).measured(moves);
    // What is no number is no short way.
    if moves <= CLIPPING { None } else { Some(warning.beyond(CLIPPING, "standard deviations")) }
}

/// That more rows are clipped than the posterior expects, beyond what noise explains.
fn of_long_tails(expected: &ExpectedClipping, found: ClippedShare) -> Option<Warning> {
    let ClippedShare { share, deviation } = found;
    let moves = (share - expected.share) * expected.most;
    let beyond = share - AS_EXPECTED * expected.share;
    let severity = if beyond > NOT_BY_CHANCE * deviation { Severity::Doubt } else { Severity::Limit };
    let problem = format!(
        "{}: {:.1} % of the rows are clipped (+/- {:.1}, one standard deviation), where {:.1} % were expected. In standard deviations that moves the answer by up to",
        match severity {
            Severity::Doubt => "outcomes have longer tails than the family",
            _ => "outcomes may have longer tails than the family, or noise looks so",
        },
        100.0 * share,
        100.0 * deviation,
        100.0 * expected.share
    );
    let remedy = "Take a family with such tails in a new study: `student` for `gaussian`, `negbinomial` for `poisson`, `beta_binomial` for `binomial`; or declare columns nearer to what they hold.";
    let warning = Warning::new(severity, problem, remedy).measured(moves);
    (beyond > HARDLY_BY_CHANCE * deviation && moves > CLIPPING).then(|| warning.beyond(CLIPPING, "standard deviations"))
}

impl Privacy {
    /// What is protected where nothing else is said.
    pub(crate) const ROW: &'static str = "row";

    /// What is protected where all that a silo's local steps change is clipped and noised at once; no grouping has such a name.
    pub const WHOLE_SILO: &'static str = "whole silo";

    /// What has noise, in a word, where this is protected.
    #[must_use]
    pub fn noised(unit: &str) -> &'static str {
        if unit == Self::WHOLE_SILO { "clipped changes by local steps" } else { "sums over clipped rows" }
    }

    /// A promise about one row by so many sums, of whose noise nothing is known in the posterior.
    pub(crate) fn promised(epsilon: f64, delta: f64, releases: u64, noise: f64) -> Self {
        let [widened, last_step, last_step_of_noise] = [const { Vec::new() }; 3];
        let unit = Self::ROW.to_owned();
        Self {
            epsilon,
            delta,
            unit,
            releases,
            noise,
            colluders: None,
            widened,
            last_step,
            last_step_of_noise,
            clipping_moves: None,
            clipped: None,
            integrates_rows: None,
        }
    }

    /// Against whom a promise is, in words that follow what is protected; nothing where it is against all others together.
    ///
    /// # Example
    /// ```
    /// use partita_inference::Privacy;
    /// assert_eq!(Privacy::against(None), "");
    /// assert_eq!(Privacy::against(Some(0)), ", against the coordinator alone");
    /// assert_eq!(Privacy::against(Some(2)), ", against the coordinator and at most 2 silos together");
    /// ```
    #[must_use]
    pub fn against(colluders: Option<u64>) -> String {
        match colluders {
            None => String::new(),
            Some(0) => ", against the coordinator alone".to_owned(),
            Some(1) => ", against the coordinator and any one silo together".to_owned(),
            Some(silos) => format!(", against the coordinator and at most {silos} silos together"),
        }
    }

    /// What was promised, and by which noise it is kept.
    #[must_use]
    pub fn promise(&self) -> String {
        let Self { epsilon, delta, unit, releases, noise, colluders, .. } = self;
        let against = Self::against(*colluders);
        let of = if colluders.is_some() { ", of which each silo gave a share" } else { "" };
        let promise = format!(
            "everything that a silo sent is ({epsilon}, {delta:e})-differentially private for one {unit}{against}: {releases} {}, with noise of {noise:.2} clips on every number{of}",
            Self::noised(unit)
        );
        let clipped = |ClippedShare { share, deviation }| {
            format!(
                "; {:.1} % of the rows were longer than the clip, +/- {:.1} (one standard deviation)",
                // Noise moves a small share below zero.
                100.0 * f64::max(share, 0.0),
                100.0 * deviation
            )
        };
        let clipped = self.clipped.map(clipped).unwrap_or_default();
        let rows = match self.integrates_rows {
            None => String::new(),
            Some(true) => format!("; the effects of each {unit} were integrated out"),
            Some(false) => format!("; the effects of each {unit} were approximated, not integrated out"),
        };
        format!("{promise}{clipped}{rows}")
    }

    /// What speaks against the answer, for the verdict.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        self.of_last_step().into_iter().chain([self.of_noise()]).chain(self.of_shares()).collect()
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

    /// That the promise rests on the masks, and on silos that do not work together.
    fn of_shares(&self) -> Option<Warning> {
        let colluders = self.colluders?;
        let problem = format!(
            "the promise for one {} rests on masks: each silo gave a share of the noise, so that it holds{}, and no more",
            self.unit,
            Self::against(Some(colluders)).replace(',', "")
        );
        let remedy = "Where more silos may work together, ask for more `colluders` under `[privacy]` in a new study; without that entry every silo has all of the noise, and the promise rests on no other.";
        Some(Warning::new(Severity::Limit, problem, remedy))
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
        // What is no number is as bad as any.
        let wider = |most: f64, own: &f64| if most.is_nan() || *own <= most { most } else { *own };
        let widest = self.widened.iter().fold(1.0, wider);
        let problem = format!(
            "noise for differential privacy (epsilon {} at delta {:e} for one {}{}) is in this posterior: it widened a standard deviation by a factor of up to",
            self.epsilon,
            self.delta,
            self.unit,
            Self::against(self.colluders)
        );
        let remedy = "More rows, fewer silos or a larger epsilon need less; intervals have the noise in them, and the estimate moves with it.";
        let severity = if widest <= MOSTLY_NOISE { Severity::Limit } else { Severity::Doubt };
        Warning::new(severity, problem, remedy).measured(widest).beyond(MOSTLY_NOISE, "a factor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_noise_moved_below_zero_is_told_as_none() {
        let own = Privacy { widened: vec![1.89], ..Privacy::promised(3.0, 1e-5, 24, 7.5) };
        let own = Privacy { clipped: Some(ClippedShare { share: -0.009, deviation: 0.019 }), ..own };
        let words = "; 0.0 % of the rows were longer than the clip, +/- 1.9 (one standard deviation)";
        assert!(own.promise().ends_with(words), "{}", own.promise());
        let words = "it widened a standard deviation by a factor of up to (1.9, threshold 3.0). More rows";
        assert!(own.of_noise().to_string().contains(words), "{}", own.of_noise());
        let lost = Privacy { widened: vec![f64::NAN, 1.89], ..own };
        assert_eq!(lost.of_noise().severity, Severity::Doubt);
    }

    #[test]
    fn a_promise_by_shares_of_noise_says_against_whom_it_is() {
        let whole = Privacy { widened: vec![1.2], ..Privacy::promised(3.0, 1e-5, 24, 7.5) };
        assert!(whole.promise().contains("for one row: 24 sums") && whole.warnings().len() == 1, "{}", whole.promise());
        let own = Privacy { colluders: Some(2), ..whole };
        let promise = own.promise();
        assert!(promise.contains("for one row, against the coordinator and at most 2 silos together: 24"), "{promise}");
        assert!(promise.ends_with("7.50 clips on every number, of which each silo gave a share"), "{promise}");
        let told: Vec<String> = own.warnings().iter().map(ToString::to_string).collect();
        let words = "for one row, against the coordinator and at most 2 silos together) is in this posterior";
        assert!(told[0].contains(words), "{told:?}");
        let words = "so that it holds against the coordinator and at most 2 silos together, and no more";
        assert!(told.len() == 2 && told[1].contains(words), "{told:?}");
        assert!(own.of_shares().is_some_and(|own| own.severity == Severity::Limit));
    }

    #[test]
    fn more_clipped_rows_than_noise_and_the_posterior_explain_are_a_limit_and_then_a_doubt() {
        let expected = ExpectedClipping { moves: 0.1, share: 0.01, most: 100.0 };
        let told = |share: f64, most: f64| {
            let found = ClippedShare { share, deviation: 0.004 };
            of_long_tails(&ExpectedClipping { most, ..expected }, found).map(|own| (own.severity, own.number))
        };
        // One and a half times what is expected, and two or three deviations of noise: 0.023 and 0.027.
        assert_eq!(told(0.0229, 100.0), None);
        assert!(matches!(told(0.0231, 100.0), Some((Severity::Limit, Some(moves))) if (moves - 1.31).abs() < 1e-9));
        assert!(matches!(told(0.0269, 100.0), Some((Severity::Limit, _))));
        assert!(matches!(told(0.0271, 100.0), Some((Severity::Doubt, _))));
        // What they lost moves the answer by no more than half a deviation.
        assert_eq!(told(0.0271, 29.0), None);
        assert!(of_short_clip(&expected).is_none());
        assert!(of_short_clip(&ExpectedClipping { moves: 0.51, ..expected }).is_some());
        assert!(of_short_clip(&ExpectedClipping { moves: f64::NAN, ..expected }).is_some());
    }
}
