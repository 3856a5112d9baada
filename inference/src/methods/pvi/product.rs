//! Multiplies silos' changes into the posterior, and refuses a product that is no density.

use partita_core::SiteTable;

use crate::engine::error::{Error, Result};
use crate::engine::natural::ExponentialFamily;
use crate::engine::terms::coordinator::global_site;
use crate::methods::pvi::Pvi;

impl Pvi {
    /// The posterior times the silos' changes, or times so great a share of them that it is a density.
    pub(super) fn product(&self, changes: &[(usize, Vec<f64>)]) -> Result<(Vec<f64>, f64)> {
        let mut sum = vec![0.0; self.natural.len()];
        changes.iter().for_each(|(_, change)| crate::engine::estimator::add(&mut sum, change));
        let with = |share: f64| self.natural.iter().zip(&sum).map(|(old, new)| old + share * new).collect::<Vec<f64>>();
        let mut share = 1.0;
        let mut candidate = with(share);
        for _ in 0..self.options.backtracking {
            if self.family.impropriety(&candidate).is_none() {
                break;
            }
            share *= 0.5;
            candidate = with(share);
        }
        match self.family.impropriety(&candidate) {
            None => Ok((candidate, share)),
            Some(_) => Err(self.improper(&with(1.0), changes)),
        }
    }

    /// Makes a product the posterior, and gives the one before.
    pub(super) fn apply(&mut self, product: Vec<f64>, changes: &[(usize, Vec<f64>)], share: f64) -> Vec<f64> {
        let before = std::mem::replace(&mut self.natural, product);
        for (silo, change) in changes {
            self.ledger.take(*silo, change, share);
        }
        if let [(silo, _)] = changes {
            self.turn.residuals[*silo] = self.family.kl_divergence(&self.natural, &before);
        }
        before
    }

    /// The error for a product that is no density, with the silos whose own change makes it so, or all of them.
    pub(super) fn improper(&self, product: &[f64], changes: &[(usize, Vec<f64>)]) -> Error {
        let alone =
            |change: &Vec<f64>| self.natural.iter().zip(change).map(|(old, new)| old + new).collect::<Vec<f64>>();
        let guilty: Vec<&(usize, Vec<f64>)> =
            changes.iter().filter(|(_, change)| self.family.impropriety(&alone(change)).is_some()).collect();
        let named = |(silo, _): &(usize, Vec<f64>)| self.coordinator.silos[*silo].clone();
        let silos = match guilty.as_slice() {
            [] => changes.iter().map(named).collect::<Vec<_>>(),
            some => some.iter().map(|change| named(change)).collect(),
        };
        let found = self.family.impropriety(product);
        let (component, precision) = found.map_or((0, f64::NAN), |found| (found.component, found.found));
        let one = guilty.first().copied().or(changes.first());
        Error::ImproperProduct {
            silos: silos.join("`, `"),
            step: self.coordinator.step,
            damping: one.map_or(f64::NAN, |(silo, _)| self.damping(*silo)),
            site: site_of(&self.coordinator.table, component),
            found: precision,
        }
    }
}

fn site_of(table: &SiteTable, component: usize) -> String {
    global_site(table, component).map_or_else(|| format!("component {component}"), |site| site.name.clone())
}
