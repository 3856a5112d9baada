//! Integrates rows each by itself: what a row gives depends on no other, whatever that one needs.

use std::borrow::Cow;

use partita_core::{Device, Minibatch, SiteTable};

use super::alike::Alike;
use super::centres::{LevelCentres, PartCentres};
use super::layout::Passes;
use super::part::Part;
use super::tree::{Ladder, Level, Tree};
use super::{Integrand, RowIntegral};
use crate::engine::apart::in_halves;
use crate::engine::error::Result;
use crate::engine::terms::particles::{Worker, spread};

/// Times that the rule of a row moves from its start: fixed, so that no row decides on it.
const MOVES: usize = 8;

/// Rows whose rules move together: a number of their own, so that threads do not decide on it.
const ROWS: usize = 64;

impl RowIntegral {
    /// The log marginal likelihood of each row of the block `outermost`, the only one that stands in no other, with
    /// every row's rule moved eight times from its start: what one row gives does not depend on any other. A row that
    /// has none there has NaN.
    pub(crate) fn rows_alone(&self, integrand: &Integrand<'_>, outermost: usize, globals: &[f64]) -> Result<Vec<f64>> {
        let mut all = vec![f64::NAN; integrand.table.blocks()[outermost].rows];
        for part in &self.parts {
            let rows = part.rows_of(outermost, integrand.table)?;
            in_halves(&rows, &mut |some| {
                let half = match some.len() == rows.len() {
                    true => Cow::Borrowed(part),
                    false => Cow::Owned(part.of_rows(outermost, some, integrand.table, &self.alike)?),
                };
                for (_, row, log) in half.rows_alone(integrand, globals)? {
                    all[row] = log;
                }
                Ok(())
            })?;
        }
        Ok(all)
    }
}

impl Part {
    /// The log marginal likelihood of each row that stands in no other, with its block and its place there.
    fn rows_alone(&self, integrand: &Integrand<'_>, globals: &[f64]) -> Result<Vec<(usize, usize, f64)>> {
        let (density, centres) = (self.density(integrand), self.moved(integrand, globals)?);
        let levels = density.level_values(globals, &self.layout.passes(&self.tree, &centres), integrand.data)?;
        self.by_place(integrand, &self.reduce(&centres, &levels)?)
    }

    /// Where rules stand after their moves.
    fn moved(&self, integrand: &Integrand<'_>, globals: &[f64]) -> Result<PartCentres> {
        let (density, mut centres) = (self.density(integrand), PartCentres::start(&self.tree));
        for _ in 0..MOVES {
            let levels = density.level_values(globals, &self.layout.passes(&self.tree, &centres), integrand.data)?;
            self.reduce(&centres, &levels)?.move_centres(&self.tree, &mut centres);
        }
        Ok(centres)
    }

    /// The gradient by the globals with rules where these centres are.
    fn gradient_at(&self, integrand: &Integrand<'_>, globals: &[f64], centres: &PartCentres) -> Result<Vec<f64>> {
        let density = self.density(integrand);
        let levels = density.levels(globals, &self.layout.passes(&self.tree, centres), integrand.data)?;
        let reduced = self.reduce(centres, &levels)?;
        Ok(self.weighted(levels, reduced)?.globals)
    }
}

/// Rules over single rows of the only outermost block, by products of as many points as are enough whatever the rows are.
#[derive(Debug)]
pub(crate) struct RowsAlone {
    outermost: usize,
    passes: Passes,
    alike: Alike,
}

impl RowsAlone {
    /// Those over the rows of a silo's block `outermost`; `None` where rows have more latents than products of points serve, stand
    /// in levels of too many combinations, or have nothing to integrate.
    ///
    /// # Errors
    /// As for [`RowIntegral::new`]; what the layout of rows refuses.
    pub(crate) fn of(integrand: &Integrand<'_>, outermost: usize) -> Result<Option<Self>> {
        let table = integrand.table;
        let whole = RowIntegral::new(table)?;
        if whole.is_empty() || whole.is_nested() || RowIntegral::drawn(table).is_some() {
            return Ok(None);
        }
        let mut own = Self { outermost, passes: Passes::Several, alike: Alike::none(table) };
        let first: Vec<usize> = (0..table.blocks()[outermost].rows.min(ROWS)).collect();
        let mut part = own.part(&first, table)?;
        part.adapt(integrand, &table.start())?;
        own.passes = part.passes;
        Ok(Some(own))
    }

    /// The rules over these rows.
    fn part(&self, rows: &[usize], table: &SiteTable) -> Result<Part> {
        let plate = table.blocks()[self.outermost].plate.as_deref().unwrap_or_default();
        let mut part = Part::new(table, vec![Minibatch::new(plate, rows.to_vec())], self.passes, &self.alike)?;
        part.set_by_width(Ladder::enough, table)?;
        Ok(part)
    }

    /// The gradient by the globals of the log marginal likelihood of each of these rows; NaN for a row that has none there.
    ///
    /// Rules of some rows move together, and every row has a tape of its own where its rule stands then.
    ///
    /// # Errors
    /// What the model reports and no row decides.
    pub(crate) fn gradients(
        &self,
        workers: &mut [Worker],
        (device, table): (&Device, &SiteTable),
        rows: &[usize],
        globals: &[f64],
    ) -> Result<Vec<Vec<f64>>> {
        let together: Vec<&[usize]> = rows.chunks(ROWS).collect();
        let found = spread(workers, together.len(), |Worker { model, data }: &Worker, at| {
            self.gradients_of(&Integrand { model, data, device, table }, together[at], globals)
        })?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The same of rows whose rules move together.
    fn gradients_of(&self, integrand: &Integrand<'_>, rows: &[usize], globals: &[f64]) -> Result<Vec<Vec<f64>>> {
        let mut all = vec![vec![f64::NAN; globals.len()]; rows.len()];
        let places: Vec<usize> = (0..rows.len()).collect();
        in_halves(&places, &mut |half| {
            let own: Vec<usize> = half.iter().map(|place| rows[*place]).collect();
            let part = self.part(&own, integrand.table)?;
            let centres = part.moved(integrand, globals)?;
            for (at, place) in half.iter().enumerate() {
                let alone = self.part(&own[at..=at], integrand.table)?;
                all[*place] = alone.gradient_at(integrand, globals, &of_row(&part.tree, &centres, at))?;
            }
            Ok(())
        })?;
        Ok(all)
    }
}

/// The centres of the `row`-th row that stands in no other, and of the rows in it, for a tree of that row alone.
fn of_row(tree: &Tree, centres: &PartCentres, row: usize) -> PartCentres {
    let mut inside: Vec<Vec<bool>> = Vec::with_capacity(tree.levels.len());
    let mut levels = Vec::with_capacity(tree.levels.len());
    for (level, own) in tree.levels.iter().zip(&centres.levels) {
        let is_in: Vec<bool> = match &level.within {
            None => (0..level.rows).map(|at| at == row).collect(),
            Some((around, outer)) => outer.iter().map(|at| inside[*around][*at]).collect(),
        };
        // The tree has no level of which the row has none.
        if is_in.contains(&true) {
            levels.push(of_rows(level, own, &is_in));
        }
        inside.push(is_in);
    }
    PartCentres { levels, is_settled: centres.is_settled }
}

/// Those of some rows of a level, for each path.
fn of_rows(level: &Level, centres: &LevelCentres, is_in: &[bool]) -> LevelCentres {
    let chosen = |each: usize, values: &[f64]| -> Vec<f64> {
        let rows = values.chunks_exact(each).zip(is_in.iter().cycle());
        rows.filter(|(_, is_in)| **is_in).flat_map(|(row, _)| row).copied().collect()
    };
    let LevelCentres { centre, factor } = centres;
    LevelCentres { centre: chosen(level.width, centre), factor: chosen(level.width * level.width, factor) }
}

#[cfg(test)]
mod tests {
    use partita_core::{AnyData, AnyModel, Groups};

    use super::*;
    use crate::engine::effects::Effects;
    use crate::engine::rows::one_outermost;

    struct Silo {
        worker: Worker,
        device: Device,
        table: SiteTable,
    }

    /// So many numbers of a silo, each a row of so many latents or two or three of them in one.
    fn silo(count: usize, latents: usize, is_nested: bool) -> Silo {
        let device = Device::flex();
        let y: Vec<f64> = (0..count).map(|row| f64::from(u8::from(row % 3 == 0))).collect();
        let nested = is_nested.then(|| Groups::new((0..count).map(|row| row * 3 % 70).collect(), 70).unwrap());
        let (model, data) = (Effects { latents, nested }, device.tensor(y, [count]));
        let table = SiteTable::of(&model, &device, &data).unwrap();
        Silo { worker: Worker { model: AnyModel::new(&model), data: AnyData::new(&data) }, device, table }
    }

    #[test]
    fn gradients_of_rows_add_up_to_that_of_few_rounds_and_are_slopes_of_the_rows_own_log_marginals() {
        for is_nested in [false, true] {
            let Silo { worker, device, table } = &silo(150, 1, is_nested);
            let Worker { model, data } = worker;
            let integrand = Integrand { model, data, device, table };
            let outermost = one_outermost(table).unwrap();
            let all: Vec<usize> = (0..table.blocks()[outermost].rows).collect();
            assert_eq!(all.len(), if is_nested { 70 } else { 150 });
            let (alone, globals) = (RowsAlone::of(&integrand, outermost).unwrap().unwrap(), [0.4, -0.3]);
            let gradients = |threads: usize, rows: &[usize]| {
                alone.gradients(&mut vec![worker.clone(); threads], (device, table), rows, &globals).unwrap()
            };
            let each = gradients(1, &all);
            let mut integral = RowIntegral::new(table).unwrap();
            integral.set_enough_points(table).unwrap();
            let whole = integral.gradient(&integrand, &globals, &mut integral.start()).unwrap().globals;
            for (index, expected) in whole.iter().enumerate() {
                let found: f64 = each.iter().map(|row| row[index]).sum();
                assert!((found - expected).abs() < 1e-8 * expected.abs().max(1.0), "{is_nested}: {found} {expected}");
            }
            for index in 0..globals.len() {
                let step = 1e-4;
                let logs = |by: f64| {
                    let mut at = globals;
                    at[index] += by;
                    integral.rows_alone(&integrand, outermost, &at).unwrap()
                };
                for ((row, above), below) in each.iter().zip(logs(step)).zip(logs(-step)) {
                    let slope = (above - below) / (2.0 * step);
                    assert!((row[index] - slope).abs() < 1e-6, "{is_nested}: {} {slope}", row[index]);
                }
            }
            for threads in 2..=3 {
                assert_eq!(gradients(threads, &all), each, "{threads} threads");
            }
            // A row has the same vector in any sample, to the rounding of rules that move beside others.
            for (found, row) in gradients(1, &[44, 2]).iter().zip([44, 2]) {
                assert!(found.iter().zip(&each[row]).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {:?}", each[row]);
            }
        }
    }

    #[test]
    fn rows_of_at_most_three_latents_are_integrated_each_by_itself() {
        for (latents, is_integrated) in [(1, true), (3, true), (4, false)] {
            let Silo { worker: Worker { model, data }, device, table } = &silo(12, latents, false);
            let integrand = Integrand { model, data, device, table };
            let found = RowsAlone::of(&integrand, one_outermost(table).unwrap()).unwrap();
            assert_eq!(found.is_some(), is_integrated, "{latents}");
        }
    }
}
