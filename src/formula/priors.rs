//! Chooses weakly informative priors from what silos agreed on, and prints them.

use std::fmt;

use partita_formula::ColumnSums;
use partita_inference::{PriorLine, PriorSource};
use partita_models::regression::{Baseline, DEGREES, Dependence, Effects, Lkj, Prior, RegressionPlan, Response};

use super::family::OutcomeScale;
use super::summary::RandomSummary;

/// The name of the column of ones.
pub(super) const INTERCEPT: &str = "(Intercept)";

/// The priors of all coefficients: 2.5 units of the outcome for a standard deviation of the column, or for twice that of what
/// the other columns leave of it, where that is less. Of `temperature * sex` the effect of sex is at a temperature of zero: it
/// is as large as the interaction times 37 degrees, and a prior in standard deviations of sex would forbid both.
pub(super) fn coefficients(sums: &ColumnSums, outcome: &OutcomeScale) -> Vec<(String, Prior)> {
    let sds = sums.sds().into_iter().zip(sums.left_sds()).map(|(own, left)| own.min(2.0 * left));
    let sds: Vec<f64> = sds.collect();
    let unit = |place: usize| if sds[place].is_finite() && sds[place] > 0.0 { sds[place] } else { 1.0 };
    // Without an intercept each level of a factor has one of its own.
    let levels = sums.levels();
    let is_intercept = |place: usize| sums.names[place] == INTERCEPT || levels.contains(&place);
    let others = (0..sds.len()).filter(|place| !is_intercept(*place));
    let apart = others.map(|place| (sums.means[place] / unit(place)).powi(2)).sum::<f64>().sqrt();
    let prior = |(place, name): (usize, &String)| {
        let (mean, sd) = match is_intercept(place) {
            // Where columns are at their means it varies by 2.5 units, and the columns are so far from 0.
            true => (outcome.middle, 2.5 * outcome.unit * apart.mul_add(apart, 1.0).sqrt()),
            false => (0.0, 2.5 * outcome.unit / unit(place)),
        };
        (name.clone(), Prior::Normal { mean: four_digits(mean), sd: four_digits(sd) })
    };
    sums.names.iter().enumerate().map(prior).collect()
}

/// The effects of a grouping: a standard deviation of effects has 2.5 units of the outcome for one of its column, at least.
pub(super) fn effects(term: &RandomSummary, sums: &ColumnSums, outcome: &OutcomeScale) -> Effects {
    let sds = sums.sds();
    let known = |name: &String| sums.names.iter().position(|own| own == name).map(|place| sds[place]);
    let prior = |name: &String| {
        let sd = known(name).filter(|sd| name != INTERCEPT && *sd > 0.0);
        let scale = four_digits(2.5 * outcome.unit / sd.map_or(1.0, |sd| sd.min(1.0)));
        Prior::HalfStudentT { degrees: DEGREES, scale }
    };
    Effects {
        group: term.grouping.clone(),
        columns: term.columns.clone(),
        dependence: if term.correlated {
            Dependence::Correlated(Lkj { concentration: 1.0 })
        } else {
            Dependence::Independent
        },
        deviations: term.columns.iter().map(prior).collect(),
    }
}

/// The usual priors of the parameters of a response.
pub(super) fn parameters(response: &Response, outcome: &OutcomeScale) -> Vec<(String, Prior)> {
    let short = |(name, prior)| match prior {
        Prior::HalfStudentT { degrees, scale } => (name, Prior::HalfStudentT { degrees, scale: four_digits(scale) }),
        other => (name, other),
    };
    response.priors(outcome.spread).into_iter().map(short).collect()
}

/// The priors of all globals of a plan, as they are sampled; stated are those that another plan, with usual ones alone, has not.
pub(super) fn lines(plan: &RegressionPlan, usual: &RegressionPlan) -> Vec<PriorLine> {
    let usual = texts(usual);
    let source = |own: &Text| if usual.contains(own) { PriorSource::Usual } else { PriorSource::Stated };
    let line = |own: Text| {
        let (source, Text { name, prior, normal, numbers }) = (source(&own), own);
        PriorLine { source, name, prior, normal, numbers }
    };
    texts(plan).into_iter().map(line).collect()
}

/// The prior of a number in words, with mean and standard deviation of a normal one.
#[derive(PartialEq)]
struct Text {
    name: String,
    prior: String,
    normal: Option<[f64; 2]>,
    numbers: Vec<String>,
}

fn texts(plan: &RegressionPlan) -> Vec<Text> {
    let line = |(name, prior): (String, &dyn fmt::Display)| Text {
        name,
        prior: prior.to_string(),
        normal: None,
        numbers: Vec::new(),
    };
    let named = |(name, prior): &(String, Prior)| {
        let normal = if let Prior::Normal { mean, sd } = prior { Some([*mean, *sd]) } else { None };
        Text { normal, ..line((name.clone(), prior)) }
    };
    let effects = plan.effects().flat_map(|own| {
        let correlation = match (&own.dependence, own.correlation_name()) {
            (Dependence::Correlated(prior), Some(name)) => {
                Some(Text { numbers: own.correlation_names(), ..line((name, prior)) })
            }
            _ => None,
        };
        let deviations = own.deviation_names().zip(&own.deviations);
        deviations.map(|(name, prior)| line((name, prior))).chain(correlation)
    });
    let baseline = plan.baseline.map(|Baseline { prior, .. }| {
        let increasing = if plan.baseline_increases() { ", increasing" } else { "" };
        line((plan.baseline_name().into(), &format!("{prior}{increasing}")))
    });
    let linear = plan.linear.iter().flat_map(|own| own.coefficients.iter().map(named));
    let own = plan.parameters.iter().map(named).chain(linear);
    plan.coefficients.iter().map(named).chain(baseline).chain(effects).chain(own).collect()
}

/// A number with four digits: usual priors have no more, so that what is printed is what is sampled.
pub(super) fn four_digits(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
