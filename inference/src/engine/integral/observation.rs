//! Finds how probable each observation is given the others of its row, from the nodes at which rows are integrated.

use std::collections::BTreeMap;

use partita_core::special::log_sum_exp;
use partita_core::{Latents, SiteTable};

use super::Integrand;
use super::centres::PartCentres;
use super::hermite::{Kind, Rule};
use super::layout::Slot;
use super::part::Part;
use super::reduce::Reduced;
use crate::engine::error::Result;

/// One observation at one draw of the globals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Observation {
    /// The place of its site in the table, and its own among the numbers of that site.
    place: [usize; 2],
    /// $`\log p(y_{it} \mid y_{i,-t}, z)`$, given the other observations of its row.
    pub(crate) left_out: f64,
    /// $`\log \mathrm{E}[p(y_{it} \mid u_i, z) \mid y_i, z]`$, given all observations of its row.
    pub(crate) seen: f64,
    /// Whether the nodes reach where the latents of its row are without it.
    pub(crate) is_reached: bool,
}

/// The weight of an outermost node, or of one draw among all, beyond which there is more where nodes do not reach.
const EDGE: f64 = 0.02;
const ALONE: f64 = 0.05;

/// A row evaluated: what the node weighs at which it stands.
#[derive(Debug, Clone, Copy)]
struct Weight {
    log: f64,
    is_edge: bool,
}

/// Sums over nodes of one observation, in logarithms.
#[derive(Debug, Clone, Default)]
struct Sums {
    inverse: Vec<f64>,
    seen: Vec<f64>,
    edge: Option<f64>,
}

impl Sums {
    fn add(&mut self, weight: Weight, log: f64) {
        let inverse = weight.log - log;
        self.inverse.push(inverse);
        self.seen.push(weight.log + log);
        if weight.is_edge {
            self.edge = Some(self.edge.map_or(inverse, |own| own.max(inverse)));
        }
    }

    fn is_reached(&self, kind: Kind) -> bool {
        let most = self.inverse.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match kind {
            Kind::Product => self.edge.is_none_or(|edge| edge - most < EDGE.ln()),
            Kind::Drawn => most - log_sum_exp(&self.inverse) < ALONE.ln(),
        }
    }
}

/// The observations of a site, by their places among its numbers; those of rows that are not of a part are empty.
#[derive(Debug)]
struct OfSite {
    site: usize,
    /// Where its rows are; `None` outside plates.
    block: Option<usize>,
    /// Numbers a row.
    width: usize,
    kind: Kind,
    sums: Vec<Sums>,
}

impl Part {
    /// Every observation of these rows given the others of its row, site by site.
    ///
    /// With the weights $`\omega_n`$ of nodes given all observations,
    /// $`1 / p(y_{it} \mid y_{i,-t}, z) = \mathrm{E}[1 / p(y_{it} \mid u, z) \mid y_i, z] = \sum_n \omega_n / p(y_{it} \mid u_n, z)`$.
    /// An observation that is the only one of its outermost row has the integral of that row. Levels in levels have the usual
    /// points at least: without an observation rows lie farther out than nodes of fewer points reach.
    ///
    /// # Errors
    /// What the model reports at a node.
    pub(super) fn observations(
        &self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut PartCentres,
    ) -> Result<Vec<Observation>> {
        if let Some(filled) = self.filled(integrand.table)? {
            return filled.observations(integrand, globals, &mut centres.clone().fitted_to(&filled.tree));
        }
        self.settle(integrand, globals, centres)?;
        let (density, passes) = (self.density(integrand), self.layout.passes(&self.tree, centres));
        let mut reduced = self.reduce(centres, &density.level_values(globals, &passes, integrand.data)?)?;
        let rows = self.by_place(integrand, &reduced)?;
        reduced.join(&self.tree);
        let mut sites: Vec<OfSite> = Vec::new();
        for (evaluation, locals) in passes.iter().enumerate() {
            let found = density.pointwise(Latents { globals, locals }, integrand.data)?;
            for (place, (name, found)) in found.iter().enumerate() {
                if evaluation == 0 {
                    sites.extend(self.blank(integrand.table, name, found.values.len())?);
                }
                let Some(own) = sites.get_mut(place) else { continue };
                self.add(integrand.table, &reduced, evaluation, own, &found.values)?;
            }
        }
        let logs: BTreeMap<Row, f64> =
            rows.into_iter().map(|(block, place, log)| (Row { block, place }, log)).collect();
        let alone = alone(integrand.table, &sites);
        let each =
            sites.iter().flat_map(|own| own.sums.iter().enumerate().map(move |(number, sums)| (own, number, sums)));
        let of = |(own, number, sums): (&OfSite, usize, &Sums)| {
            let (place, seen) = ([own.site, number], log_sum_exp(&sums.seen));
            match alone.get(&place).and_then(|row| logs.get(row)) {
                Some(log) => Observation::at(place, [*log, seen], true),
                None => Observation::at(place, [-log_sum_exp(&sums.inverse), seen], sums.is_reached(own.kind)),
            }
        };
        Ok(each.filter(|(_, _, sums)| !sums.seen.is_empty()).map(of).collect())
    }

    /// No sums yet for the observations of a site of which so many are evaluated.
    fn blank(&self, table: &SiteTable, name: &str, evaluated: usize) -> Result<Option<OfSite>> {
        let Some(site) = table.sites().iter().position(|own| own.name == name) else { return Ok(None) };
        let block = table.sites()[site].plate.as_ref().map(|_| table.sites()[site].block());
        let (rows, all) = match block {
            None => (1, 1),
            Some(block) => {
                let all = table.blocks()[block].rows;
                (table.rows_evaluated(block, &self.layout.minibatch)?.map_or(all, |rows| rows.len()), all)
            }
        };
        let width = evaluated / rows.max(1);
        let level = block.map_or_else(|| self.tree.silo(), |block| self.level_around(table, block));
        let kind = level.map_or(Kind::Product, |at| self.tree.levels[at].rule.kind);
        Ok(Some(OfSite { site, block, width, kind, sums: vec![Sums::default(); all * width] }))
    }

    /// Adds what the observations of a site are in one evaluation.
    fn add(
        &self,
        table: &SiteTable,
        reduced: &Reduced,
        evaluation: usize,
        own: &mut OfSite,
        values: &[f64],
    ) -> Result<()> {
        let weights = self.weights_at(table, reduced, evaluation, own.block)?;
        let rows = match own.block {
            Some(block) => table.rows_evaluated(block, &self.layout.minibatch)?,
            None => None,
        };
        for (index, (weight, logs)) in weights.iter().zip(values.chunks(own.width.max(1))).enumerate() {
            // A row that is repeated for other nodes, or a node whose weight is below rounding, adds nothing.
            if weight.log == f64::NEG_INFINITY {
                continue;
            }
            let row = rows.as_ref().map_or(index, |rows| rows[index]);
            let sums = &mut own.sums[row * own.width..][..logs.len()];
            sums.iter_mut().zip(logs).for_each(|(sums, log)| sums.add(*weight, *log));
        }
        Ok(())
    }

    /// The level whose latents the rows of a block have, or stand in; that of the silo's own latents where there is none.
    fn level_around(&self, table: &SiteTable, block: usize) -> Option<usize> {
        let around = || match &table.blocks()[block].parent {
            Some(parent) => self.level_around(table, parent.block),
            None => self.tree.silo(),
        };
        self.layout.level(block).or_else(around)
    }

    /// The weight of every row of a block in an evaluation: that of the nearest level around it.
    fn weights_at(
        &self,
        table: &SiteTable,
        reduced: &Reduced,
        evaluation: usize,
        block: Option<usize>,
    ) -> Result<Vec<Weight>> {
        if let Some(at) = block.map_or_else(|| self.tree.silo(), |block| self.layout.level(block)) {
            let own = &self.tree.levels[at];
            let weight = |slot: &Slot| {
                let weight = if slot.counts { reduced.weight(at, slot.place(own)) } else { 0.0 };
                Weight { log: weight.ln(), is_edge: is_edge(&own.rule, slot.node()) }
            };
            return Ok(self.layout.slots(at, evaluation).iter().map(weight).collect());
        }
        let log = if evaluation == 0 { 0.0 } else { f64::NEG_INFINITY };
        let once = Weight { log, is_edge: false };
        let Some(block) = block else { return Ok(vec![once]) };
        let own = &table.blocks()[block];
        let rows = table.rows_evaluated(block, &self.layout.minibatch)?.map_or(own.rows, |rows| rows.len());
        if self.level_around(table, block).is_none() {
            return Ok(vec![once; rows]);
        }
        let outer = self.weights_at(table, reduced, evaluation, own.parent.as_ref().map(|parent| parent.block))?;
        let places = table.outer_places(block, &self.layout.minibatch)?.unwrap_or_else(|| vec![0; rows]);
        Ok(places.into_iter().map(|place| outer[place]).collect())
    }
}

impl Observation {
    /// One at a place, left out and seen.
    pub(crate) fn at(place: [usize; 2], [left_out, seen]: [f64; 2], is_reached: bool) -> Self {
        Self { place, left_out, seen, is_reached }
    }

    /// The place of its site in the table.
    pub(super) fn site(&self) -> usize {
        self.place[0]
    }

    /// The same of another place among the numbers of its site.
    pub(super) fn moved_to(&self, number: usize) -> Self {
        Self { place: [self.place[0], number], ..*self }
    }

    /// Puts the observations of all parts into the order of sites, rows and numbers in them.
    pub(super) fn sort(all: &mut [Self]) {
        all.sort_by_key(|own| own.place);
    }
}

/// Whether a node is an outermost one along an axis.
fn is_edge(rule: &Rule, node: usize) -> bool {
    rule.kind == Kind::Product && rule.point(node).iter().any(|t| t.abs() >= rule.reach)
}

/// A row of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    block: usize,
    place: usize,
}

/// The outermost row with latents of every observation that is the only one there.
fn alone(table: &SiteTable, sites: &[OfSite]) -> BTreeMap<[usize; 2], Row> {
    let mut by_row: BTreeMap<Row, Vec<[usize; 2]>> = BTreeMap::new();
    for own in sites {
        let Some(block) = own.block else { continue };
        for number in (0..own.sums.len()).filter(|number| !own.sums[*number].seen.is_empty()) {
            if let Some(row) = outermost(table, Row { block, place: number / own.width.max(1) }) {
                by_row.entry(row).or_default().push([own.site, number]);
            }
        }
    }
    by_row.into_iter().filter(|(_, own)| own.len() == 1).map(|(row, own)| (own[0], row)).collect()
}

/// The outermost row with latents among a row and those that it stands in.
fn outermost(table: &SiteTable, row: Row) -> Option<Row> {
    let own = &table.blocks()[row.block];
    let around = own.parent.as_ref().and_then(|parent| {
        let place = parent.rows.get(row.place).copied()?;
        outermost(table, Row { block: parent.block, place })
    });
    around.or((own.width > 0).then_some(row))
}

#[cfg(test)]
mod tests {
    use partita_core::burn::module::Module;
    use partita_core::burn::tensor::Tensor;
    use partita_core::special::HALF_LOG_TWO_PI;
    use partita_core::{AnyData, AnyModel, Device, Groups, Model, Normal, Result, Scope, SiteTable};

    use super::super::{Integrand, Observation, RowIntegral};

    /// The standard deviations of patients, of visits, and of a patient's weight.
    const SDS: [f64; 3] = [1.0, 0.5, 1.5];

    /// Whether visits have latents of their own.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Visits {
        Vary,
        Alike,
    }

    /// Patients with a weight each, and visits of patients.
    #[derive(Module, Debug)]
    struct Patients {
        #[module(skip)]
        visits: Visits,
        /// The standard deviation of a measurement.
        #[module(skip)]
        noise: f64,
    }

    #[derive(Debug, Clone)]
    struct Data {
        visits: Groups,
        /// As many measurements each visit.
        y: Tensor<2>,
        /// One a patient; none where there are no weights.
        weights: Option<Tensor<1>>,
    }

    impl Model for Patients {
        type Globals = Tensor<1>;
        type Data = Data;

        fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
            scope.sample("mean", Normal::new(0.0, 1.0))
        }

        fn local(&self, scope: &mut Scope<'_>, mean: &Tensor<1>, data: &Data) -> Result<()> {
            scope.plate("patient", data.visits.groups(), |scope, rows| {
                let patient = scope.sample("patient", Normal::new(mean.clone(), SDS[0]))?;
                if let Some(weights) = &data.weights {
                    scope.observe("weight", Normal::new(patient.clone(), SDS[2]), rows.take(weights)?)?;
                }
                scope.plate("visit", &data.visits, |scope, rows| {
                    let around = rows.expand(&patient)?;
                    let level = match self.visits {
                        Visits::Vary => scope.sample("visit", Normal::new(around, SDS[1]))?,
                        Visits::Alike => around,
                    };
                    let level = level.reshape([rows.len(), 1]).expand([rows.len(), data.y.dims()[1]]);
                    scope.observe("y", Normal::new(level, self.noise), rows.take(&data.y)?)
                })
            })
        }
    }

    /// Whether patients have been weighed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Weights {
        Known,
        Unknown,
    }

    /// Numbers without a pattern.
    fn number(place: usize) -> f64 {
        (place as f64 * 1.7).sin() * 2.0
    }

    impl Data {
        fn new(sizes: &[usize], each: usize, weights: Weights, device: &Device) -> Self {
            let visits = Groups::of_sizes(sizes).unwrap();
            let count: usize = sizes.iter().sum();
            let y = device.tensor((0..each * count).map(number).collect(), [count, each]);
            let weights = (weights == Weights::Known)
                .then(|| device.tensor((0..sizes.len()).map(|own| number(own + 77)).collect(), [sizes.len()]));
            Self { visits, y, weights }
        }
    }

    /// The inverse of a symmetric matrix, by Gauss and Jordan.
    fn inverse(mut a: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        let n = a.len();
        let mut inverse: Vec<Vec<f64>> =
            (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
        for k in 0..n {
            let pivot = a[k][k];
            a[k].iter_mut().chain(&mut inverse[k]).for_each(|own| *own /= pivot);
            let (row, inverse_row) = (a[k].clone(), inverse[k].clone());
            for i in (0..n).filter(|i| *i != k) {
                let factor = a[i][k];
                a[i].iter_mut().zip(&row).for_each(|(own, other)| *own -= factor * other);
                inverse[i].iter_mut().zip(&inverse_row).for_each(|(own, other)| *own -= factor * other);
            }
        }
        inverse
    }

    fn log_normal(x: f64, mean: f64, variance: f64) -> f64 {
        -0.5 * (x - mean).powi(2) / variance - 0.5 * variance.ln() - HALF_LOG_TWO_PI
    }

    /// What each observation is, left out and seen, of a patient whose observations these are: number, visit, deviation.
    fn exact(mean: f64, visits: Visits, all: &[(f64, Option<usize>, f64)]) -> Vec<[f64; 2]> {
        let covariance = |i: usize, j: usize| {
            let same_visit = visits == Visits::Vary && all[i].1.is_some() && all[i].1 == all[j].1;
            let own = if i == j { all[i].2.powi(2) } else { 0.0 };
            SDS[0].powi(2) + if same_visit { SDS[1].powi(2) } else { 0.0 } + own
        };
        let matrix = (0..all.len()).map(|i| (0..all.len()).map(|j| covariance(i, j)).collect()).collect();
        let precision = inverse(matrix);
        let one = |t: usize| {
            let (y, noise, own) = (all[t].0, all[t].2.powi(2), precision[t][t]);
            let pull: f64 = precision[t].iter().zip(all).map(|(p, other)| p * (other.0 - mean)).sum();
            let left_out = log_normal(y, y - pull / own, 1.0 / own);
            [left_out, log_normal(y, y - noise * pull, 2.0 * noise - noise * noise * own)]
        };
        (0..all.len()).map(one).collect()
    }

    /// What is found in the order of sites, rows and numbers, with what is exact of weights and of visits.
    fn compared(model: &Patients, sizes: &[usize], each: usize, weights: Weights) -> (Vec<Observation>, Vec<[f64; 2]>) {
        let (device, mean) = (Device::flex(), 0.4);
        let data = Data::new(sizes, each, weights, &device);
        let table = SiteTable::of(model, &device, &data).unwrap();
        let (any, data) = (AnyModel::new(model), AnyData::new(&data));
        let integrand = Integrand { model: &any, data: &data, device: &device, table: &table };
        let integral = RowIntegral::new(&table).unwrap();
        let found = integral.observations(&integrand, &[mean], &mut integral.start()).unwrap();
        let (mut of_weights, mut of_visits, mut visit) = (Vec::new(), Vec::new(), 0);
        for (patient, size) in sizes.iter().enumerate() {
            let weight = (weights == Weights::Known).then_some((number(patient + 77), None, SDS[2]));
            let known = usize::from(weight.is_some());
            let own =
                (visit..visit + size).flat_map(|visit| (each * visit..each * (visit + 1)).map(move |at| (at, visit)));
            let own = own.map(|(at, visit)| (number(at), Some(visit), model.noise));
            let mut exact = exact(mean, model.visits, &weight.into_iter().chain(own).collect::<Vec<_>>());
            of_weights.extend(exact.drain(..known));
            of_visits.extend(exact);
            visit += size;
        }
        (found, [of_weights, of_visits].concat())
    }

    #[test]
    fn observations_of_normal_rows_have_their_closed_form_at_every_level_and_in_parts() {
        let (many, alike) = (vec![1; 9_000], Patients { visits: Visits::Alike, noise: 0.8 });
        let vary = Patients { visits: Visits::Vary, ..alike.clone() };
        for (model, sizes, each, weights) in [
            (&alike, &[1, 3, 2][..], 2, Weights::Known),
            (&alike, &[2, 1, 4][..], 2, Weights::Unknown),
            // The only observation of a row, without which it is as wide as its prior.
            (&alike, &[1, 3][..], 1, Weights::Unknown),
            (&vary, &[1, 3, 2][..], 2, Weights::Known),
            // More rows than are evaluated together.
            (&alike, &many, 2, Weights::Known),
        ] {
            let (found, exact) = compared(model, sizes, each, weights);
            assert!(found.iter().all(|own| own.is_reached) && found.len() == exact.len(), "{}", found.len());
            for (place, (own, exact)) in found.iter().zip(&exact).enumerate() {
                let apart = (own.left_out - exact[0]).abs().max((own.seen - exact[1]).abs());
                // A row without an observation is at most 1.3 times as wide, and up to 1.7 deviations away: 15 points leave
                // 2e-6 of that.
                assert!(apart < 3e-6, "{model:?}, {} patients, {place}: {own:?} {exact:?}", sizes.len());
            }
        }
    }

    #[test]
    fn an_observation_without_which_a_row_would_be_far_wider_is_not_reached() {
        // Measured to 0.05, or weighed to 1.5: without the measurement the patient is 17 times as wide.
        let (found, exact) = compared(&Patients { visits: Visits::Alike, noise: 0.05 }, &[1], 1, Weights::Known);
        let [weight, measured] = found.as_slice() else { panic!("{found:?}") };
        assert!(weight.is_reached && (weight.left_out - exact[0][0]).abs() < 3e-6, "{found:?} {exact:?}");
        assert!(!measured.is_reached && (measured.left_out - exact[1][0]).abs() > 0.1, "{found:?} {exact:?}");
    }
}
