//! The items of a profile: each has a name by which an owner can refuse it, and a line that says what it shows.

use std::fmt::{Display, Formatter};

use serde::{Deserialize, Serialize};

use super::{Histogram, Moments};
use crate::read::ColumnKind;

/// One thing that a silo says of its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Item {
    /// How many rows are used, and how many are left out for missing cells.
    Rows {
        /// The rows used.
        used: u64,
        /// The rows left out.
        dropped: u64,
    },
    /// What a column holds.
    Kind {
        /// The column.
        of: String,
        /// What it holds.
        kind: ColumnKind,
    },
    /// The levels of a factor, or the groups of a grouping over silos.
    Levels {
        /// The factor, or the grouping.
        of: String,
        /// Its levels that the silo has.
        levels: Vec<String>,
    },
    /// Count, mean and squares of the numbers that a `scale` is of.
    MeanSd {
        /// The call of `scale`.
        of: String,
        /// The moments.
        moments: Moments,
    },
    /// The smallest and the largest number that a `bs` is of.
    Range {
        /// The call of `bs`.
        of: String,
        /// The smallest.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// Counts in cells of the numbers that a `bs` with `df` is of, or of the times of events that `surv` is cut at quantiles of.
    Quantiles {
        /// The call of `bs`, or of `surv`.
        of: String,
        /// The counts.
        counts: Histogram,
    },
    /// Range, and sums of polynomials up to twice the degree, of the numbers that a `poly` is of.
    Sums {
        /// The call of `poly`.
        of: String,
        /// The sums.
        sums: ChebyshevSums,
    },
    /// A part of what the silo says of its design, once silos agree on its columns.
    Design {
        /// The part.
        part: DesignPart,
    },
}

/// A part of what a silo says of its design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DesignPart {
    /// The mean and the sum of squares of each column.
    Columns,
    /// The sums of products of two columns.
    Products,
    /// The moments of an outcome of numbers.
    Outcome,
    /// How many groups groupings have, and which groupings cross.
    Groups,
}

impl DesignPart {
    /// All parts.
    pub(crate) const ALL: [Self; 4] = [Self::Columns, Self::Products, Self::Outcome, Self::Groups];

    /// The name by which an owner refuses it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Columns => "columns",
            Self::Products => "products",
            Self::Outcome => "outcome",
            Self::Groups => "groups",
        }
    }

    /// What is said.
    fn words(self) -> &'static str {
        match self {
            Self::Columns => {
                "once silos agree on the columns of the design, the mean and the sum of squares of each, and of an offset"
            }
            Self::Products => "then the sums of products of two of them, which show which columns are given by others",
            Self::Outcome => "then count, mean and sum of squares of the outcome, and of it less an offset",
            Self::Groups => "then how many groups each grouping has, and which groupings cross",
        }
    }
}

/// A range, and the sums of Chebyshev polynomials on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChebyshevSums {
    /// The smallest number.
    pub low: f64,
    /// The largest number.
    pub high: f64,
    /// The sum of each polynomial, from degree zero.
    pub sums: Vec<f64>,
}

impl Item {
    /// The name by which an owner refuses it, `levels:smoke`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Rows { .. } => "rows".into(),
            Self::Kind { of, .. } => format!("kind:{of}"),
            Self::Levels { of, .. } => format!("levels:{of}"),
            Self::MeanSd { of, .. } => format!("mean-sd:{of}"),
            Self::Range { of, .. } => format!("range:{of}"),
            Self::Quantiles { of, .. } => format!("quantiles:{of}"),
            Self::Sums { of, .. } => format!("sums:{of}"),
            Self::Design { part } => part.name().into(),
        }
    }

    /// Whether its numbers and levels are such that rows can have given them.
    pub(crate) fn is_plain(&self) -> bool {
        let range = |low: &f64, high: &f64| low.is_finite() && high.is_finite() && low <= high;
        match self {
            Self::Rows { .. } | Self::Kind { .. } | Self::Design { .. } => true,
            Self::Levels { levels, .. } => (0..levels.len()).all(|at| !levels[..at].contains(&levels[at])),
            Self::MeanSd { moments, .. } => moments.is_plain(),
            Self::Range { low, high, .. } => range(low, high),
            Self::Quantiles { counts, .. } => counts.is_plain(),
            Self::Sums { sums, .. } => {
                let count = sums.sums.first().copied().unwrap_or_default();
                let bounded = sums.sums.iter().all(|sum| sum.abs() <= count * (1.0 + 1e-9));
                range(&sums.low, &sums.high) && count > 0.0 && bounded
            }
        }
    }
}

impl Display for Item {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rows { used, dropped } => write!(out, "{used} rows used, {dropped} left out for missing cells"),
            Self::Kind { of, kind } => write!(out, "column {of} holds {kind}"),
            Self::Levels { of, levels } => write!(out, "{of} has the levels {}", levels.join(", ")),
            Self::MeanSd { of, moments } => {
                let Moments { count, mean, .. } = moments;
                write!(out, "what {of} scales: {count} numbers, mean {mean}, standard deviation {}", moments.sd())
            }
            Self::Range { of, low, high } => write!(out, "what {of} is of: smallest {low}, largest {high}"),
            Self::Quantiles { of, counts } => {
                let Histogram { low, high, .. } = counts;
                let (rows, cells) = (counts.rows(), counts.listed());
                write!(
                    out,
                    "what {of} is of: {rows} numbers, smallest {low}, largest {high}, rows of each value cut to a hundredth or less of the range: {cells}"
                )
            }
            Self::Sums { of, sums: ChebyshevSums { low, high, sums } } => {
                write!(out, "what {of} is of: smallest {low}, largest {high}, sums of polynomials {sums:?}")
            }
            Self::Design { part } => out.write_str(part.words()),
        }
    }
}
