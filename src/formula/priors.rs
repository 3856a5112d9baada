//! Chooses weakly informative priors from what silos agreed on, and prints them.

use std::fmt;

use partita_formula::ColumnSums;
use partita_models::regression::{Dependence, Effects, Scale};

use super::family::OutcomeScale;
use super::summary::RandomSummary;

/// The prior of one number, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorLine {
    /// The number.
    pub name: String,
    /// Its prior.
    pub prior: String,
}

impl fmt::Display for PriorLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ~ {}", self.name, self.prior)
    }
}

/// The name of the column of ones.
pub(super) const INTERCEPT: &str = "(Intercept)";

/// The priors of all coefficients: 2.5 units of the outcome for a standard deviation of the column.
pub(super) fn coefficients(sums: &ColumnSums, outcome: &OutcomeScale) -> Vec<(String, Scale)> {
    let sds = sums.sds();
    let unit = |place: usize| if sds[place].is_finite() && sds[place] > 0.0 { sds[place] } else { 1.0 };
    let others = (0..sds.len()).filter(|place| sums.names[*place] != INTERCEPT);
    let apart = others.map(|place| (sums.means[place] / unit(place)).powi(2)).sum::<f64>().sqrt();
    let prior = |(place, name): (usize, &String)| match name.as_str() {
        INTERCEPT => (name.clone(), outcome.intercept(apart)),
        _ => (name.clone(), Scale { mean: 0.0, sd: 2.5 * outcome.unit / unit(place) }),
    };
    sums.names.iter().enumerate().map(prior).collect()
}

/// The effects of a grouping, with standard deviations in units of the outcome for one of the column.
pub(super) fn effects(term: &RandomSummary, sums: &ColumnSums, outcome: &OutcomeScale) -> Effects {
    let sds = sums.sds();
    let known = |name: &String| sums.names.iter().position(|own| own == name).map(|place| sds[place]);
    let units = term.columns.iter().filter(|name| *name != INTERCEPT).filter_map(known).filter(|sd| *sd > 0.0);
    // One scale serves all columns of a grouping: that of the one which varies least.
    let unit = units.fold(1.0, f64::min);
    Effects {
        group: term.grouping.clone(),
        columns: term.columns.clone(),
        dependence: if term.correlated { Dependence::Correlated } else { Dependence::Independent },
        scale: 2.5 * outcome.unit / unit,
    }
}

/// What is printed of normal priors.
pub(super) fn lines(coefficients: &[(String, Scale)]) -> Vec<PriorLine> {
    let line = |(name, Scale { mean, sd }): &(String, Scale)| PriorLine {
        name: name.clone(),
        prior: format!("normal({}, {})", short(*mean), short(*sd)),
    };
    coefficients.iter().map(line).collect()
}

/// What is printed of the priors of effects.
pub(super) fn lines_of_effects(effects: &Effects) -> Vec<PriorLine> {
    let Effects { group, columns, dependence, scale } = effects;
    let sd = |column: &String| PriorLine {
        name: format!("sd({column} | {group})"),
        prior: format!("half-student-t(3, 0, {})", short(*scale)),
    };
    let correlation = match (dependence, columns.as_slice()) {
        (Dependence::Independent, _) | (_, [_]) => None,
        (_, [one, two]) => Some((format!("cor({one}, {two} | {group})"), "uniform(-1, 1)")),
        _ => Some((format!("correlation({group})"), "lkj(1)")),
    };
    let correlation = correlation.map(|(name, prior)| PriorLine { name, prior: prior.into() });
    columns.iter().map(sd).chain(correlation).collect()
}

/// A number with four digits.
pub(super) fn short(number: f64) -> String {
    let places = (3.0 - number.abs().max(1e-12).log10().floor()).clamp(0.0, 12.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 12")]
    let text = format!("{number:.*}", places as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
