//! Turns a variable into columns: one of numbers, several of a polynomial or a spline, or those of a factor's levels.

use super::error::DesignError;
use super::evaluate::Evaluation;
use super::spline::BasisSpline;
use crate::agree::{Agreement, Boundary, Contrast, Declared};
use crate::read::{ColumnKind, Factor, SILO};
use crate::syntax::Span;
use crate::term::Coding;
use crate::variable::{Arithmetic, Knots, Spline, Variable, VariableKind};

/// A variable evaluated in every row.
#[derive(Debug)]
pub(super) enum Block {
    /// Columns of numbers with their names.
    Numbers(Vec<Column>),
    /// Levels.
    Levels { label: String, factor: Factor, contrast: Contrast, span: Span },
}

/// A column of a design.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
}

impl Block {
    pub(super) fn of(variable: &Variable, evaluation: &Evaluation<'_>) -> Result<Self, DesignError> {
        let Variable { label, span, kind } = variable;
        let agreement = agreement(evaluation, label)?;
        let of_study = agreement.declared.contrasts.get(label).unwrap_or(&agreement.declared.contrast);
        let contrast = |of_formula: Option<Contrast>| of_formula.unwrap_or(*of_study);
        let numbers = |values| Self::Numbers(vec![Column { name: label.clone(), values }]);
        Ok(match kind {
            VariableKind::Column(name) if evaluation.columns.kind(name) == Some(ColumnKind::Number) => numbers(
                evaluation.values(name, span, &Arithmetic::Column { name: name.clone(), span: span.clone() })?,
            ),
            VariableKind::Column(column) | VariableKind::Factor { column, .. } => {
                let factor = levels(variable, column, evaluation)?;
                let of_formula = match kind {
                    VariableKind::Factor { contrast, .. } => *contrast,
                    _ => None,
                };
                Self::Levels { label: label.clone(), factor, contrast: contrast(of_formula), span: span.clone() }
            }
            VariableKind::Arithmetic(arithmetic) if arithmetic.is_logical() => {
                let is_true = evaluation.values(label, span, arithmetic)?;
                let codes = is_true.into_iter().map(|own| usize::from(own > 0.0)).collect();
                let factor = Factor { levels: logical().to_vec(), codes };
                Self::Levels { label: label.clone(), factor, contrast: contrast(None), span: span.clone() }
            }
            VariableKind::Arithmetic(arithmetic) => numbers(evaluation.values(label, span, arithmetic)?),
            VariableKind::Polynomial { of, degree, raw } => {
                let x = evaluation.values(label, span, of)?;
                let rows = if *raw { raw_powers(&x, *degree) } else { orthogonal(label, &x, *degree, agreement)? };
                Self::Numbers(named(label, rows))
            }
            VariableKind::Spline(spline) => Self::Numbers(named(label, splines(variable, spline, evaluation)?)),
        })
    }

    /// The columns of this variable in a term that codes factors by `coding`.
    pub(super) fn columns(&self, coding: Coding, evaluation: &Evaluation<'_>) -> Result<Vec<Column>, DesignError> {
        let (label, factor, contrast, span) = match self {
            Self::Numbers(columns) => return Ok(columns.clone()),
            Self::Levels { label, factor, contrast, span } => (label, factor, contrast, span),
        };
        let count = factor.levels.len();
        if coding == Coding::Contrasts && count < 2 {
            return Err(DesignError::Constant {
                variable: label.clone(),
                found: format!("the level {} alone", factor.levels.join("")),
                expected: "two levels or more",
                place: evaluation.formula.place(span),
            });
        }
        let (levels, last) = match (coding, contrast) {
            (Coding::Full, _) => (0..count, None),
            (Coding::Contrasts, Contrast::Treatment) => (1..count, None),
            (Coding::Contrasts, Contrast::Sum) => (0..count - 1, Some(count - 1)),
        };
        let column = |level: usize| {
            let value = |code: &usize| {
                if *code == level {
                    1.0
                } else if Some(*code) == last {
                    -1.0
                } else {
                    0.0
                }
            };
            let ending = last.map_or_else(|| factor.levels[level].clone(), |_| (level + 1).to_string());
            Column { name: format!("{label}{ending}"), values: factor.codes.iter().map(value).collect() }
        };
        Ok(levels.map(column).collect())
    }

    pub(super) fn has_levels(&self) -> bool {
        matches!(self, Self::Levels { .. })
    }
}

fn logical() -> [String; 2] {
    ["FALSE", "TRUE"].map(String::from)
}

fn agreement<'a>(evaluation: &Evaluation<'a>, label: &str) -> Result<&'a Agreement, DesignError> {
    evaluation.agreement.ok_or_else(|| DesignError::NotAgreed { item: label.into() })
}

/// The levels of `variable` in every row, by their place among those agreed on.
pub(super) fn levels(variable: &Variable, column: &str, evaluation: &Evaluation<'_>) -> Result<Factor, DesignError> {
    let factor = evaluation.factor(column)?;
    let logical = logical();
    let label = &variable.label;
    let agreed: &[String] = match &variable.kind {
        VariableKind::Factor { levels: Some(levels), .. } => levels,
        _ => match (agreement(evaluation, label)?.levels_of(label), evaluation.columns.kind(column)) {
            (Some(levels), _) => levels,
            (None, Some(ColumnKind::Logical)) => &logical,
            _ => return Err(DesignError::NotAgreed { item: format!("levels:{label}") }),
        },
    };
    among(factor, agreed, label, &variable.span, evaluation)
}

/// Finds what is wrong with a variable that a silo sees in its own rows, before silos agree.
pub(crate) fn check_alone(
    variable: &Variable,
    evaluation: &Evaluation<'_>,
    declared: &Declared,
) -> Result<(), DesignError> {
    let Variable { label, span, kind } = variable;
    let found = match kind {
        VariableKind::Arithmetic(of) | VariableKind::Polynomial { of, .. } => {
            evaluation.values(label, span, of).map(drop)
        }
        VariableKind::Spline(spline) => evaluation.values(label, span, &spline.of).map(drop),
        VariableKind::Factor { column, levels, .. } => {
            let stated = levels.as_ref().or_else(|| declared.levels.get(label));
            let among = |levels: &Vec<String>| among(evaluation.factor(column)?, levels, label, span, evaluation);
            stated.map_or(Ok(()), |levels| among(levels).map(drop))
        }
        VariableKind::Column(_) => Ok(()),
    };
    match found {
        // It depends on other silos.
        Err(DesignError::NotAgreed { .. }) => Ok(()),
        found => found,
    }
}

/// `factor` with its codes by the place of its levels in `agreed`.
pub(super) fn among(
    factor: &Factor,
    agreed: &[String],
    label: &str,
    span: &Span,
    evaluation: &Evaluation<'_>,
) -> Result<Factor, DesignError> {
    let places: std::collections::HashMap<&str, usize> =
        agreed.iter().enumerate().map(|(at, level)| (level.as_str(), at)).collect();
    let place = |level: &String| places.get(level.as_str()).copied();
    let new: Vec<Option<usize>> = factor.levels.iter().map(place).collect();
    let codes = factor.codes.iter().enumerate().map(|(row, code)| {
        new[*code].ok_or_else(|| DesignError::Value {
            call: label.into(),
            found: format!("the level {:?}", factor.levels[*code]),
            expected: format!("one of {}", agreed.join(", ")),
            remedy: match label {
                SILO => {
                    "A fixed effect of the silo is known of silos with rows alone: name the silo of the rows (of a command \
                     `--predict NAME=FILE`), write its name into a column `silo`, or make it an effect of groups, `(1 | silo)`."
                }
                _ => "Write one of these, or add the level to those of the study, if a silo has rows of it.",
            },
            at: evaluation.at(row, span),
        })
    });
    Ok(Factor { levels: agreed.to_vec(), codes: codes.collect::<Result<_, _>>()? })
}

/// Columns with the name of the call and their number, which is left out where there is one.
fn named(label: &str, columns: Vec<Vec<f64>>) -> Vec<Column> {
    let alone = columns.len() == 1;
    let name = |at: usize| if alone { label.to_owned() } else { format!("{label}{}", at + 1) };
    columns.into_iter().enumerate().map(|(at, values)| Column { name: name(at), values }).collect()
}

fn raw_powers(x: &[f64], degree: usize) -> Vec<Vec<f64>> {
    (1..=degree as i32).map(|power| x.iter().map(|x| x.powi(power)).collect()).collect()
}

fn orthogonal(label: &str, x: &[f64], degree: usize, agreement: &Agreement) -> Result<Vec<Vec<f64>>, DesignError> {
    let agreed = agreement.declared.polynomials.get(label).or_else(|| agreement.polynomials.get(label));
    let polynomial = agreed
        .filter(|polynomial| polynomial.is_of(degree))
        .ok_or_else(|| DesignError::NotAgreed { item: format!("sums:{label}") })?;
    let mut columns = vec![Vec::with_capacity(x.len()); degree];
    let mut values = vec![0.0; degree];
    for x in x {
        polynomial.at(*x, &mut values);
        columns.iter_mut().zip(&values).for_each(|(column, value)| column.push(*value));
    }
    Ok(columns)
}

fn splines(variable: &Variable, spline: &Spline, evaluation: &Evaluation<'_>) -> Result<Vec<Vec<f64>>, DesignError> {
    let Variable { label, span, .. } = variable;
    let boundary = resolved(label, spline, agreement(evaluation, label)?)
        .ok_or_else(|| DesignError::NotAgreed { item: format!("range:{label}") })?;
    let Boundary { low, high, knots } = &boundary;
    let ascending = knots.windows(2).all(|pair| pair[0] <= pair[1]);
    if !(low < high && ascending && knots.iter().all(|knot| low < knot && knot < high)) {
        let (call, place) = (label.clone(), evaluation.formula.place(span));
        return Err(DesignError::Knots { call, low: *low, high: *high, knots: knots.clone(), place });
    }
    let x = evaluation.values(label, span, &spline.of)?;
    if let Some(row) = x.iter().position(|x| !(*low..=*high).contains(x)) {
        return Err(DesignError::Value {
            call: spline.of.columns().first().map_or_else(|| label.clone(), |(name, _)| name.clone()),
            found: x[row].to_string(),
            expected: format!("{low} to {high}"),
            remedy: "Make the range of the spline wider.",
            at: evaluation.at(row, span),
        });
    }
    let basis = BasisSpline::new(spline.degree, &boundary);
    let mut columns = vec![vec![0.0; x.len()]; basis.len()];
    let mut values = Vec::new();
    for (row, x) in x.iter().enumerate() {
        let first = basis.at(*x, &mut values);
        values.iter().enumerate().for_each(|(at, value)| columns[first + at][row] = *value);
    }
    Ok(columns.into_iter().skip(usize::from(!spline.intercept)).collect())
}

/// The range and the knots of a spline, from the study, the formula or the agreement.
fn resolved(label: &str, spline: &Spline, agreement: &Agreement) -> Option<Boundary> {
    if let Some(declared) = agreement.declared.splines.get(label) {
        return Some(declared.clone());
    }
    let agreed = agreement.splines.get(label);
    let [low, high] = spline.boundary.or_else(|| agreed.map(|agreed| [agreed.low, agreed.high]))?;
    let knots = match &spline.knots {
        Knots::Written(knots) => knots.clone(),
        Knots::AtQuantiles(0) => Vec::new(),
        Knots::AtQuantiles(_) => agreed?.knots.clone(),
    };
    Some(Boundary { low, high, knots })
}
