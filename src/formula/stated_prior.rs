//! Reads the priors that a user states by name, and puts them in the place of the usual ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use partita_formula::nearest;
use partita_models::regression::{Dependence, Effects, Lkj, Prior, RegressionPlan};
use serde::{Deserialize, Serialize};

use super::StudyError;
use super::priors::INTERCEPT;

/// A prior as a user states it: `normal(0, 1)`, `half_cauchy(1)`, `lkj(2)`.
///
/// | numbers | distributions |
/// |---|---|
/// | coefficients | `normal(mean, sd)`, `student_t(df, location, scale)`, `cauchy(location, scale)`, `laplace(location, scale)` |
/// | standard deviations, parameters of a family | the first three around 0, of which the half above 0 is taken, or `half_normal(scale)`, `half_student_t(df, scale)`, `half_cauchy(scale)`; `exponential(rate)`, `lognormal(location, scale)`, `gamma(concentration, rate)`, `inv_gamma(concentration, scale)` |
/// | `zi`, `hu` | `beta(one, zero)` |
/// | correlations | `lkj(concentration)`; `uniform(-1, 1)` of two effects |
///
/// # Example
/// ```
/// use partita::formula::StatedPrior;
/// let prior: StatedPrior = "half-cauchy( 1 )".parse()?;
/// assert_eq!(prior.to_string(), "half_cauchy(0, 1)");
/// assert!("normal(0, -1)".parse::<StatedPrior>().is_err());
/// # Ok::<(), partita::formula::StudyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum StatedPrior {
    /// Of a number.
    Number(Prior),
    /// Of correlations.
    Correlation(Lkj),
    /// Of the one correlation of two effects.
    Uniform,
    /// Of a number that is held at a value, to nine digits: for simulations, which a fit would learn nothing from.
    Value(f64),
}

impl fmt::Display for StatedPrior {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(prior) => prior.fmt(out),
            Self::Correlation(prior) => prior.fmt(out),
            Self::Uniform => out.write_str("uniform(-1, 1)"),
            Self::Value(value) => write!(out, "{value}"),
        }
    }
}

impl From<StatedPrior> for String {
    fn from(prior: StatedPrior) -> Self {
        prior.to_string()
    }
}

impl TryFrom<String> for StatedPrior {
    type Error = StudyError;

    fn try_from(text: String) -> Result<Self, StudyError> {
        text.parse()
    }
}

const FORMS: [&str; 14] = [
    "normal(mean, sd)",
    "student_t(df, location, scale)",
    "cauchy(location, scale)",
    "laplace(location, scale)",
    "half_normal(scale)",
    "half_student_t(df, scale)",
    "half_cauchy(scale)",
    "exponential(rate)",
    "lognormal(location, scale)",
    "gamma(concentration, rate)",
    "inv_gamma(concentration, scale)",
    "beta(one, zero)",
    "lkj(concentration)",
    "uniform(-1, 1)",
];

impl FromStr for StatedPrior {
    type Err = StudyError;

    fn from_str(text: &str) -> Result<Self, StudyError> {
        let refused = |remedy: &str| unfit(format!("`{}`", text.trim()), FORMS.join(", "), remedy);
        let call = text.trim().strip_suffix(')').and_then(|rest| rest.split_once('('));
        let (name, arguments) = call.ok_or_else(|| refused("Write a distribution with its numbers."))?;
        let name = name.trim().to_lowercase().replace('-', "_");
        let numbers: Option<Vec<f64>> = arguments.split(',').map(|own| own.trim().parse().ok()).collect();
        let numbers = numbers.filter(|all| all.iter().all(|own| own.is_finite()));
        let numbers = numbers.ok_or_else(|| refused("Write its numbers, with commas between them."))?;
        let prior = match (name.as_str(), numbers.as_slice()) {
            ("normal", &[mean, sd]) => Prior::Normal { mean, sd },
            ("student_t", &[degrees, location, scale]) => Prior::StudentT { degrees, location, scale },
            ("cauchy", &[location, scale]) => Prior::Cauchy { location, scale },
            ("laplace" | "double_exponential", &[location, scale]) => Prior::Laplace { location, scale },
            ("half_normal", &[scale] | &[0.0, scale]) => Prior::HalfNormal { scale },
            ("half_student_t", &[degrees, scale] | &[degrees, 0.0, scale]) => Prior::HalfStudentT { degrees, scale },
            ("half_cauchy", &[scale] | &[0.0, scale]) => Prior::HalfCauchy { scale },
            ("exponential", &[rate]) => Prior::Exponential { rate },
            ("lognormal", &[location, scale]) => Prior::LogNormal { location, scale },
            ("gamma", &[concentration, rate]) => Prior::Gamma { concentration, rate },
            ("inv_gamma", &[concentration, scale]) => Prior::InverseGamma { concentration, scale },
            ("beta", &[one, zero]) => Prior::Beta { one, zero },
            ("lkj", &[concentration]) if concentration > 0.0 => return Ok(Self::Correlation(Lkj { concentration })),
            ("uniform", &[-1.0, 1.0]) => return Ok(Self::Uniform),
            _ => return Err(refused("Take one of them, with as many numbers as it has.")),
        };
        // A density somewhere in its support says that all its numbers are in their domains.
        let at = partita_core::Array::scalar(if let Prior::Beta { .. } = prior { 0.5 } else { 1.0 });
        prior.distribution().log_prob_of(&at).map_err(|error| match error {
            partita_core::Error::Parameter { parameter, found, expected, .. } => {
                let found = format!("`{}`, whose {parameter} is {found}", text.trim());
                unfit(found, expected.to_string(), "Write such a number there.")
            }
            other => refused(&other.to_string()),
        })?;
        Ok(Self::Number(prior))
    }
}

impl StatedPrior {
    /// Reads `name ~ prior`.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for another form.
    pub fn parse_named(text: &str) -> Result<(String, Self), StudyError> {
        let (name, prior) = text.rsplit_once('~').ok_or_else(|| {
            let remedy = "Write the number, `~` and the distribution.";
            unfit(format!("`{text}`"), "`NAME ~ PRIOR`, as in `smoke ~ normal(0, 1)`".into(), remedy)
        })?;
        let prior = prior.parse().map_err(|error| match error {
            StudyError::Unfit { operation, found, expected, remedy } => {
                StudyError::Unfit { operation, found: format!("{found} for `{}`", name.trim()), expected, remedy }
            }
            other => other,
        })?;
        Ok((name.trim().into(), prior))
    }

    /// Reads `name = value`.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for another form.
    pub fn parse_value(text: &str) -> Result<(String, Self), StudyError> {
        let read = text.rsplit_once('=').and_then(|(name, value)| Some((name, value.trim().parse::<f64>().ok()?)));
        let (name, value) = read.filter(|(_, value)| value.is_finite()).ok_or_else(|| {
            unfit(
                format!("`{text}`"),
                "`NAME = NUMBER`, as in `smoke = 0.5`".into(),
                "Write the number, `=` and its value.",
            )
        })?;
        Ok((name.trim().into(), Self::Value(value)))
    }

    /// As the prior of a coefficient.
    fn of_coefficient(self, name: &str) -> Result<Prior, StudyError> {
        match self {
            Self::Value(mean) => Ok(Prior::Normal { mean, sd: mean.abs().max(1.0) * HELD }),
            Self::Number(prior) if !prior.is_positive() => Ok(prior),
            _ => Err(unfit(
                format!("`{name} ~ {self}`"),
                "a distribution of numbers below and above 0".into(),
                "Take normal, student_t, cauchy or laplace for a coefficient.",
            )),
        }
    }

    /// As the prior of a number above zero: the half of a distribution that is even around zero.
    fn of_positive(self, name: &str) -> Result<Prior, StudyError> {
        match self {
            Self::Value(value) if value > 0.0 => Ok(Prior::LogNormal { location: value.ln(), scale: HELD }),
            Self::Value(value) => Err(not_held(name, value, "one of the numbers above 0", "Hold it at such a number.")),
            Self::Number(Prior::Normal { mean: 0.0, sd }) => Ok(Prior::HalfNormal { scale: sd }),
            Self::Number(Prior::StudentT { degrees, location: 0.0, scale }) => {
                Ok(Prior::HalfStudentT { degrees, scale })
            }
            Self::Number(Prior::Cauchy { location: 0.0, scale }) => Ok(Prior::HalfCauchy { scale }),
            Self::Number(prior) if prior.is_positive() && !prior.is_of_probability() => Ok(prior),
            _ => Err(unfit(
                format!("`{name} ~ {self}`"),
                "a distribution of numbers above 0".into(),
                "Take exponential, lognormal, gamma, inv_gamma, or one around 0 of which the half above 0 serves.",
            )),
        }
    }

    /// As the prior of a probability.
    fn of_probability(self, name: &str) -> Result<Prior, StudyError> {
        match self {
            Self::Value(value) if value > 0.0 && value < 1.0 => {
                Ok(Prior::Beta { one: value / HELD, zero: (1.0 - value) / HELD })
            }
            Self::Value(value) => {
                Err(not_held(name, value, "one of the numbers between 0 and 1", "Hold it at such a number."))
            }
            Self::Number(prior) if prior.is_of_probability() => Ok(prior),
            _ => Err(unfit(
                format!("`{name} ~ {self}`"),
                "a distribution of numbers between 0 and 1".into(),
                "Take beta(1, 1), under which all are as probable, or beta(one, zero).",
            )),
        }
    }

    /// As the prior of the correlations of so many effects.
    fn of_correlation(self, name: &str, effects: usize) -> Result<Lkj, StudyError> {
        match self {
            Self::Correlation(prior) => Ok(prior),
            Self::Uniform if effects == 2 => Ok(Lkj { concentration: 1.0 }),
            Self::Value(value) => Err(not_held(
                name,
                value,
                "a number that can be held",
                "Leave it out: correlations are drawn from their prior, which `lkj(concentration)` states.",
            )),
            _ => Err(unfit(
                format!("`{name} ~ {self}`"),
                "lkj(concentration), or uniform(-1, 1) of two effects".into(),
                "lkj(1) makes every correlation matrix as probable as any other, and lkj(2) favours small ones.",
            )),
        }
    }
}

/// The standard deviation of a number that is held at a value, in units of it.
const HELD: f64 = 1e-9;

/// The class of all coefficients but the intercept.
const COEFFICIENTS: &str = "b";
/// The class of all standard deviations of effects.
const DEVIATIONS: &str = "sd";
/// The class of all correlations of effects.
const CORRELATIONS: &str = "cor";

/// Puts the `stated` priors into a plan: first those of classes, then those of single numbers.
pub(super) fn put(stated: &BTreeMap<String, StatedPrior>, plan: &mut RegressionPlan) -> Result<(), StudyError> {
    let mut left: BTreeMap<String, (&String, StatedPrior)> =
        stated.iter().map(|(name, prior)| (written(name), (name, *prior))).collect();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut used: BTreeSet<String> = BTreeSet::new();
    let mut find = |names: &[String]| {
        known.extend(names.iter().cloned());
        let found = names.iter().filter_map(|name| left.get(&written(name)).copied()).next_back();
        used.extend(names.iter().map(|name| written(name)));
        found
    };
    for (name, prior) in &mut plan.coefficients {
        let names =
            if name.ends_with(INTERCEPT) { vec![name.clone()] } else { vec![COEFFICIENTS.into(), name.clone()] };
        if let Some((stated, own)) = find(&names) {
            *prior = own.of_coefficient(stated)?;
        }
    }
    for effects in plan.effects_mut() {
        let names: Vec<String> = effects.deviation_names().collect();
        for (name, prior) in names.into_iter().zip(&mut effects.deviations) {
            if let Some((stated, own)) = find(&[DEVIATIONS.into(), name]) {
                *prior = own.of_positive(stated)?;
            }
        }
        let names = correlation_names(effects);
        if let (Dependence::Correlated(prior), Some((stated, own))) = (&mut effects.dependence, find(&names)) {
            *prior = own.of_correlation(stated, effects.columns.len())?;
        }
    }
    let increases = plan.baseline_increases();
    let (name, own) = (plan.baseline_name().to_owned(), plan.baseline.as_mut());
    if let Some((baseline, (stated, own))) = own.and_then(|baseline| Some((baseline, find(&[name])?))) {
        if let (StatedPrior::Value(value), true) = (own, increases) {
            let remedy = "Leave it out: thresholds are drawn from their prior, which `--prior` states.";
            return Err(not_held(stated, value, "a number that can be held", remedy));
        }
        baseline.prior = own.of_coefficient(stated)?;
    }
    for (name, prior) in &mut plan.parameters {
        if let Some((stated, own)) = find(std::slice::from_ref(name)) {
            *prior = if prior.is_of_probability() { own.of_probability(stated)? } else { own.of_positive(stated)? };
        }
    }
    for (name, prior) in plan.linear.iter_mut().flat_map(|own| &mut own.coefficients) {
        if let Some((stated, own)) = find(std::slice::from_ref(name)) {
            *prior = own.of_coefficient(stated)?;
        }
    }
    left.retain(|name, _| !used.contains(name));
    match left.into_values().next() {
        None => Ok(()),
        Some((name, _)) => Err(unknown(name, &known)),
    }
}

/// What the correlations of these effects may be called.
fn correlation_names(effects: &Effects) -> Vec<String> {
    let all = [CORRELATIONS.to_owned(), format!("correlation({})", effects.group)];
    effects.correlation_name().map_or_else(Vec::new, |own| all.into_iter().chain([own]).collect())
}

/// A name without spaces, and `Intercept` as brms writes it.
fn written(name: &str) -> String {
    let name: String = name.chars().filter(|own| !own.is_whitespace()).collect();
    if name == "Intercept" { INTERCEPT.into() } else { name.replace("(Intercept|", "((Intercept)|") }
}

fn unknown(name: &str, known: &BTreeSet<String>) -> StudyError {
    let suggestion = nearest(name, known.iter().map(String::as_str));
    let suggestion = suggestion.map(|own| format!("Did you mean `{own}`? ")).unwrap_or_default();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let remedy = format!(
        "{suggestion}`b` stands for all coefficients but the intercept and those of formulas of parameters, `sd` for \
         all standard deviations of effects."
    );
    unfit(format!("a prior of `{name}`"), format!("one of {}", known.join(", ")), &remedy)
}

/// The error of a number that is to be held where it cannot be.
fn not_held(name: &str, value: f64, expected: &str, remedy: &str) -> StudyError {
    unfit(format!("`{name} = {value}`"), expected.into(), remedy)
}

fn unfit(found: String, expected: String, remedy: &str) -> StudyError {
    StudyError::Unfit { operation: "prior", found, expected, remedy: remedy.into() }
}
