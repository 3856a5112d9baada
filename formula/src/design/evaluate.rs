//! Evaluates the variables of a formula in the rows of one silo, and finds the groups of its rows.

use super::error::{DesignError, RowPlace};
use crate::agree::Agreement;
use crate::formula::Formula;
use crate::random::Grouping;
use crate::read::{ColumnKind, Columns, Factor};
use crate::syntax::Span;
use crate::variable::{Arithmetic, Scale, Source, Variable, VariableKind};

/// The rows of a silo, a formula over them, and the agreement once there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evaluation<'a> {
    pub(crate) formula: &'a Formula,
    pub(crate) columns: &'a Columns,
    pub(crate) agreement: Option<&'a Agreement>,
}

impl Evaluation<'_> {
    /// The finite values of `arithmetic`, which the formula has at `span` as `call`.
    pub(crate) fn values(&self, call: &str, span: &Span, arithmetic: &Arithmetic) -> Result<Vec<f64>, DesignError> {
        let values = arithmetic.values(self.columns.rows(), self)?;
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(row) => Err(DesignError::NotFinite { at: self.at(row, span), call: call.into(), found: values[row] }),
        }
    }

    /// Whether the rows are new ones, whose outcome is unknown: they may have groups that no silo has.
    pub(super) fn is_of_new_rows(&self) -> bool {
        self.formula.response.is_none()
    }

    /// Where the value of `row` stands that the formula has at `span`.
    pub(super) fn at(&self, row: usize, span: &Span) -> Box<RowPlace> {
        let line = self.columns.lines.get(row).copied().unwrap_or_default();
        Box::new(RowPlace { file: self.columns.file.clone(), line, place: self.formula.place(span) })
    }

    /// Whether silos agreed that a variable has levels.
    pub(super) fn agreed_levels(&self, variable: &Variable) -> bool {
        let kind = |name: &String| self.agreement.and_then(|own| own.kinds.get(name));
        match &variable.kind {
            VariableKind::Factor { .. } => true,
            VariableKind::Arithmetic(arithmetic) => arithmetic.is_logical(),
            VariableKind::Column(name) => kind(name).is_some_and(|kind| *kind != ColumnKind::Number),
            _ => false,
        }
    }

    /// The levels of the column `name`.
    pub(crate) fn factor(&self, name: &str) -> Result<&Factor, DesignError> {
        let column = self.columns.columns.get(name);
        column.and_then(|column| column.factor.as_ref()).ok_or_else(|| DesignError::NoColumn { column: name.into() })
    }

    /// The groups of the rows: the combinations of levels that rows have, the first column's varying slowest.
    pub(crate) fn groups(&self, grouping: &Grouping) -> Result<Factor, DesignError> {
        let factors = grouping.columns.iter().map(|(name, _)| self.factor(name)).collect::<Result<Vec<_>, _>>()?;
        let code = |row: usize| factors.iter().map(|factor| factor.codes[row]).collect::<Vec<usize>>();
        let mut sorted: Vec<Vec<usize>> = (0..self.columns.rows()).map(code).collect();
        let rows = sorted.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let name = |codes: &Vec<usize>| {
            let levels = factors.iter().zip(codes).map(|(factor, code)| factor.levels[*code].as_str());
            levels.collect::<Vec<_>>().join(":")
        };
        let codes = rows.iter().map(|row| sorted.binary_search(row).unwrap_or_default()).collect();
        Ok(Factor { levels: sorted.iter().map(name).collect(), codes })
    }
}

impl Source for Evaluation<'_> {
    type Error = DesignError;

    fn numbers(&self, name: &str, _: &Span) -> Result<Vec<f64>, DesignError> {
        let column = self.columns.columns.get(name).map(|column| column.numbers.clone());
        column.filter(|numbers| !numbers.is_empty()).ok_or_else(|| DesignError::NoColumn { column: name.into() })
    }

    fn has_level(&self, name: &str, level: &str) -> Result<Vec<bool>, DesignError> {
        let Factor { levels, codes } = self.factor(name)?;
        Ok(codes.iter().map(|code| levels[*code] == level).collect())
    }

    fn scale(&self, scale: &Scale) -> Result<(f64, f64), DesignError> {
        let not_agreed = || DesignError::NotAgreed { item: format!("mean-sd:{}", scale.label) };
        let agreement = self.agreement.ok_or_else(not_agreed)?;
        if let Some(scaling) = agreement.declared.scalings.get(&scale.label) {
            return Ok((scaling.centre, scaling.divisor));
        }
        let moments = agreement.moments.get(&scale.label).ok_or_else(not_agreed)?;
        let count = moments.count as f64;
        let root_mean_square = ((moments.squares + count * moments.mean * moments.mean) / (count - 1.0)).sqrt();
        let centre = if scale.centre { moments.mean } else { 0.0 };
        let divisor = match (scale.divide, scale.centre) {
            (false, _) => 1.0,
            (true, true) => moments.sd(),
            (true, false) => root_mean_square,
        };
        if divisor > 0.0 {
            return Ok((centre, divisor));
        }
        let span = scale.of.columns().first().map_or(0..0, |(_, span)| span.clone());
        Err(DesignError::Constant {
            variable: scale.label.clone(),
            found: format!("the standard deviation {divisor}"),
            expected: "one above zero",
            place: self.formula.place(&span),
        })
    }
}
