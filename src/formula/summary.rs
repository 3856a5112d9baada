//! Holds what a silo says of its design after the agreement, and adds up what all silos say.

use partita_formula::{Agreement, ColumnSums, Design, DesignError, GroupScope, Outcome};
use serde::{Deserialize, Serialize};

/// What silos agreed on, and what they said of their designs together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Agreed {
    pub(crate) agreement: Agreement,
    pub(crate) summary: DesignSummary,
}

/// What a silo says of its design: sums of its columns, and how many groups it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DesignSummary {
    /// Counts, means and products of the columns.
    pub sums: ColumnSums,
    /// The random terms, in the order of the formula.
    pub random: Vec<RandomSummary>,
    /// The sums of the columns of each parameter that has a formula of its own.
    #[serde(default)]
    pub parameters: Vec<(String, ColumnSums)>,
    /// The levels of the outcome that were agreed on, in their order.
    #[serde(default)]
    pub levels: Vec<String>,
    /// Where it was agreed that the hazard may change.
    #[serde(default)]
    pub cuts: Vec<f64>,
    /// Groupings within the silo that do not lie within one another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossed: Vec<CrossedGroupings>,
}

/// Two groupings of a silo, one of which has a group in several groups of the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossedGroupings {
    /// The grouping that does not hold the other.
    pub outer: String,
    /// The grouping with a group in several of the first.
    pub inner: String,
    /// The silo.
    pub silo: String,
}

impl CrossedGroupings {
    /// All of a design, in both orders.
    pub(super) fn of(design: &Design) -> Vec<Self> {
        let within = || design.random.iter().filter(|term| term.scope == GroupScope::WithinSilo);
        let mut all: Vec<Self> = Vec::new();
        for (outer, inner) in within().flat_map(|outer| within().map(move |inner| (outer, inner))) {
            if outer.grouping != inner.grouping && inner.inside(outer).is_none() {
                let [one, two] = [outer, inner].map(|term| term.grouping.clone());
                let own = Self { outer: one, inner: two, silo: design.silo.clone() };
                if !all.contains(&own) {
                    all.push(own);
                }
            }
        }
        all
    }
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
        let levels = match &design.outcome {
            Some(Outcome::Levels { levels, .. }) => levels.clone(),
            _ => Vec::new(),
        };
        let (parameters, cuts) = (design.parameter_sums(), design.cuts.clone().unwrap_or_default());
        Self {
            sums: design.sums(),
            random: random.collect(),
            parameters,
            levels,
            cuts,
            crossed: CrossedGroupings::of(design),
        }
    }

    /// The same less the parts with these names, which an owner refuses.
    #[must_use]
    pub fn less(mut self, refused: &[String]) -> Self {
        let is_refused = |part: &str| refused.iter().any(|own| own == part);
        if is_refused("products") {
            self.sums = self.sums.without_products();
            self.parameters = self.parameters.into_iter().map(|(name, own)| (name, own.without_products())).collect();
        }
        if is_refused("outcome") {
            (self.sums.outcome, self.sums.less_offset) = (None, None);
        }
        self
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
        let mut parameters = Vec::new();
        let first = silos.first().map(|own| own.parameters.as_slice()).unwrap_or_default();
        for (place, (name, _)) in first.iter().enumerate() {
            let each = silos.iter().filter_map(|own| own.parameters.get(place)).filter(|(own, _)| own == name);
            let each: Vec<ColumnSums> = each.map(|(_, sums)| sums.clone()).collect();
            parameters.push((name.clone(), ColumnSums::merge(&each)?));
        }
        let agreed = silos.first().map(|own| (own.levels.clone(), own.cuts.clone())).unwrap_or_default();
        let crossed = silos.iter().flat_map(|own| own.crossed.clone()).collect();
        Ok(Self { sums, random, parameters, levels: agreed.0, cuts: agreed.1, crossed })
    }
}
