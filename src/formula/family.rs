//! Names the families of an outcome as users of R do, with what an outcome has to be and how coefficients are read.

use std::fmt;
use std::str::FromStr;

use partita_formula::{Design, Moments, Outcome};
use partita_inference::Scale as Shown;
use partita_models::regression::Response;
use serde::{Deserialize, Serialize};

use super::StudyError;

/// A family of outcomes, with its usual link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum ResponseFamily {
    /// Numbers, normal around the linear predictor.
    Gaussian,
    /// Numbers with outliers, Student's t around the linear predictor.
    Student,
    /// 0 or 1, or two levels; the log odds are linear.
    Bernoulli,
    /// Successes in `trials`; the log odds are linear.
    Binomial,
    /// Successes in `trials` that vary more than a binomial distribution lets them.
    BetaBinomial,
    /// Counts; the log mean is linear.
    Poisson,
    /// Counts that vary more than a Poisson distribution lets them.
    NegativeBinomial,
    /// Positive numbers; the log mean is linear.
    Gamma,
    /// Positive numbers whose logarithms are normal around the linear predictor.
    LogNormal,
    /// Parts between 0 and 1; the log odds of the mean are linear.
    Beta,
    /// Times to an event, `surv(time, status)`, censored on the right; the log scale is linear.
    Weibull,
}

const ALL: [(&str, ResponseFamily); 11] = [
    ("gaussian", ResponseFamily::Gaussian),
    ("student", ResponseFamily::Student),
    ("bernoulli", ResponseFamily::Bernoulli),
    ("binomial", ResponseFamily::Binomial),
    ("beta_binomial", ResponseFamily::BetaBinomial),
    ("poisson", ResponseFamily::Poisson),
    ("negbinomial", ResponseFamily::NegativeBinomial),
    ("gamma", ResponseFamily::Gamma),
    ("lognormal", ResponseFamily::LogNormal),
    ("beta", ResponseFamily::Beta),
    ("weibull", ResponseFamily::Weibull),
];

impl fmt::Display for ResponseFamily {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALL.iter().find(|(_, own)| own == self).map(|(name, _)| *name);
        formatter.write_str(name.unwrap_or("unknown"))
    }
}

impl From<ResponseFamily> for String {
    fn from(family: ResponseFamily) -> Self {
        family.to_string()
    }
}

impl TryFrom<String> for ResponseFamily {
    type Error = StudyError;

    fn try_from(text: String) -> Result<Self, StudyError> {
        text.parse()
    }
}

impl FromStr for ResponseFamily {
    type Err = StudyError;

    fn from_str(text: &str) -> Result<Self, StudyError> {
        let found = ALL.iter().find(|(name, _)| *name == text.to_lowercase().replace('-', "_"));
        found.map(|(_, own)| *own).ok_or_else(|| StudyError::Unfit {
            operation: "family",
            found: format!("`{text}`"),
            expected: format!("one of {}", ALL.map(|(name, _)| name).join(", ")),
            remedy: "Choose the one whose outcomes are like yours.".into(),
        })
    }
}

/// What a number of an outcome has to be.
struct Rule {
    allowed: fn(f64) -> bool,
    expected: &'static str,
}

impl ResponseFamily {
    fn rule(self) -> Rule {
        let whole = |y: f64| y >= 0.0 && y.fract().abs() <= 0.0;
        match self {
            Self::Gaussian | Self::Student => Rule { allowed: f64::is_finite, expected: "a number" },
            Self::Bernoulli => {
                Rule { allowed: |y| (y * (y - 1.0)).abs() <= 0.0, expected: "0 or 1, or a column of two levels" }
            }
            Self::Binomial | Self::BetaBinomial | Self::Poisson | Self::NegativeBinomial => {
                Rule { allowed: whole, expected: "a whole number of 0 or more" }
            }
            Self::Gamma | Self::LogNormal | Self::Weibull => {
                Rule { allowed: |y| y > 0.0, expected: "a number above 0" }
            }
            Self::Beta => {
                Rule { allowed: |y| y > 0.0 && y < 1.0, expected: "a number between 0 and 1, neither of them" }
            }
        }
    }

    /// The numbers of an outcome of this family.
    pub(super) fn outcome(self, design: &Design, name: &str) -> Result<Vec<f64>, StudyError> {
        let unfit = |found: String, expected: &str, remedy: &str| StudyError::Unfit {
            operation: "outcome of a silo",
            found: format!("{found} in `{name}` of {}", design.silo),
            expected: format!("{expected}, as `{self}` takes"),
            remedy: remedy.into(),
        };
        let values = match &design.outcome {
            Some(Outcome::Numbers(values)) => values.clone(),
            Some(Outcome::Levels { levels, codes }) if self == Self::Bernoulli && levels.len() == 2 => {
                codes.iter().map(|code| if *code == 1 { 1.0 } else { 0.0 }).collect()
            }
            Some(Outcome::Levels { levels, .. }) => {
                let found = format!("the levels {}", levels.join(", "));
                return Err(unfit(
                    found,
                    self.rule().expected,
                    "Take a family of that kind of outcome, or another column.",
                ));
            }
            None => return Err(unfit("nothing".into(), "an outcome", "Write it before `~`.")),
        };
        let rule = self.rule();
        if let Some(row) = values.iter().position(|value| !(rule.allowed)(*value)) {
            let remedy = "Correct the cell, or take a family that has such outcomes.";
            return Err(unfit(format!("{} in row {}", values[row], row + 1), rule.expected, remedy));
        }
        let has_trials = matches!(self, Self::Binomial | Self::BetaBinomial);
        match (&design.trials, has_trials) {
            (Some(_), false) => {
                return Err(unfit("trials(...)".into(), "no trials", "Take `binomial`, or write the outcome alone."));
            }
            (None, true) if values.iter().any(|value| *value > 1.0) => {
                let remedy = "Write `successes | trials(n)` before `~`.";
                return Err(unfit("a count above 1 without trials".into(), "`| trials(n)`", remedy));
            }
            _ => {}
        }
        if design.status.is_some() && self != Self::Weibull {
            return Err(unfit("surv(...)".into(), "an outcome that is not censored", "Take `weibull`."));
        }
        Ok(values)
    }

    /// The response of a regression.
    pub(super) fn response(self, outcome: &OutcomeScale) -> Response {
        let scale = 2.5 * outcome.unit;
        match self {
            Self::Gaussian => Response::Gaussian { scale },
            Self::Student => Response::Student { scale },
            Self::Bernoulli => Response::Bernoulli,
            Self::Binomial => Response::Binomial,
            Self::BetaBinomial => Response::BetaBinomial,
            Self::Poisson => Response::Poisson,
            Self::NegativeBinomial => Response::NegativeBinomial,
            Self::Gamma => Response::Gamma,
            Self::LogNormal => Response::LogNormal { scale },
            Self::Beta => Response::Beta,
            Self::Weibull => Response::Weibull,
        }
    }

    /// The middle and the unit of the linear predictor, from the moments of the outcome over all silos.
    pub(super) fn scale(self, moments: Option<Moments>) -> OutcomeScale {
        let Some(Moments { mean, .. }) = moments else { return OutcomeScale { middle: 0.0, unit: 1.0 } };
        let sd = moments.map_or(1.0, |own| own.sd());
        let unit = |unit: f64| if unit.is_finite() && unit > 0.0 { unit } else { 1.0 };
        match self {
            Self::Gaussian | Self::Student => OutcomeScale { middle: mean, unit: unit(sd) },
            Self::LogNormal => OutcomeScale { middle: mean.ln(), unit: unit(((sd / mean).powi(2)).ln_1p().sqrt()) },
            Self::Poisson | Self::NegativeBinomial | Self::Gamma | Self::Weibull if mean > 0.0 => {
                OutcomeScale { middle: mean.ln(), unit: 1.0 }
            }
            _ => OutcomeScale { middle: 0.0, unit: 1.0 },
        }
    }

    /// What a coefficient is read as: its unit, and how it gets there.
    pub(super) fn reading(self) -> (&'static str, Shown) {
        match self {
            Self::Gaussian | Self::Student => ("difference", Shown::Identity),
            Self::Bernoulli | Self::Binomial | Self::BetaBinomial | Self::Beta => ("odds ratio", Shown::Exponential),
            Self::Poisson | Self::NegativeBinomial => ("rate ratio", Shown::Exponential),
            Self::Gamma | Self::LogNormal => ("ratio of means", Shown::Exponential),
            Self::Weibull => ("ratio of times", Shown::Exponential),
        }
    }
}

/// Where the linear predictor lies, and in which units it varies.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutcomeScale {
    pub(super) middle: f64,
    pub(super) unit: f64,
}
