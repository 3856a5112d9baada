//! Checks that the outcome of a silo is one of its family, and takes its numbers.

use partita_formula::{Design, Outcome};

use super::StudyError;
use super::family::{Kind, ResponseFamily};

/// What a number of an outcome has to be.
struct Rule {
    allowed: fn(f64) -> bool,
    expected: &'static str,
}

impl Kind {
    fn rule(self) -> Rule {
        let whole = |y: f64| y >= 0.0 && y.fract().abs() <= 0.0;
        match self {
            Self::Gaussian | Self::Student => Rule { allowed: f64::is_finite, expected: "a number" },
            Self::Bernoulli => {
                Rule { allowed: |y| (y * (y - 1.0)).abs() <= 0.0, expected: "0 or 1, or a column of two levels" }
            }
            Self::Gamma | Self::LogNormal | Self::Weibull | Self::PiecewiseExponential => {
                Rule { allowed: |y| y > 0.0, expected: "a number above 0" }
            }
            Self::HurdleGamma | Self::HurdleLogNormal => {
                Rule { allowed: |y| y >= 0.0, expected: "a number of 0 or more" }
            }
            Self::Beta => {
                Rule { allowed: |y| y > 0.0 && y < 1.0, expected: "a number between 0 and 1, neither of them" }
            }
            Self::Cumulative | Self::Categorical => Rule { allowed: |_| false, expected: "a column of levels" },
            Self::Binomial | Self::BetaBinomial | Self::Poisson | Self::NegativeBinomial => {
                Rule { allowed: whole, expected: "a whole number of 0 or more" }
            }
            Self::ZeroInflatedPoisson | Self::ZeroInflatedNegativeBinomial | Self::ZeroInflatedBinomial => {
                Rule { allowed: whole, expected: "a whole number of 0 or more" }
            }
            Self::HurdlePoisson | Self::HurdleNegativeBinomial => {
                Rule { allowed: whole, expected: "a whole number of 0 or more" }
            }
        }
    }

    pub(super) fn has_levels(self) -> bool {
        matches!(self, Self::Cumulative | Self::Categorical)
    }

    /// Whether usual priors follow the mean and the spread of the outcome.
    pub(super) fn has_prior_of_outcome(self) -> bool {
        use Kind::{Bernoulli, Beta, BetaBinomial, Binomial, Categorical, Cumulative, ZeroInflatedBinomial};
        !matches!(self, Bernoulli | Binomial | BetaBinomial | Beta | Cumulative | Categorical | ZeroInflatedBinomial)
    }

    /// Whether a parameter beside the mean says how much outcomes vary: without any variation it has no end.
    pub(super) fn needs_spread(self) -> bool {
        matches!(self, Self::Gaussian | Self::Student | Self::LogNormal | Self::Gamma | Self::Beta)
    }

    fn has_trials(self) -> bool {
        matches!(self, Self::Binomial | Self::BetaBinomial | Self::ZeroInflatedBinomial)
    }

    fn has_status(self) -> bool {
        matches!(self, Self::Weibull | Self::PiecewiseExponential)
    }
}

impl ResponseFamily {
    /// The numbers of an outcome of this family; the places of the levels of one that has such.
    pub(super) fn outcome(self, design: &Design, name: &str) -> Result<Vec<f64>, StudyError> {
        let unfit = |found: &str, expected: &str, remedy: &str| StudyError::Unfit {
            operation: "outcome of a silo",
            found: format!("{found} in `{name}` of {}", design.silo),
            expected: format!("{expected}, as `{self}` takes"),
            remedy: remedy.into(),
        };
        let rule = self.kind.rule();
        let places = |codes: &[usize]| codes.iter().map(|code| *code as f64).collect();
        let values: Vec<f64> = match &design.outcome {
            Some(Outcome::Levels { levels, codes }) if self.kind.has_levels() => {
                if levels.len() < 2 {
                    return Err(unfit(&format!("the level {} alone", levels.join("")), "two levels or more", ""));
                }
                return self.check_parts(design, &unfit).map(|()| places(codes));
            }
            Some(Outcome::Levels { levels, codes }) if self.kind == Kind::Bernoulli && levels.len() == 2 => {
                places(codes)
            }
            Some(Outcome::Levels { levels, .. }) => {
                let remedy = "Take a family of that kind of outcome, or another column; take units behind numbers \
                              out of the file.";
                return Err(unfit(&format!("the levels {}", levels.join(", ")), rule.expected, remedy));
            }
            Some(Outcome::Numbers(values)) => values.clone(),
            None => return Err(unfit("nothing", "an outcome", "Write it before `~`.")),
        };
        if let Some(row) = values.iter().position(|value| !(rule.allowed)(*value)) {
            let remedy = "Correct the cell, or take a family that has such outcomes.";
            return Err(unfit(&format!("{} in line {}", values[row], design.lines[row]), rule.expected, remedy));
        }
        if design.trials.is_none() && self.kind.has_trials() && values.iter().any(|value| *value > 1.0) {
            let remedy = "Write `successes | trials(n)` before `~`.";
            return Err(unfit("a count above 1 without trials", "`| trials(n)`", remedy));
        }
        self.check_parts(design, &unfit).map(|()| values)
    }

    /// Refuses what no agreement with other silos makes an outcome of this family: they may have levels that this one lacks.
    pub(super) fn outcome_alone(self, left: &Design, name: &str) -> Result<(), StudyError> {
        let more_levels =
            |levels: &[String]| self.kind.has_levels() || self.kind == Kind::Bernoulli && levels.len() < 2;
        match &left.outcome {
            Some(Outcome::Levels { levels, .. }) if more_levels(levels) => Ok(()),
            _ => self.outcome(left, name).map(drop),
        }
    }

    /// Refuses parts of a left side that the family does not have.
    fn check_parts(self, design: &Design, unfit: &dyn Fn(&str, &str, &str) -> StudyError) -> Result<(), StudyError> {
        if design.trials.is_some() && !self.kind.has_trials() {
            return Err(unfit("trials(...)", "no trials", "Take `binomial`, or write the outcome alone."));
        }
        if design.status.is_some() && !self.kind.has_status() {
            let remedy = "Take `weibull` or `piecewise_exponential`.";
            return Err(unfit("surv(...)", "an outcome that is not censored", remedy));
        }
        match (&design.cuts, self.kind) {
            (None, Kind::PiecewiseExponential) => {
                Err(unfit("no surv(...)", "`surv(time, status)`", "Write both columns before `~`."))
            }
            (Some(_), kind) if kind != Kind::PiecewiseExponential => {
                Err(unfit("cuts of surv(...)", "no cuts", "Take `piecewise_exponential`, or take the cuts out."))
            }
            _ => Ok(()),
        }
    }
}
