//! Looks for mass of rows where their rules have no points: a rule that has settled on one of several modes sees no other.

use partita_core::special::{HALF_LOG_TWO_PI, log_sum_exp};

use super::centres::PartCentres;
use super::part::Part;
use super::tree::Level;
use super::{Centres, Integrand, RowIntegral};
use crate::engine::error::Result;
use crate::engine::family::real;

/// The points of a rule that looks farther than the settled ones, and how far, in the spread of rows.
const WIDE: usize = 127;
const FARTHER: f64 = 2.0;
/// The share by which scales of rows differ, and the golden section by which they do: no mode lies between the points of all.
const UNLIKE: f64 = 0.25;
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl RowIntegral {
    /// What the log marginal likelihood of rows of one latent may lack, in nats: the mass that wider rules find where the
    /// settled ones have no points.
    ///
    /// # Errors
    /// What the model reports at a node.
    pub(crate) fn missed(&self, integrand: &Integrand<'_>, globals: &[f64], centres: &mut Centres) -> Result<f64> {
        let parts = self.parts.iter().zip(&mut centres.parts);
        parts.map(|(part, own)| part.missed(integrand, globals, own)).sum()
    }
}

impl Part {
    fn missed(&self, integrand: &Integrand<'_>, globals: &[f64], centres: &mut PartCentres) -> Result<f64> {
        let levels = self.tree.levels.iter().enumerate();
        let is_looked_at = |(_, level): &(usize, &Level)| {
            level.width == 1 && level.within.is_none() && level.inner == 1 && !level.is_silo
        };
        let looked_at: Vec<usize> = levels.filter(is_looked_at).map(|(at, _)| at).collect();
        if looked_at.is_empty() {
            return Ok(0.0);
        }
        let settled = self.settle(integrand, globals, centres)?;
        let mut wide = self.clone();
        looked_at.iter().try_for_each(|at| wide.tree.set(*at, WIDE))?;
        wide.lay_out(integrand.table)?;
        let mut looking = centres.clone();
        for at in &looked_at {
            let own = &mut looking.levels[*at];
            let rows = real(own.centre.len());
            let mean = own.centre.iter().sum::<f64>() / rows;
            let spread = (own.centre.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / rows).sqrt();
            let scale = FARTHER * (spread + own.factor.iter().sum::<f64>() / rows);
            let unlike = |row: usize| scale * (1.0 + UNLIKE * (GOLDEN * real(row)).fract());
            own.factor.iter_mut().enumerate().for_each(|(row, slot)| *slot = slot.max(unlike(row)));
        }
        let (density, passes) = (wide.density(integrand), wide.layout.passes(&wide.tree, &looking));
        let found = density.level_values(globals, &passes, integrand.data)?;
        let logs: Vec<_> = settled.by_block(&self.tree).collect();
        let mut missed = 0.0;
        for at in looked_at {
            let (level, inner) = (&wide.tree.levels[at], &self.tree.levels[at]);
            let mut beyond = vec![Vec::new(); level.rows];
            for evaluation in 0..wide.layout.evaluations() {
                let rows = found.rows(evaluation, Some(level.block));
                for (slot, log) in wide.layout.slots(at, evaluation).iter().zip(rows).filter(|(slot, _)| slot.counts) {
                    let way = looking.levels[at].factor[slot.at()] * level.rule.points[slot.node()];
                    if way.abs() > inner.rule.reach * centres.levels[at].factor[slot.at()] {
                        beyond[slot.at()].push(log + level.rule.log_factors[slot.node()]);
                    }
                }
            }
            let Some((_, own)) = logs.iter().find(|(block, _)| *block == level.block) else { continue };
            for (row, (beyond, log)) in
                beyond.iter().zip(*own).enumerate().filter(|(_, (beyond, _))| !beyond.is_empty())
            {
                let mass = log_sum_exp(beyond) + HALF_LOG_TWO_PI + looking.levels[at].factor[row].ln();
                missed += level.times(row) * (mass - log).exp().ln_1p();
            }
        }
        Ok(missed)
    }
}
