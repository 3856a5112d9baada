//! What one silo says of its rows before a fit: a list of items that an owner can read, and refuse one by one.

use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};

use serde::{Deserialize, Serialize};

use super::histogram::range;
use super::item::{ChebyshevSums, DesignPart};
use super::{Declared, Histogram, Item, Moments};
use crate::design::{DesignError, Evaluation, check_alone, event_times};
use crate::error::nearest;
use crate::formula::Formula;
use crate::read::{ColumnKind, Columns};
use crate::variable::{Knots, Spline, Variable, VariableKind};

/// What one silo says of its rows.
///
/// # Example
/// ```
/// use partita_formula::{Declared, Formula, Frame, MissingCells, Profile, ReadOptions};
/// let frame = Frame::from_bytes("north.csv", b"y,age,site\n1,7,a\n2,9,b\n", ReadOptions::default())?;
/// let formula = Formula::parse("y ~ scale(age) + site")?;
/// let columns = frame.columns("north", &[&formula], MissingCells::Refuse)?;
/// let mut profile = Profile::of(&[&formula], &columns, &Declared::default())?;
/// let names: Vec<String> = profile.items.iter().map(|item| item.name()).collect();
/// assert_eq!(names[..6], ["rows", "kind:y", "kind:age", "kind:site", "mean-sd:scale(age)", "levels:site"]);
/// assert_eq!(names[6..], ["columns", "products", "outcome"]); // of the design, once silos agree on its columns
/// assert!(profile.refuse("levels:site"));
/// assert_eq!(profile.items.len(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name of the silo.
    pub silo: String,
    /// What it says.
    pub items: Vec<Item>,
    /// The names of items that its owner refuses.
    #[serde(default)]
    pub refused: Vec<String>,
}

impl Profile {
    /// What `formulas` need to know of `columns` that `declared` does not say.
    ///
    /// # Errors
    /// [`DesignError`] if a function has no finite value in some row, a level is none of those that formula or study state, or
    /// `declared` names what no formula has.
    pub fn of(formulas: &[&Formula], columns: &Columns, declared: &Declared) -> Result<Self, DesignError> {
        known(formulas, declared)?;
        let rows = Item::Rows { used: columns.rows() as u64, dropped: columns.dropped() as u64 };
        let mut profile = Self { silo: columns.silo.clone(), items: vec![rows], refused: Vec::new() };
        for formula in formulas {
            for (name, _) in formula.places() {
                if formula.uses_plainly(&name) || formula.computes_with(&name).is_some() {
                    profile.items.extend(columns.kind(&name).map(|kind| Item::Kind { of: name, kind }));
                }
            }
        }
        for formula in formulas {
            let evaluation = Evaluation { formula, columns, agreement: None };
            for variable in formula.variables() {
                profile.variable(variable, &evaluation, declared)?;
                check_alone(variable, &evaluation, declared)?;
            }
            for offset in &formula.fixed.offsets {
                check_alone(offset, &evaluation, declared)?;
            }
            profile.events(&evaluation)?;
            for term in &formula.random {
                let label = term.grouping.label();
                if declared.groups_across_silos.contains(&label) && !declared.levels.contains_key(&label) {
                    let levels = evaluation.groups(&term.grouping)?.levels;
                    profile.items.push(Item::Levels { of: label, levels });
                }
            }
        }
        let has_numbers = |formula: &&Formula| match formula.response.as_ref().map(|own| &own.outcome.kind) {
            None | Some(VariableKind::Factor { .. }) => false,
            Some(VariableKind::Column(column)) => columns.kind(column) != Some(ColumnKind::Text),
            Some(_) => true,
        };
        let is_said = |part: &DesignPart| match part {
            DesignPart::Columns | DesignPart::Products => true,
            DesignPart::Outcome => formulas.iter().any(has_numbers),
            DesignPart::Groups => formulas.iter().any(|formula| !formula.random.is_empty()),
        };
        profile.items.extend(DesignPart::ALL.into_iter().filter(is_said).map(|part| Item::Design { part }));
        let mut seen = BTreeSet::new();
        profile.items.retain(|item| seen.insert(item.name()));
        Ok(profile)
    }

    /// Takes the item called `name` out; whether it was there.
    pub fn refuse(&mut self, name: &str) -> bool {
        let before = self.items.len();
        self.items.retain(|item| item.name() != name);
        let found = self.items.len() < before;
        if found {
            self.refused.push(name.into());
        }
        found
    }

    /// What a silo says of the times of events, where these are cut at quantiles.
    fn events(&mut self, evaluation: &Evaluation<'_>) -> Result<(), DesignError> {
        let Some(response) = &evaluation.formula.response else { return Ok(()) };
        if let Some(Knots::AtQuantiles(count)) = response.cuts {
            let counts = Histogram::of(&event_times(response, evaluation)?, count);
            self.items.push(Item::Quantiles { of: response.cuts_label(), counts });
        }
        Ok(())
    }

    fn variable(
        &mut self,
        variable: &Variable,
        evaluation: &Evaluation<'_>,
        declared: &Declared,
    ) -> Result<(), DesignError> {
        let of = variable.label.clone();
        match &variable.kind {
            VariableKind::Column(column) | VariableKind::Factor { column, levels: None, .. } => {
                let plain = matches!(variable.kind, VariableKind::Column(_));
                let asked = match evaluation.columns.kind(column) {
                    Some(ColumnKind::Text) => true,
                    Some(ColumnKind::Number) => !plain,
                    _ => false,
                };
                if asked && !declared.levels.contains_key(&of) {
                    let levels = evaluation.factor(column)?.levels.clone();
                    self.items.push(Item::Levels { of, levels });
                }
            }
            VariableKind::Arithmetic(arithmetic) => {
                for scale in arithmetic.scales() {
                    if !declared.scalings.contains_key(&scale.label) {
                        let values = evaluation.values(&scale.label, &variable.span, &scale.of)?;
                        self.items.push(Item::MeanSd { of: scale.label.clone(), moments: Moments::of(&values) });
                    }
                }
            }
            VariableKind::Polynomial { of: arithmetic, degree, raw: false } => {
                if !declared.polynomials.contains_key(&of) {
                    let values = evaluation.values(&of, &variable.span, arithmetic)?;
                    self.items.push(Item::Sums { of, sums: ChebyshevSums::of(&values, *degree) });
                }
            }
            VariableKind::Spline(spline) if !declared.splines.contains_key(&of) => {
                let values = evaluation.values(&of, &variable.span, &spline.of)?;
                self.items.extend(spline_item(of, spline, values));
            }
            VariableKind::Spline(_) | VariableKind::Polynomial { .. } | VariableKind::Factor { .. } => {}
        }
        Ok(())
    }
}

/// What a silo says for a spline that the formula does not fix.
fn spline_item(of: String, spline: &Spline, mut values: Vec<f64>) -> Option<Item> {
    if let Some([low, high]) = spline.boundary {
        values.retain(|value| (low..=high).contains(value));
    }
    match (&spline.knots, spline.boundary) {
        (Knots::AtQuantiles(count), _) if *count > 0 => {
            Some(Item::Quantiles { of, counts: Histogram::of(&values, *count) })
        }
        (_, Some(_)) => None,
        (_, None) => {
            let (low, high) = range(&values).unwrap_or((f64::NAN, f64::NAN));
            Some(Item::Range { of, low, high })
        }
    }
}

/// Refuses a declaration of what no formula has.
fn known(formulas: &[&Formula], declared: &Declared) -> Result<(), DesignError> {
    let variables = || formulas.iter().flat_map(|formula| formula.variables());
    let mut labels: BTreeSet<String> = variables().map(|variable| variable.label.clone()).collect();
    for variable in variables() {
        if let VariableKind::Arithmetic(arithmetic) = &variable.kind {
            labels.extend(arithmetic.scales().iter().map(|scale| scale.label.clone()));
        }
    }
    let groupings = formulas.iter().flat_map(|formula| &formula.random).map(|term| term.grouping.label());
    labels.extend(groupings);
    let Declared { levels, scalings, splines, polynomials, contrasts, groups_across_silos, .. } = declared;
    let calls = levels.keys().chain(scalings.keys()).chain(splines.keys()).chain(polynomials.keys());
    let mut names = calls.chain(contrasts.keys()).chain(groups_across_silos);
    match names.find(|name| !labels.contains(*name)) {
        None => Ok(()),
        Some(name) => Err(DesignError::Declared {
            name: name.clone(),
            suggestion: nearest(name, labels.iter().map(String::as_str)),
            known: labels.iter().cloned().collect(),
        }),
    }
}

impl Display for Profile {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "What silo {} says of its rows:", self.silo)?;
        for item in &self.items {
            writeln!(out, "  {}: {item}", item.name())?;
        }
        self.refused.iter().try_for_each(|name| writeln!(out, "  {name}: refused"))
    }
}
