//! Puts the groupings of a formula into a chain of levels, each inside the last, that holds in every silo.

use partita_core::{Device, Groups};
use partita_formula::{Design, GroupScope, RandomDesign};
use partita_models::regression::{EffectRows, Level, RegressionRows};

use super::StudyError;
use super::priors::INTERCEPT;
use super::summary::RandomSummary;

/// The groupings within silos, outermost first, with the places of their terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) groupings: Vec<Grouping>,
    /// The places of terms of the silo itself.
    pub(super) silo: Vec<usize>,
}

/// One grouping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grouping {
    pub(super) name: String,
    pub(super) terms: Vec<usize>,
}

impl Chain {
    /// The chain of random terms: the groupings with fewer groups hold those with more.
    pub(super) fn of(terms: &[RandomSummary]) -> Result<Self, StudyError> {
        let mut groupings: Vec<Grouping> = Vec::new();
        let mut silo = Vec::new();
        for (place, term) in terms.iter().enumerate() {
            match term.scope {
                GroupScope::Silo => silo.push(place),
                GroupScope::WithinSilo => match groupings.iter_mut().find(|own| own.name == term.grouping) {
                    Some(own) => own.terms.push(place),
                    None => groupings.push(Grouping { name: term.grouping.clone(), terms: vec![place] }),
                },
                GroupScope::AcrossSilos => {
                    return Err(unfit(
                        format!("`{}`, whose groups have rows in several silos", term.grouping),
                        "groups that each lie within a silo",
                        "Name them apart in each silo, or make them a fixed factor.",
                    ));
                }
            }
        }
        groupings.sort_by_key(|own| terms[own.terms[0]].groups);
        Ok(Self { groupings, silo })
    }

    /// The rows of a silo in their groups.
    pub(super) fn place(
        &self,
        rows: RegressionRows,
        design: &Design,
        device: &Device,
    ) -> Result<RegressionRows, StudyError> {
        let columns = |place: &usize| effect_rows(&design.random[*place], device);
        let rows = rows.with_silo_effects(self.silo.iter().map(columns).collect());
        let mut levels = Vec::new();
        for (depth, grouping) in self.groupings.iter().enumerate() {
            let own = &design.random[grouping.terms[0]];
            let outer = depth.checked_sub(1).map(|outer| {
                let around = &design.random[self.groupings[outer].terms[0]];
                let holders =
                    own.inside(around).ok_or_else(|| crossed(&around.grouping, &own.grouping, &design.silo))?;
                grouped(holders, around.levels.len())
            });
            let outer = outer.transpose()?;
            let effects = grouping.terms.iter().map(columns).collect();
            levels.push(Level { name: grouping.name.clone(), groups: own.levels.len(), outer, effects });
        }
        let innermost = self.groupings.last().map(|own| &design.random[own.terms[0]]);
        let visits = innermost.map(|own| grouped(own.group.clone(), own.levels.len())).transpose()?;
        Ok(rows.in_groups(levels, visits))
    }
}

/// The columns of a term.
fn effect_rows(term: &RandomDesign, device: &Device) -> EffectRows {
    match term.columns.names.as_slice() {
        [name] if name == INTERCEPT => EffectRows::Intercepts,
        names => {
            let values = term.columns.values.clone();
            let rows = values.len() / names.len().max(1);
            EffectRows::Columns(Box::new(device.tensor(values, [rows, names.len()])))
        }
    }
}

fn grouped(index: Vec<usize>, groups: usize) -> Result<Groups, StudyError> {
    Groups::new(index, groups)
        .map_err(|error| unfit(error.to_string(), "rows in every group", "Take out levels that no row has."))
}

fn crossed(one: &str, two: &str, silo: &str) -> StudyError {
    unfit(
        format!("`{one}` and `{two}`, which cross in {silo}"),
        "groupings of which each lies within the next, such as `(1 | ward/patient)`",
        "Keep the one with more groups as effects, and make the other a fixed factor.",
    )
}

fn unfit(found: String, expected: &str, remedy: &str) -> StudyError {
    StudyError::Unfit { operation: "groups of a formula", found, expected: expected.into(), remedy: remedy.into() }
}
