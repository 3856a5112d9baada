//! Computes the random terms of a design: the group of each row, the columns that vary, and the groups that hold others.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::block;
use super::error::DesignError;
use super::evaluate::Evaluation;
use super::matrix::{Matrix, matrix};
use crate::random::RandomTerm;
use crate::read::{Factor, SILO};

/// Where the groups of a random term have their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupScope {
    /// A group is a silo: `(1 | silo)`.
    Silo,
    /// Each group is inside of one silo: its coefficients are local latents, and its name stays there.
    WithinSilo,
    /// Groups have rows in several silos, as the study declares: their coefficients are global latents.
    AcrossSilos,
}

/// One random term of a silo's design.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomDesign {
    /// The grouping, `child:class`.
    pub grouping: String,
    /// Where its groups have their rows.
    pub scope: GroupScope,
    /// Whether the coefficients of a group are correlated: `|`, not `||`.
    pub correlated: bool,
    /// The groups: those of the silo; or those that silos agreed on, and after them those of new rows that no silo has.
    pub levels: Vec<String>,
    /// How many groups silos agreed on; 0 where groups lie within silos.
    pub agreed: usize,
    /// The group of each row.
    pub group: Vec<usize>,
    /// The columns whose coefficients vary.
    pub columns: Matrix,
}

impl RandomDesign {
    pub(super) fn of(term: &RandomTerm, evaluation: &Evaluation<'_>) -> Result<Self, DesignError> {
        let grouping = term.grouping.label();
        let groups = evaluation.groups(&term.grouping)?;
        let agreement = evaluation.agreement.ok_or_else(|| DesignError::NotAgreed { item: grouping.clone() })?;
        let across = agreement.declared.groups_across_silos.contains(&grouping);
        let (scope, agreed, groups) = if grouping == SILO {
            one_silo(term, &groups, evaluation)?;
            (GroupScope::Silo, 0, groups)
        } else if across {
            let missing = || DesignError::NotAgreed { item: format!("levels:{grouping}") };
            let agreed = agreement.levels_of(&grouping).ok_or_else(missing)?;
            let span = term.grouping.columns.first().map_or(0..0, |(_, span)| span.clone());
            let mut levels = agreed.to_vec();
            if evaluation.is_of_new_rows() {
                let known: HashSet<&String> = agreed.iter().collect();
                levels.extend(groups.levels.iter().filter(|own| !known.contains(own)).cloned());
            }
            let groups = block::among(&groups, &levels, &grouping, &span, evaluation)?;
            (GroupScope::AcrossSilos, agreed.len(), groups)
        } else {
            (GroupScope::WithinSilo, 0, groups)
        };
        Ok(Self {
            grouping,
            scope,
            correlated: term.correlated,
            levels: groups.levels,
            agreed,
            group: groups.codes,
            columns: matrix(&term.terms, evaluation)?,
        })
    }

    /// The group of `outer` that holds each of these groups; `None` where one has rows in two.
    #[must_use]
    pub fn inside(&self, outer: &Self) -> Option<Vec<usize>> {
        let mut holders: Vec<Option<usize>> = vec![None; self.levels.len()];
        for (inner, outer) in self.group.iter().zip(&outer.group) {
            match &mut holders[*inner] {
                Some(holder) if holder != outer => return None,
                holder => *holder = Some(*outer),
            }
        }
        holders.into_iter().collect()
    }
}

/// Refuses rows of several silos in one file: the effect of the silo would be one for all.
fn one_silo(term: &RandomTerm, groups: &Factor, evaluation: &Evaluation<'_>) -> Result<(), DesignError> {
    let Some(row) = groups.codes.iter().position(|code| Some(code) != groups.codes.first()) else { return Ok(()) };
    let [first, other] = [0, row].map(|row| groups.levels[groups.codes[row]].as_str());
    let span = term.grouping.columns.first().map_or(0..0, |(_, span)| span.clone());
    Err(DesignError::Value {
        call: SILO.into(),
        found: format!("{other:?}"),
        expected: format!("{first:?} as in the row before: `silo` after a bar is the silo itself, one for each file"),
        remedy: "Write a file for each silo; or, for groups of rows within one silo, give the column another name.",
        at: evaluation.at(row, &span),
    })
}
