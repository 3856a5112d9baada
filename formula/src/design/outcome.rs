//! Evaluates the left side of a formula: outcome, trials, weights and status, each checked for what it may be.

use super::block;
use super::error::DesignError;
use super::evaluate::Evaluation;
use crate::agree::Boundary;
use crate::read::ColumnKind;
use crate::response::Response;
use crate::variable::{Arithmetic, Knots, Variable, VariableKind};

/// The outcome in each row.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Numbers; logicals are 0 and 1.
    Numbers(Vec<f64>),
    /// Levels, in the order agreed on.
    Levels {
        /// The levels.
        levels: Vec<String>,
        /// The place of each row's level among them.
        codes: Vec<usize>,
    },
}

/// The parts of a left side.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) outcome: Option<Outcome>,
    pub(super) trials: Option<Vec<f64>>,
    pub(super) weights: Option<Vec<f64>>,
    pub(super) status: Option<Vec<f64>>,
    pub(super) cuts: Option<Vec<f64>>,
}

impl Left {
    pub(super) fn of(response: &Response, evaluation: &Evaluation<'_>) -> Result<Self, DesignError> {
        let checked = |variable: &Option<Variable>, rule: &Rule| {
            variable
                .as_ref()
                .map(|variable| rule.check(variable, numbers(variable, evaluation)?, evaluation))
                .transpose()
        };
        let outcome = match outcome(&response.outcome, evaluation)? {
            Outcome::Numbers(times) if response.status.is_some() => {
                Outcome::Numbers(TIME.check(&response.outcome, times, evaluation)?)
            }
            other => other,
        };
        let trials = checked(&response.trials, &TRIALS)?;
        if let (Outcome::Numbers(found), Some(trials)) = (&outcome, &trials)
            && let Some(row) = (0..trials.len()).find(|row| found[*row] > trials[*row])
        {
            return Err(BELOW_TRIALS.error(&response.outcome, row, found[row], evaluation));
        }
        let weights = checked(&response.weights, &WEIGHTS)?;
        let (status, cuts) = (checked(&response.status, &STATUS)?, cuts(response, evaluation)?);
        Ok(Self { outcome: Some(outcome), trials, weights, status, cuts })
    }
}

/// What the numbers of a place in the left side may be.
struct Rule {
    allowed: fn(f64) -> bool,
    expected: &'static str,
    remedy: &'static str,
}

const TIME: Rule = Rule {
    allowed: |x| x > 0.0,
    expected: "a time above zero",
    remedy: "Correct the cell, or count from an earlier day.",
};
const TRIALS: Rule = Rule {
    allowed: |x| x >= 1.0 && x.fract() == 0.0,
    expected: "a whole number of trials, at least 1",
    remedy: "Correct the cell.",
};
const BELOW_TRIALS: Rule =
    Rule { allowed: |_| true, expected: "at most the number of trials", remedy: "Correct one of the two cells." };
const WEIGHTS: Rule = Rule { allowed: |x| x >= 0.0, expected: "a weight of zero or more", remedy: "Correct the cell." };
const STATUS: Rule = Rule {
    allowed: |x| x * (x - 1.0) == 0.0,
    expected: "1 where the event happened and 0 where not",
    remedy: "Where the file has 2 and 1, write `surv(time, status - 1)`.",
};

impl Rule {
    fn check(
        &self,
        variable: &Variable,
        values: Vec<f64>,
        evaluation: &Evaluation<'_>,
    ) -> Result<Vec<f64>, DesignError> {
        match values.iter().position(|value| !(self.allowed)(*value)) {
            None => Ok(values),
            Some(row) => Err(self.error(variable, row, values[row], evaluation)),
        }
    }

    fn error(&self, variable: &Variable, row: usize, found: f64, evaluation: &Evaluation<'_>) -> DesignError {
        DesignError::Value {
            call: variable.label.clone(),
            found: found.to_string(),
            expected: self.expected.into(),
            remedy: self.remedy,
            at: evaluation.at(row, &variable.span),
        }
    }
}

/// The times at which events happened.
pub(crate) fn event_times(response: &Response, evaluation: &Evaluation<'_>) -> Result<Vec<f64>, DesignError> {
    let times = numbers(&response.outcome, evaluation)?;
    let Some(status) = &response.status else { return Ok(times) };
    let happened = STATUS.check(status, numbers(status, evaluation)?, evaluation)?;
    Ok(times.into_iter().zip(happened).filter(|(_, happened)| *happened > 0.0).map(|(time, _)| time).collect())
}

/// Where the time is cut: as the formula says, or at the quantiles agreed on that are before the last event.
fn cuts(response: &Response, evaluation: &Evaluation<'_>) -> Result<Option<Vec<f64>>, DesignError> {
    let label = response.cuts_label();
    let not_agreed = || DesignError::NotAgreed { item: format!("quantiles:{label}") };
    match &response.cuts {
        None => Ok(None),
        Some(Knots::Written(cuts)) => Ok(Some(cuts.clone())),
        Some(Knots::AtQuantiles(_)) => {
            let Some(agreement) = evaluation.agreement else { return Ok(Some(Vec::new())) };
            let Boundary { high, knots, .. } = agreement.splines.get(&label).ok_or_else(not_agreed)?;
            let mut cuts: Vec<f64> = knots.iter().copied().filter(|cut| *cut > 0.0 && cut < high).collect();
            cuts.dedup();
            match cuts.is_empty() {
                false => Ok(Some(cuts)),
                true => Err(DesignError::Constant {
                    variable: label,
                    found: "no two times at which events happened".into(),
                    expected: "events at several times",
                    place: evaluation.formula.place(&response.outcome.span),
                }),
            }
        }
    }
}

fn outcome(variable: &Variable, evaluation: &Evaluation<'_>) -> Result<Outcome, DesignError> {
    let levels = |column: &str| {
        // Before silos agree a silo has its own levels alone.
        let factor = match evaluation.agreement {
            Some(_) => block::levels(variable, column, evaluation)?,
            None => evaluation.factor(column)?.clone(),
        };
        Ok(Outcome::Levels { levels: factor.levels, codes: factor.codes })
    };
    match &variable.kind {
        VariableKind::Column(name) if evaluation.columns.kind(name) == Some(ColumnKind::Text) => levels(name),
        VariableKind::Factor { column, .. } => levels(column),
        _ => Ok(Outcome::Numbers(numbers(variable, evaluation)?)),
    }
}

/// The numbers of a variable that is a column or arithmetic.
pub(super) fn numbers(variable: &Variable, evaluation: &Evaluation<'_>) -> Result<Vec<f64>, DesignError> {
    let column = |name: &String| Arithmetic::Column { name: name.clone(), span: variable.span.clone() };
    match &variable.kind {
        VariableKind::Arithmetic(arithmetic) => evaluation.values(&variable.label, &variable.span, arithmetic),
        VariableKind::Column(name) => evaluation.values(&variable.label, &variable.span, &column(name)),
        _ => Err(DesignError::NoColumn { column: variable.label.clone() }),
    }
}
