//! Reads the left side of a formula: an outcome with trials, weights, or the time and status of survival.

use crate::error::FormulaError;
use crate::syntax::{Argument, Expression, Node, Operator};
use crate::variable::{Call, Knots, Variable, VariableKind, call_error, unknown};

/// The left side of a formula.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Response {
    pub(crate) outcome: Variable,
    /// The number of trials behind each outcome: `y | trials(n)`.
    pub(crate) trials: Option<Variable>,
    /// The weight of each row: `y | weights(w)`.
    pub(crate) weights: Option<Variable>,
    /// Whether the event happened at the time, or the row was censored then: `surv(time, status)`.
    pub(crate) status: Option<Variable>,
    /// Where the hazard may change: `surv(time, status, cuts = c(30, 90))`, or `pieces = 5` with about as many events each.
    pub(crate) cuts: Option<Knots>,
}

impl Response {
    pub(crate) fn read(text: &str, expression: &Expression) -> Result<Self, FormulaError> {
        let (outcome, rest) = match &expression.node {
            Node::Pair(Operator::Bar, outcome, rest) => (outcome.as_ref(), Some(rest.as_ref())),
            _ => (expression, None),
        };
        let mut response = match &outcome.node {
            Node::Call { function, arguments } if ["surv", "Surv"].contains(&function.as_str()) => {
                let call = Call { text, expression: outcome, function, arguments };
                let [time, status, cuts, pieces] = call.matched(["time", "status", "cuts", "pieces"])?;
                let status =
                    status.ok_or_else(|| call.refuse(outcome, "a time and a status", "Write `surv(time, status)`."))?;
                let mut response = Self::of(number(text, call.first(time)?)?);
                response.status = Some(number(text, status)?);
                response.cuts = match (cuts, pieces) {
                    (Some(cuts), None) => Some(Knots::Written(written_cuts(&call, cuts)?)),
                    (None, Some(pieces)) => Some(Knots::AtQuantiles(call.whole(pieces, 2, 50)? - 1)),
                    (None, None) => None,
                    (Some(both), Some(_)) => {
                        return Err(call.refuse(both, "`cuts` or `pieces`", "Take one of them out."));
                    }
                };
                response
            }
            Node::Name(_) | Node::Call { .. } => Self::of(Variable::read(text, outcome)?),
            _ => Self::of(number(text, outcome)?),
        };
        if let Some(rest) = rest {
            response.additions(text, rest)?;
        }
        Ok(response)
    }

    fn of(outcome: Variable) -> Self {
        Self { outcome, trials: None, weights: None, status: None, cuts: None }
    }

    /// Reads what stands after the bar, `trials(n) + weights(w)`.
    fn additions(&mut self, text: &str, expression: &Expression) -> Result<(), FormulaError> {
        match &expression.node {
            Node::Pair(Operator::Plus, left, right) => {
                self.additions(text, left)?;
                self.additions(text, right)
            }
            Node::Call { function, arguments } => {
                let place = match function.as_str() {
                    "trials" => &mut self.trials,
                    "weights" => &mut self.weights,
                    _ => return Err(unknown(text, expression, function, &["trials", "weights"])),
                };
                let ([Argument { value, .. }], None) = (arguments.as_slice(), &place) else {
                    return Err(call_error(text, expression, "`trials(n)` or `weights(w)`, each once", ""));
                };
                *place = Some(number(text, value)?);
                Ok(())
            }
            _ => Err(call_error(text, expression, "`trials(n)` or `weights(w)` after `|`", "")),
        }
    }

    /// The name of what silos agree on where cuts are at quantiles.
    pub(crate) fn cuts_label(&self) -> String {
        format!("surv({})", self.outcome.label)
    }

    /// The same, with the values of an outcome that is a column read as levels.
    pub(crate) fn of_levels(mut self) -> Self {
        if let VariableKind::Column(column) = self.outcome.kind {
            self.outcome.kind = VariableKind::Factor { column, levels: None, contrast: None };
        }
        self
    }

    /// Every variable of it.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &Variable> {
        [Some(&self.outcome), self.trials.as_ref(), self.weights.as_ref(), self.status.as_ref()].into_iter().flatten()
    }
}

fn written_cuts(call: &Call<'_>, cuts: &Expression) -> Result<Vec<f64>, FormulaError> {
    let numbers = call.numbers(cuts)?;
    let increase = numbers.iter().all(|cut| *cut > 0.0) && numbers.windows(2).all(|pair| pair[0] < pair[1]);
    if increase {
        return Ok(numbers);
    }
    Err(call.refuse(cuts, "times above zero, each later than the one before", "Write `cuts = c(30, 90, 365)`."))
}

fn number(text: &str, expression: &Expression) -> Result<Variable, FormulaError> {
    let kind = Variable::arithmetic(text, expression)?;
    Ok(Variable { label: expression.to_string(), span: expression.span.clone(), kind })
}
