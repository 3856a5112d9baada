//! Names every way in which a design cannot be computed from a silo's rows, with the line of the file.

use crate::error::did_you_mean;
use crate::syntax::Place;

/// Where a value stands: in the file and in the formula.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPlace {
    /// The file.
    pub file: String,
    /// The line of the file, from 1.
    pub line: u64,
    /// The place in the formula.
    pub place: Place,
}

/// The error of computing a profile or a design from the rows of a silo.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DesignError {
    /// The columns were taken for other formulas.
    #[error("computing the design: column `{column}` was not read. Take the columns for all formulas that use them.")]
    NoColumn {
        /// The column.
        column: String,
    },
    /// A call has no finite value in a row.
    #[error(
        "computing the design of {}: `{call}` is {found} in line {}, expected a finite number. Correct the cell, or leave the row out.\n{}",
        at.file, at.line, at.place
    )]
    NotFinite {
        /// Where.
        at: Box<RowPlace>,
        /// The call.
        call: String,
        /// Its value.
        found: f64,
    },
    /// A value is outside of what its place in the formula allows.
    #[error("computing the design of {}: `{call}` is {found} in line {}, expected {expected}. {remedy}\n{}", at.file, at.line, at.place)]
    Value {
        /// Where.
        at: Box<RowPlace>,
        /// What has the value.
        call: String,
        /// The value.
        found: String,
        /// The values allowed.
        expected: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The silos did not agree on something that the formula needs.
    #[error(
        "computing the design: the agreement lacks `{item}`. Merge profiles of the same formulas, or fix it in the study."
    )]
    NotAgreed {
        /// The item.
        item: String,
    },
    /// A variable does not vary.
    #[error(
        "computing the design: {variable} has {found} over all silos, expected {expected}. Take it out of the formula.\n{place}"
    )]
    Constant {
        /// The variable.
        variable: String,
        /// What it has.
        found: String,
        /// What it needs.
        expected: &'static str,
        /// Where the formula has it.
        place: Place,
    },
    /// The knots of a spline are not inside its range.
    #[error(
        "computing the design: {call} has the range {low} to {high} and the knots {knots:?}, expected knots inside of a range.\n{place}"
    )]
    Knots {
        /// The call.
        call: String,
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
        /// The knots.
        knots: Vec<f64>,
        /// Where the formula has it.
        place: Place,
    },
    /// The study declares something that no formula has.
    #[error("reading the study: `{name}` is declared and in no formula.{} There are: {}.", did_you_mean(suggestion), known.join(", "))]
    Declared {
        /// Its name.
        name: String,
        /// The nearest name of the formulas.
        suggestion: Option<String>,
        /// The names of the formulas.
        known: Vec<String>,
    },
    /// Two silos have different columns in their designs.
    #[error(
        "adding sums: silo `{silo}` has the columns {found:?}, expected {expected:?}. Compute both designs with the same agreement."
    )]
    Columns {
        /// The silo.
        silo: String,
        /// Its columns.
        found: Vec<String>,
        /// The columns of the first silo.
        expected: Vec<String>,
    },
}
