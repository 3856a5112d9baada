//! Names the family of every global site in words, as reports do.

use std::fmt;

use partita_core::SiteTable;
use serde::{Deserialize, Serialize};

use super::FamilyPlan;

/// The family that some global sites have together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFamily {
    /// The sites.
    pub sites: Vec<String>,
    /// The family in words, such as "Gaussian, full covariance".
    pub family: String,
    /// How many numbers it is over, unconstrained.
    pub numbers: usize,
}

impl fmt::Display for NamedFamily {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.numbers == 1 { "number" } else { "numbers" };
        write!(formatter, "posterior of {}: {} over {} {noun}", self.sites.join(", "), self.family, self.numbers)
    }
}

impl FamilyPlan {
    /// The family of every global site: first of those that share one, then of each that has its own.
    #[must_use]
    pub fn named(&self, table: &SiteTable) -> Vec<NamedFamily> {
        let parts = self.parts(table).into_iter().filter(|(sites, _)| !sites.is_empty());
        let named = parts.map(|(sites, choice)| NamedFamily {
            sites: sites.iter().map(|site| site.name.clone()).collect(),
            family: choice.name(),
            numbers: sites.iter().map(|site| site.width()).sum(),
        });
        named.collect()
    }
}
