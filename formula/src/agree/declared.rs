//! What a study fixes in advance, so that no silo is asked for it: levels, scalings, knots, contrasts, groups over silos.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// How the levels of a factor become columns, where the term's margin is in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contrast {
    /// A column for each level but the first, as R's `contr.treatment`.
    #[default]
    Treatment,
    /// A column for each level but the last, which has −1 in all, as R's `contr.sum`.
    Sum,
}

/// What `scale` takes away, and what it divides by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// The number taken away.
    pub centre: f64,
    /// The number divided by.
    pub divisor: f64,
}

/// Where the pieces of a spline meet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Boundary {
    /// The lower end of the range.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The knots between them, ascending.
    pub knots: Vec<f64>,
}

/// What a study declares. Variables are named as the formula writes them, with R's spaces: `scale(age)`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Declared {
    /// The levels of factors, in their order; the first is the one that treatment contrasts compare with.
    pub levels: BTreeMap<String, Vec<String>>,
    /// The scalings of calls of `scale`.
    pub scalings: BTreeMap<String, Scaling>,
    /// The ranges and knots of calls of `bs`.
    pub splines: BTreeMap<String, Boundary>,
    /// The polynomials of calls of `poly`, for instance those of an earlier agreement.
    pub polynomials: BTreeMap<String, super::OrthogonalPolynomial>,
    /// The contrasts of factors that `contrast` is not for.
    pub contrasts: BTreeMap<String, Contrast>,
    /// The contrast of all other factors.
    pub contrast: Contrast,
    /// The groupings whose groups have rows in several silos, and whose levels are therefore agreed on.
    pub groups_across_silos: BTreeSet<String>,
}
