//! Reads the random terms of a formula, `(1 + x | g)`, as lme4 does: bars, nesting by `/`, and `||`.

use crate::error::FormulaError;
use crate::syntax::{Expression, Node, Operator, Span, quoted_name};
use crate::term::Terms;
use crate::variable::call_error;

/// A random term: coefficients that vary over the groups of rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RandomTerm {
    /// As lme4 writes it, `1 + x | g`.
    pub(crate) label: String,
    pub(crate) terms: Terms,
    pub(crate) correlated: bool,
    pub(crate) grouping: Grouping,
}

/// The columns whose combinations are the groups of a random term.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    pub(crate) columns: Vec<(String, Span)>,
}

impl Grouping {
    /// Its name, `b:a`, as in [`crate::RandomDesign::grouping`].
    #[must_use]
    pub fn label(&self) -> String {
        self.columns.iter().map(|(name, _)| quoted_name(name)).collect::<Vec<_>>().join(":")
    }

    /// Whether its groups are told apart by the column `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|(column, _)| column == name)
    }
}

/// The random terms of a side, in order, and what is left of it.
#[derive(Debug)]
pub(crate) struct Split {
    pub(crate) fixed: Option<Expression>,
    pub(crate) random: Vec<RandomTerm>,
}

/// Takes the random terms out of the sum `expression`.
pub(crate) fn split(text: &str, expression: &Expression) -> Result<Split, FormulaError> {
    match &expression.node {
        Node::Group(inner) => match &inner.node {
            Node::Pair(bar @ (Operator::Bar | Operator::DoubleBar), left, right) => {
                Ok(Split { fixed: None, random: random_terms(text, *bar, left, right)? })
            }
            Node::Group(_) => split(text, inner),
            _ => {
                let Split { fixed, random } = split(text, inner)?;
                let whole = if random.is_empty() { Some(expression.clone()) } else { fixed };
                Ok(Split { fixed: whole, random })
            }
        },
        Node::Pair(Operator::Plus | Operator::Minus, ..) => {
            let (mut fixed, mut random): (Option<Expression>, Vec<RandomTerm>) = (None, Vec::new());
            for (operator, part) in expression.parts() {
                let found = split(text, part)?;
                if operator == Operator::Minus && !found.random.is_empty() {
                    return Err(call_error(text, part, "a fixed term after `-`", "Leave the random term out."));
                }
                random.extend(found.random);
                let Some(part) = found.fixed else { continue };
                let span = fixed.as_ref().map_or(part.span.start, |sum| sum.span.start)..part.span.end;
                let node = match fixed {
                    Some(sum) => Node::Pair(operator, Box::new(sum), Box::new(part)),
                    None if operator == Operator::Minus => Node::Sign(operator, Box::new(part)),
                    None => part.node,
                };
                fixed = Some(Expression { node, span });
            }
            Ok(Split { fixed, random })
        }
        _ => Ok(Split { fixed: Some(expression.clone()), random: Vec::new() }),
    }
}

fn random_terms(
    text: &str,
    bar: Operator,
    left: &Expression,
    right: &Expression,
) -> Result<Vec<RandomTerm>, FormulaError> {
    let terms = Terms::expand(text, left)?;
    if let Some(offset) = terms.offsets.first() {
        let at = Expression { node: Node::Name("offset".into()), span: offset.span.clone() };
        return Err(call_error(text, &at, "terms whose coefficients vary", "An offset stands outside of `( | )`."));
    }
    if terms.terms.is_empty() && !terms.intercept {
        return Err(call_error(text, left, "at least one coefficient", "Write `(1 | g)`, or leave the term out."));
    }
    let groupings = groupings(text, right)?;
    let label = |grouping: &Grouping| format!("{left}{}{}", bar.written(), grouping.label());
    Ok(groupings
        .into_iter()
        .map(|grouping| RandomTerm {
            label: label(&grouping),
            terms: terms.clone(),
            correlated: bar == Operator::Bar,
            grouping,
        })
        .collect())
}

/// The groupings of `a`, `a:b` or `a/b`, the innermost first as lme4 has them: `b:a`, `a`.
fn groupings(text: &str, expression: &Expression) -> Result<Vec<Grouping>, FormulaError> {
    Ok(match &expression.node {
        Node::Name(name) => vec![Grouping { columns: vec![(name.clone(), expression.span.clone())] }],
        Node::Group(inner) => groupings(text, inner)?,
        Node::Call { function, arguments } if function == "factor" && arguments.len() == 1 => {
            let inner =
                arguments.iter().map(|argument| &argument.value).find(|value| matches!(value.node, Node::Name(_)));
            let inner = inner.ok_or_else(|| call_error(text, expression, "`factor(g)` of a column", ""))?;
            groupings(text, inner)?
        }
        Node::Pair(Operator::Colon, left, right) => {
            let mut columns = one(text, left)?.columns;
            columns.extend(one(text, right)?.columns);
            vec![Grouping { columns }]
        }
        Node::Pair(Operator::Over, left, right) => {
            let outer = groupings(text, left)?;
            let mut columns = one(text, right)?.columns;
            columns.extend(outer.first().map(|innermost| innermost.columns.clone()).unwrap_or_default());
            [Grouping { columns }].into_iter().chain(outer).collect()
        }
        _ => {
            let remedy = "Make a column of the groups in the file.";
            return Err(call_error(text, expression, "the name of a column after `|`, `a:b` or `a/b`", remedy));
        }
    })
}

fn one(text: &str, expression: &Expression) -> Result<Grouping, FormulaError> {
    let mut found = groupings(text, expression)?;
    let remedy = "Write `a/b/c` without parentheses.";
    match (found.pop(), found.is_empty()) {
        (Some(grouping), true) => Ok(grouping),
        _ => Err(call_error(text, expression, "one grouping here", remedy)),
    }
}
