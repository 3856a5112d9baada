//! Holds what a silo says of its design after the agreement, and adds up what all silos say.

use partita_formula::{ColumnSums, Design, DesignError, GroupScope};
use serde::{Deserialize, Serialize};

/// What a silo says of its design: sums of its columns, and how many groups it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DesignSummary {
    /// Counts, means and products of the columns.
    pub sums: ColumnSums,
    /// The random terms, in the order of the formula.
    pub random: Vec<RandomSummary>,
}

/// What a silo says of a random term.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomSummary {
    /// The grouping.
    pub grouping: String,
    /// The names of the columns whose coefficients vary.
    pub columns: Vec<String>,
    /// Whether the coefficients of a group are correlated.
    pub correlated: bool,
    /// Where the groups have their rows.
    pub scope: GroupScope,
    /// How many groups there are.
    pub groups: u64,
    /// Their names where silos agreed on them; none of groups within a silo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<String>,
}

impl DesignSummary {
    /// What a design gives.
    #[must_use]
    pub fn of(design: &Design) -> Self {
        let random = design.random.iter().map(|term| RandomSummary {
            grouping: term.grouping.clone(),
            columns: term.columns.names.clone(),
            correlated: term.correlated,
            scope: term.scope,
            groups: term.levels.len() as u64,
            levels: if term.scope == GroupScope::AcrossSilos { term.levels.clone() } else { Vec::new() },
        });
        Self { sums: design.sums(), random: random.collect() }
    }

    /// Adds what all silos say, in their order.
    ///
    /// # Errors
    /// [`DesignError::Columns`] if two silos have other columns.
    pub fn merge(silos: &[Self]) -> Result<Self, DesignError> {
        let sums = ColumnSums::merge(&silos.iter().map(|own| own.sums.clone()).collect::<Vec<_>>())?;
        let mut random = silos.first().map(|own| own.random.clone()).unwrap_or_default();
        for own in silos.iter().skip(1) {
            let names = |terms: &[RandomSummary]| -> Vec<String> {
                terms
                    .iter()
                    .flat_map(|term| term.columns.iter().map(|name| format!("{name} | {}", term.grouping)))
                    .collect()
            };
            let (found, expected) = (names(&own.random), names(&random));
            if found != expected {
                return Err(DesignError::Columns { silo: own.sums.silo.clone(), found, expected });
            }
            for (term, other) in random.iter_mut().zip(&own.random) {
                term.groups = match term.scope {
                    // All silos list the same groups.
                    GroupScope::AcrossSilos => term.groups,
                    GroupScope::Silo | GroupScope::WithinSilo => term.groups.saturating_add(other.groups),
                };
            }
        }
        Ok(Self { sums, random })
    }
}
