//! Names the families of an outcome as users of R do, with links and zeros, and how coefficients are read.

use std::fmt;
use std::str::FromStr;

use partita_formula::{ColumnSums, Formula, Moments, nearest};
use partita_inference::Scale as Shown;
use partita_models::regression::{Family, Link, Response, Zeros};
use serde::{Deserialize, Serialize};

use super::StudyError;

/// A family of outcomes, with its link and its zeros.
///
/// # Example
/// ```
/// use partita::formula::ResponseFamily;
/// let family: ResponseFamily = "binomial(cloglog)".parse()?;
/// assert_eq!(family.to_string(), "binomial(cloglog)");
/// assert_eq!("hurdle_poisson(log)".parse::<ResponseFamily>()?.to_string(), "hurdle_poisson");
/// assert_eq!("Gamma(link = \"log\")".parse::<ResponseFamily>()?.to_string(), "gamma");
/// assert!("poisson(logit)".parse::<ResponseFamily>().is_err());
/// # Ok::<(), partita::formula::StudyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResponseFamily {
    pub(super) kind: Kind,
    pub(super) link: Link,
}

/// A family of outcomes without its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gaussian,
    Student,
    Bernoulli,
    Binomial,
    BetaBinomial,
    Poisson,
    NegativeBinomial,
    Gamma,
    LogNormal,
    Beta,
    Weibull,
    PiecewiseExponential,
    Cumulative,
    Categorical,
    ZeroInflatedPoisson,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedBinomial,
    HurdlePoisson,
    HurdleNegativeBinomial,
    HurdleGamma,
    HurdleLogNormal,
}

/// What other programs call some of them.
const ELSEWHERE: [(&str, &str); 8] = [
    ("normal", "gaussian"),
    ("logistic", "bernoulli"),
    ("negbin", "negbinomial"),
    ("nb", "negbinomial"),
    ("ordinal", "cumulative"),
    ("ordered", "cumulative"),
    ("multinomial", "categorical"),
    ("survival", "weibull"),
];

/// The names, the usual link first among those that a family may have.
const ALL: [(&str, Kind, &[Link]); 22] = {
    use Link::{Cloglog, Identity, Inverse, Log, Logit, Probit, Sqrt};
    const OF_PARTS: &[Link] = &[Logit, Probit, Cloglog];
    const OF_COUNTS: &[Link] = &[Log, Identity, Sqrt];
    [
        ("gaussian", Kind::Gaussian, &[Identity, Log, Inverse]),
        ("student", Kind::Student, &[Identity, Log, Inverse]),
        ("bernoulli", Kind::Bernoulli, OF_PARTS),
        ("binomial", Kind::Binomial, OF_PARTS),
        ("beta_binomial", Kind::BetaBinomial, OF_PARTS),
        ("poisson", Kind::Poisson, OF_COUNTS),
        ("negbinomial", Kind::NegativeBinomial, OF_COUNTS),
        ("gamma", Kind::Gamma, &[Log, Identity, Inverse]),
        ("lognormal", Kind::LogNormal, &[Identity]),
        ("beta", Kind::Beta, OF_PARTS),
        ("weibull", Kind::Weibull, &[Log]),
        ("piecewise_exponential", Kind::PiecewiseExponential, &[Log]),
        ("cumulative", Kind::Cumulative, &[Logit, Probit]),
        ("cumulative_probit", Kind::Cumulative, &[Probit]),
        ("categorical", Kind::Categorical, &[Logit]),
        ("zero_inflated_poisson", Kind::ZeroInflatedPoisson, OF_COUNTS),
        ("zero_inflated_negbinomial", Kind::ZeroInflatedNegativeBinomial, OF_COUNTS),
        ("zero_inflated_binomial", Kind::ZeroInflatedBinomial, OF_PARTS),
        ("hurdle_poisson", Kind::HurdlePoisson, OF_COUNTS),
        ("hurdle_negbinomial", Kind::HurdleNegativeBinomial, OF_COUNTS),
        ("hurdle_gamma", Kind::HurdleGamma, &[Log, Identity, Inverse]),
        ("hurdle_lognormal", Kind::HurdleLogNormal, &[Identity]),
    ]
};

fn link_name(link: Link) -> &'static str {
    Link::ALL.iter().find(|(_, own)| *own == link).map_or("", |(name, _)| name)
}

impl fmt::Display for ResponseFamily {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((name, _, links)) = ALL.iter().find(|(_, own, _)| *own == self.kind) else { return Ok(()) };
        match links.first() {
            Some(usual) if *usual == self.link => formatter.write_str(name),
            _ => write!(formatter, "{name}({})", link_name(self.link)),
        }
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
        let written = text.trim().to_lowercase().replace('-', "_").replace("negative_binomial", "negbinomial");
        // As R has it too: `Gamma(link = "log")`.
        let of_link = |rest: &str| rest.trim_start().starts_with("link").then(|| rest.find('=')).flatten();
        let (name, link) = match written.split_once('(') {
            Some((name, rest)) => {
                let rest = &rest[of_link(rest).map_or(0, |equals| equals + 1)..];
                (name.trim(), Some(rest.trim_end_matches(')').trim().trim_matches(['"', '\''])))
            }
            None => (written.as_str(), None),
        };
        let Some((_, kind, links)) = ALL.iter().find(|(own, ..)| *own == name) else {
            let elsewhere = ELSEWHERE.iter().find(|(own, _)| *own == name).map(|(_, near)| (*near).to_owned());
            return Err(StudyError::Unfit {
                operation: "family",
                found: format!("`{text}`"),
                expected: format!("one of {}", ALL.map(|(name, ..)| name).join(", ")),
                remedy: match elsewhere.or_else(|| nearest(name, ALL.iter().map(|(own, ..)| *own))) {
                    Some(near) => format!("Did you mean `{near}`?"),
                    None => "Choose the one whose outcomes are like yours.".into(),
                },
            });
        };
        let found = match link {
            None => links.first(),
            Some(link) => links.iter().find(|own| link_name(**own) == link),
        };
        found.map(|link| Self { kind: *kind, link: *link }).ok_or_else(|| StudyError::Unfit {
            operation: "link of a family",
            found: format!("`{text}`"),
            expected: format!("one of {}", links.iter().map(|own| link_name(*own)).collect::<Vec<_>>().join(", ")),
            remedy: format!("Write `{name}` for the first of them."),
        })
    }
}

/// What a design fixes of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    /// The levels of an outcome of levels.
    pub(super) levels: &'a [String],
    /// Where the hazard may change.
    pub(super) cuts: &'a [f64],
}

impl ResponseFamily {
    /// The response of a regression.
    pub(super) fn response(self, known: Known<'_>) -> Response {
        let (family, zeros) = match self.kind {
            Kind::Gaussian => (Family::Gaussian, Zeros::Own),
            Kind::Student => (Family::Student, Zeros::Own),
            Kind::Bernoulli => (Family::Bernoulli, Zeros::Own),
            Kind::Binomial => (Family::Binomial, Zeros::Own),
            Kind::BetaBinomial => (Family::BetaBinomial, Zeros::Own),
            Kind::Poisson => (Family::Poisson, Zeros::Own),
            Kind::NegativeBinomial => (Family::NegativeBinomial, Zeros::Own),
            Kind::Gamma => (Family::Gamma, Zeros::Own),
            Kind::LogNormal => (Family::LogNormal, Zeros::Own),
            Kind::Beta => (Family::Beta, Zeros::Own),
            Kind::Weibull => (Family::Weibull, Zeros::Own),
            Kind::PiecewiseExponential => (Family::PiecewiseExponential { cuts: known.cuts.to_vec() }, Zeros::Own),
            Kind::Cumulative => (Family::Cumulative { levels: known.levels.len() }, Zeros::Own),
            Kind::Categorical => (Family::Categorical { levels: known.levels.to_vec() }, Zeros::Own),
            Kind::ZeroInflatedPoisson => (Family::Poisson, Zeros::Inflated),
            Kind::ZeroInflatedNegativeBinomial => (Family::NegativeBinomial, Zeros::Inflated),
            Kind::ZeroInflatedBinomial => (Family::Binomial, Zeros::Inflated),
            Kind::HurdlePoisson => (Family::Poisson, Zeros::Hurdle),
            Kind::HurdleNegativeBinomial => (Family::NegativeBinomial, Zeros::Hurdle),
            Kind::HurdleGamma => (Family::Gamma, Zeros::Hurdle),
            Kind::HurdleLogNormal => (Family::LogNormal, Zeros::Hurdle),
        };
        Response { family, link: self.link, zeros }
    }

    /// The middle and the unit of the linear predictor less its offset, from what all silos say of their rows.
    pub(super) fn scale(self, sums: &ColumnSums) -> OutcomeScale {
        let is_difference =
            self.link == Link::Identity && !matches!(self.kind, Kind::LogNormal | Kind::HurdleLogNormal);
        let own = match (is_difference, sums.outcome, sums.less_offset) {
            // Outcomes have the mean of the linear predictor, and vary about it as they do less the offset.
            (true, Some(outcome), Some(rest)) => Some(Moments { mean: outcome.mean, ..rest }),
            (_, outcome, _) => outcome,
        };
        let scale = self.scale_of(own);
        let offset = sums.offset.map_or(0.0, |own| own.mean);
        // The predictor less thresholds is what an ordered outcome has.
        let below = if self.kind == Kind::Cumulative { -offset } else { offset };
        OutcomeScale { middle: scale.middle - below, ..scale }
    }

    /// The middle and the unit of the linear predictor, from the moments of the outcome.
    fn scale_of(self, moments: Option<Moments>) -> OutcomeScale {
        let plain = OutcomeScale { middle: 0.0, unit: 1.0, spread: 1.0 };
        let Some(Moments { mean, .. }) = moments else { return plain };
        let sd = moments.map_or(1.0, |own| own.sd());
        let positive =
            |number: f64, otherwise: f64| if number.is_finite() && number > 0.0 { number } else { otherwise };
        let spread = positive(sd, 1.0);
        match self.kind {
            Kind::Gaussian
            | Kind::Student
            | Kind::Poisson
            | Kind::NegativeBinomial
            | Kind::Gamma
            | Kind::ZeroInflatedPoisson
            | Kind::ZeroInflatedNegativeBinomial
            | Kind::HurdlePoisson
            | Kind::HurdleNegativeBinomial
            | Kind::HurdleGamma => {
                let (middle, unit) = self.through_link(mean, spread);
                OutcomeScale { middle, unit, spread }
            }
            Kind::LogNormal | Kind::HurdleLogNormal if mean > 0.0 => {
                let unit = positive(((sd / mean).powi(2)).ln_1p().sqrt(), 1.0);
                OutcomeScale { middle: mean.ln(), unit, spread: unit }
            }
            Kind::Weibull if mean > 0.0 => OutcomeScale { middle: mean.ln(), ..plain },
            // The hazard of times with this mean.
            Kind::PiecewiseExponential if mean > 0.0 => OutcomeScale { middle: -mean.ln(), ..plain },
            _ => plain,
        }
    }

    /// About how much a row says of an effect of one unit: as much as one outcome of a normal distribution with that
    /// standard deviation, or of an event that is as probable as not.
    pub(super) fn information(self) -> f64 {
        match self.kind {
            Kind::Bernoulli | Kind::Binomial | Kind::BetaBinomial | Kind::Cumulative | Kind::Categorical => 0.2,
            _ => 1.0,
        }
    }

    /// Where the linear predictor lies for outcomes about `mean`, and how it varies where they vary by `spread`.
    fn through_link(self, mean: f64, spread: f64) -> (f64, f64) {
        match self.link {
            Link::Identity => (mean, spread),
            Link::Log if mean > 0.0 => (mean.ln(), 1.0),
            // Where μ varies by as much as itself, η does.
            Link::Inverse if mean > 0.0 => (mean.recip(), mean.recip()),
            Link::Sqrt if mean > 0.0 => (mean.sqrt(), 0.5 * spread / mean.sqrt()),
            _ => (0.0, 1.0),
        }
    }

    /// Whether some linear predictors give no mean: where it has to be above zero, and the link does not make it so.
    pub(super) fn has_bounded_predictor(self) -> bool {
        use Kind::{
            Gamma, HurdleGamma, HurdleNegativeBinomial, HurdlePoisson, NegativeBinomial, Poisson,
            ZeroInflatedNegativeBinomial, ZeroInflatedPoisson,
        };
        let counts = matches!(self.kind, Poisson | ZeroInflatedPoisson | HurdlePoisson);
        let varied = matches!(self.kind, NegativeBinomial | ZeroInflatedNegativeBinomial | HurdleNegativeBinomial);
        let numbers = matches!(self.kind, Gamma | HurdleGamma);
        (counts || varied || numbers) && matches!(self.link, Link::Identity | Link::Inverse)
    }

    /// What a coefficient is read as: its unit, and how it gets there. What the mean depends on beside the predictor may
    /// vary with the rows, where it is a parameter with a formula of its own, one of `linear`.
    pub(super) fn reading(self, linear: &[Formula]) -> (&'static str, Shown) {
        let varies = linear.iter().any(|own| {
            let moves = |name: &str| self.kind.mean_depends_on(name) && !["zi", "hu"].contains(&name);
            own.parameter().is_some_and(moves) && !own.term_labels().is_empty()
        });
        match (self.kind, self.link) {
            (Kind::Weibull, _) if varies => ("ratio of scales", Shown::Exponential),
            (Kind::Weibull, _) => ("ratio of times", Shown::Exponential),
            (Kind::PiecewiseExponential, _) => ("hazard ratio", Shown::Exponential),
            (Kind::LogNormal, _) if varies => ("ratio of medians", Shown::Exponential),
            (Kind::HurdleLogNormal, _) if varies => ("ratio of medians above 0", Shown::Exponential),
            (Kind::HurdleLogNormal, _) | (Kind::HurdleGamma, Link::Log) => {
                ("ratio of means above 0", Shown::Exponential)
            }
            (Kind::LogNormal, _) | (Kind::Gaussian | Kind::Student | Kind::Gamma, Link::Log) => {
                ("ratio of means", Shown::Exponential)
            }
            (_, Link::Log) => ("rate ratio", Shown::Exponential),
            (_, Link::Logit) => ("odds ratio", Shown::Exponential),
            (Kind::Bernoulli | Kind::Binomial, Link::Cloglog) => ("hazard ratio", Shown::Exponential),
            (_, Link::Identity) => ("difference", Shown::Identity),
            (_, Link::Probit) => ("probit", Shown::Identity),
            (_, Link::Cloglog) => ("complementary log-log", Shown::Identity),
            (_, Link::Inverse) => ("inverse", Shown::Identity),
            (_, Link::Sqrt) => ("square root", Shown::Identity),
            _ => ("coefficient", Shown::Identity),
        }
    }
}

impl Kind {
    /// Whether the expected outcome depends on this parameter beside the linear predictor.
    pub(super) fn mean_depends_on(self, parameter: &str) -> bool {
        match self {
            // The last is of counts that are not zero.
            Self::LogNormal | Self::HurdleLogNormal | Self::Weibull | Self::HurdleNegativeBinomial => true,
            _ => ["zi", "hu"].contains(&parameter),
        }
    }
}

/// What the exponential of a difference of the linear predictor of a parameter is read as.
pub(super) fn reading_of_parameter(name: &str) -> &'static str {
    match name {
        "zi" => "odds ratio of zi",
        "hu" => "odds ratio of hu",
        "sigma" => "ratio of sigma",
        "shape" => "ratio of shape",
        "phi" => "ratio of phi",
        "nu" => "ratio of nu",
        _ => "ratio",
    }
}

/// Where the linear predictor lies, and in which units it varies.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutcomeScale {
    pub(super) middle: f64,
    pub(super) unit: f64,
    /// How much the outcome, or its logarithm, varies.
    pub(super) spread: f64,
}
