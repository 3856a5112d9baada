//! Puts the groupings of a formula into a chain of levels, each inside the last, that holds in every silo.

use std::collections::BTreeSet;

use partita_core::{Device, Groups};
use partita_formula::{Design, GroupScope, Matrix, RandomDesign};
use partita_models::regression::{EffectRows, Level, RegressionRows};

use super::StudyError;
use super::priors::INTERCEPT;
use super::summary::{CrossedGroupings, DesignSummary, RandomSummary};

/// The groupings within silos, outermost first, with the places of their terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) groupings: Vec<Grouping>,
    /// The places of terms of the silo itself.
    pub(super) silo: Vec<usize>,
    /// The places of terms whose groups all silos know.
    pub(super) across: Vec<usize>,
}

/// Two groupings of which neither lies within the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crossing {
    /// The one with fewer groups over all silos.
    pub(super) fewer: String,
    /// How many groups it has.
    pub(super) groups: usize,
    /// The other.
    pub(super) more: String,
    /// A silo where they cross.
    pub(super) silo: String,
}

/// The most groups of a grouping that becomes known to all silos because it crosses another.
const MOST_ACROSS: usize = 50;

impl Crossing {
    /// What crosses, with the names of its groups in all silos.
    pub(super) fn of(crossed: &CrossedGroupings, designs: &[Design]) -> Self {
        let count = |grouping: &String| {
            let terms = designs.iter().flat_map(|own| own.random.iter().filter(|term| term.grouping == *grouping));
            (terms.flat_map(|term| &term.levels).collect::<BTreeSet<_>>().len(), grouping.clone())
        };
        let mut both = [count(&crossed.outer), count(&crossed.inner)];
        both.sort();
        let [(groups, fewer), (_, more)] = both;
        Self { fewer, groups, more, silo: crossed.silo.clone() }
    }

    /// Refuses a grouping of too many groups to be known to all silos.
    pub(super) fn is_small(&self) -> Result<(), StudyError> {
        if self.groups <= MOST_ACROSS { Ok(()) } else { Err(crossed(&self.fewer, &self.more, &self.silo)) }
    }

    /// What one should know of it.
    pub(super) fn note(&self) -> String {
        let Self { fewer, groups, more, .. } = self;
        format!(
            "`{fewer}` and `{more}` cross: the {groups} groups of `{fewer}` are effects that all silos know, the same where they \
             have the same name"
        )
    }
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
        let (mut silo, mut across) = (Vec::new(), Vec::new());
        for (place, term) in terms.iter().enumerate() {
            match term.scope {
                GroupScope::Silo => silo.push(place),
                GroupScope::WithinSilo => match groupings.iter_mut().find(|own| own.name == term.grouping) {
                    Some(own) => own.terms.push(place),
                    None => groupings.push(Grouping { name: term.grouping.clone(), terms: vec![place] }),
                },
                GroupScope::AcrossSilos if term.correlated && term.columns.len() > 1 => {
                    return Err(unfit(
                        format!("correlated effects of `{}`, whose groups all silos know", term.grouping),
                        "effects that are each by themselves",
                        "Write them with `||`, as in `(1 + x || group)`.",
                    ));
                }
                GroupScope::AcrossSilos => across.push(place),
            }
        }
        groupings.sort_by_key(|own| terms[own.terms[0]].groups);
        Ok(Self { groupings, silo, across })
    }

    /// The grouping over whose groups the model has this plate.
    pub(super) fn grouping(&self, plate: &str) -> Option<&Grouping> {
        self.groupings.iter().find(|own| own.name == plate)
    }

    /// Two groupings that follow one another in the chain and cross in a silo.
    pub(super) fn crossing<'a>(&self, crossed: &'a [CrossedGroupings]) -> Option<&'a CrossedGroupings> {
        let of = |pair: &[Grouping]| crossed.iter().find(|own| own.outer == pair[0].name && own.inner == pair[1].name);
        self.groupings.windows(2).find_map(of)
    }

    /// Refuses groupings that cross: no party says the names of its groups before the study declares that it may.
    pub(super) fn check_nested(&self, summary: &DesignSummary) -> Result<(), StudyError> {
        let Some(CrossedGroupings { outer, inner, silo }) = self.crossing(&summary.crossed) else { return Ok(()) };
        let groups = summary.random.iter().find(|term| term.grouping == *outer).map_or(0, |term| term.groups);
        Err(unfit(
            format!("`{outer}` and `{inner}`, which cross in {silo}"),
            "groupings of which each lies within the next, or one whose groups all silos know",
            &format!(
                "If silos may tell one another the names of the groups of `{outer}` ({groups}, counted in each silo), let all \
                 parties write `[declared]` and `groups_across_silos = [\"{outer}\"]` into study.toml; else make it a fixed factor.",
            ),
        ))
    }

    /// The columns of a row, with those of the effects that all silos know: none of a group that no silo has.
    pub(super) fn columns(&self, fixed: &Matrix, design: &Design) -> Vec<f64> {
        if self.across.is_empty() {
            return fixed.values.clone();
        }
        let mut all = Vec::new();
        for row in 0..design.rows {
            let width = fixed.names.len();
            all.extend(&fixed.values[row * width..(row + 1) * width]);
            for term in self.across.iter().map(|place| &design.random[*place]) {
                let own = term.columns.names.len();
                for x in &term.columns.values[row * own..(row + 1) * own] {
                    all.extend((0..term.agreed).map(|level| if level == term.group[row] { *x } else { 0.0 }));
                }
            }
        }
        all
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
        "Let all silos know the groups of one (`groups_across_silos` of a study, `--across-silos` of a command), or make it a \
         fixed factor.",
    )
}

fn unfit(found: String, expected: &str, remedy: &str) -> StudyError {
    StudyError::Unfit { operation: "groups of a formula", found, expected: expected.into(), remedy: remedy.into() }
}
