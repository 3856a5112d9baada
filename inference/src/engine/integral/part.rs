//! Integrates some of a silo's rows: those that are evaluated together, and stay in the cache while all nodes are.

use partita_core::{AnyModel, Levels, LogDensity, Minibatch, SiteTable, ValueAndGradient};

use super::alike::{Alike, PLACES, away, is_near};
use super::centres::PartCentres;
use super::layout::{Layout, Passes};
use super::reduce::{Grid, Reduced};
use super::tree::{Ladder, Level, Tree};
use super::{Conditionals, Integrand, Until};
use crate::engine::error::{Result, is_outside};

/// The part of a tolerance within which rules of fewer points than usual are to agree with larger ones: what is compared at
/// few draws is to hold at others.
const FEW: f64 = 0.1;
/// Times that rules are moved before they are taken as they are.
pub(super) const MOVES: usize = 60;

/// The rules over some rows of a silo.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) tree: Tree,
    pub(super) layout: Layout,
    pub(super) passes: Passes,
    /// The rows of outermost plates; empty for all.
    pub(super) rows: Vec<Minibatch>,
    /// Whether a product may have fewer points than rows need: more have too many combinations, or there are no more.
    is_held_back: bool,
}

impl Part {
    /// Rules of the fewest points for the rows of a table that `rows` name, or all, which count as `alike` says.
    pub(super) fn new(table: &SiteTable, rows: Vec<Minibatch>, passes: Passes, alike: &Alike) -> Result<Self> {
        let tree = Tree::of(table, &rows, alike)?;
        let layout = Layout::of(table, &tree, passes, &rows)?;
        Ok(Self { tree, layout, passes, rows, is_held_back: false })
    }

    /// The rows of an outermost block.
    pub(super) fn rows_of(&self, block: usize, table: &SiteTable) -> Result<Vec<usize>> {
        let all = || (0..table.blocks()[block].rows).collect();
        Ok(table.rows_evaluated(block, &self.rows)?.unwrap_or_else(all))
    }

    /// The same rules over these of the rows of the only outermost block.
    pub(super) fn of_rows(&self, block: usize, rows: &[usize], table: &SiteTable, alike: &Alike) -> Result<Self> {
        let plate = table.blocks()[block].plate.as_deref().unwrap_or_default();
        let mut own = Self::new(table, vec![Minibatch::new(plate, rows.to_vec())], self.passes, alike)?;
        // A level that none of these rows has is not in their tree.
        let known = |level: &Level| self.tree.levels.iter().find(|known| known.block == level.block);
        let points: Vec<usize> = own.tree.levels.iter().map(|level| known(level).unwrap_or(level).each).collect();
        own.set_points(&points, table)?;
        Ok(own)
    }

    pub(super) fn lay_out(&mut self, table: &SiteTable) -> Result<()> {
        self.layout = Layout::of(table, &self.tree, self.passes, &self.rows)?;
        Ok(())
    }

    /// Evaluates one pass at a time from here on if the model refuses several, or gives a row another log density among them: it
    /// may make shapes or numbers of the places or the number of rows evaluated.
    ///
    /// # Errors
    /// What the layout refuses; what the model refuses of one pass shows at the first integral.
    pub(super) fn adapt(&mut self, integrand: &Integrand<'_>, globals: &[f64]) -> Result<()> {
        if self.passes == Passes::One || self.layout.repeats == 1 {
            return Ok(());
        }
        let alone = Layout::of(integrand.table, &self.tree, Passes::One, &self.rows)?;
        let mut found = (0..PLACES).map(|place| self.repeats_hold(&alone, integrand, &away(globals, place)));
        if found.find_map(|holds| holds).unwrap_or(true) {
            return Ok(());
        }
        self.take_one_pass(integrand.table)
    }

    /// Evaluates one pass at a time from here on.
    pub(super) fn take_one_pass(&mut self, table: &SiteTable) -> Result<()> {
        self.passes = Passes::One;
        self.lay_out(table)
    }

    /// Whether rows have the log densities of evaluations of one pass, `alone`, where several are evaluated; `None` where the
    /// density is no number.
    fn repeats_hold(&self, alone: &Layout, integrand: &Integrand<'_>, globals: &[f64]) -> Option<bool> {
        let (centres, last) = (PartCentres::start(&self.tree), self.layout.repeats - 1);
        let read = |layout: &Layout, evaluations: &[usize]| {
            let passes = layout.passes(&self.tree, &centres);
            let chosen: Vec<_> = evaluations.iter().map(|own| passes[*own].clone()).collect();
            let density = integrand.density(&layout.minibatch);
            let found = density.level_values(globals, &chosen, integrand.data)?;
            let mut values = Vec::new();
            for (at, level) in self.tree.levels.iter().enumerate() {
                let mut own = vec![None; level.paths * level.rows * level.rule.len()];
                for (index, evaluation) in evaluations.iter().enumerate() {
                    let rows = found.rows(index, (!level.is_silo).then_some(level.block));
                    let slots = layout.slots(at, *evaluation).iter().zip(rows);
                    slots.filter(|(slot, _)| slot.counts).for_each(|(slot, row)| own[slot.place(level)] = Some(*row));
                }
                values.push(own);
            }
            Ok(values)
        };
        match (read(&self.layout, &[0]), read(alone, &[0, last])) {
            (Ok(several), Ok(one)) => {
                let pairs = several.iter().flatten().zip(one.iter().flatten());
                Some(pairs.filter_map(|(a, b)| a.zip(*b)).all(|(a, b)| is_near(a, b)))
            }
            (Err(error), _) | (_, Err(error)) if is_outside(&error) => None,
            _ => Some(false),
        }
    }

    /// Takes the fewest points again.
    pub(super) fn reset(&mut self, table: &SiteTable) -> Result<()> {
        self.is_held_back = false;
        if self.tree.reset()? { self.lay_out(table) } else { Ok(()) }
    }

    /// Takes the points of every level.
    pub(super) fn set_points(&mut self, points: &[usize], table: &SiteTable) -> Result<()> {
        points.iter().enumerate().try_for_each(|(level, each)| self.tree.set(level, *each))?;
        self.lay_out(table)
    }

    /// Takes the points that levels of a width have.
    pub(super) fn set_by_width(&mut self, points: fn(Ladder, usize) -> usize, table: &SiteTable) -> Result<()> {
        let points: Vec<usize> = self.tree.levels.iter().map(|level| points(self.tree.ladder, level.width)).collect();
        self.set_points(&points, table)
    }

    /// The same rows with the usual points at least; `None` where no level has fewer.
    pub(super) fn filled(&self, table: &SiteTable) -> Result<Option<Self>> {
        if !(0..self.tree.levels.len()).any(|level| self.tree.is_few(level)) {
            return Ok(None);
        }
        let mut other = self.clone();
        other.tree.fill()?;
        other.lay_out(table)?;
        Ok(Some(other))
    }

    /// Whether other rules of the same cost could say something else.
    pub(super) fn is_noisy(&self) -> bool {
        self.is_held_back || self.tree.drawn().next().is_some()
    }

    /// The same rows with other draws where rules are drawn, and a point less where products are held back.
    pub(super) fn varied(&self, table: &SiteTable) -> Result<Self> {
        let mut other = self.clone();
        other.tree.vary(self.is_held_back)?;
        other.lay_out(table)?;
        Ok(other)
    }

    /// Gives every rule that is drawn more draws; whether any was raised.
    pub(super) fn draw_more(&mut self, table: &SiteTable) -> Result<bool> {
        let raised: Vec<_> = self.tree.drawn().filter_map(|level| Some((level, self.next(level)?))).collect();
        let mut tree = self.tree.clone();
        raised.iter().try_for_each(|(level, next)| tree.set(*level, *next))?;
        if raised.is_empty() || tree.is_too_large() {
            return Ok(false);
        }
        self.tree = tree;
        self.lay_out(table)?;
        Ok(true)
    }

    /// The log marginal likelihood of these rows at these globals.
    pub(super) fn value(&self, integrand: &Integrand<'_>, globals: &[f64], centres: &mut PartCentres) -> Result<f64> {
        Ok(self.settle(integrand, globals, centres)?.value)
    }

    /// The same row by row of those that stand in no other, each with its block and its place there.
    pub(super) fn rows(
        &self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut PartCentres,
    ) -> Result<Vec<(usize, usize, f64)>> {
        let reduced = self.settle(integrand, globals, centres)?;
        self.by_place(integrand, &reduced)
    }

    /// What each row that stands in no other has, with its block and its place there.
    pub(super) fn by_place(&self, integrand: &Integrand<'_>, reduced: &Reduced) -> Result<Vec<(usize, usize, f64)>> {
        let mut all = Vec::new();
        for (block, logs) in reduced.by_block(&self.tree) {
            let places = integrand.table.rows_evaluated(block, &self.rows)?;
            let place = |index: usize| places.as_ref().map_or(index, |places| places[index]);
            all.extend(logs.iter().enumerate().map(|(index, log)| (block, place(index), *log)));
        }
        Ok(all)
    }

    /// The same with its gradient by globals and θ.
    pub(super) fn gradient(
        &self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut PartCentres,
    ) -> Result<ValueAndGradient> {
        let density = self.density(integrand);
        if !centres.is_settled {
            self.settle(integrand, globals, centres)?;
        }
        for attempt in 0.. {
            let levels = density.levels(globals, &self.layout.passes(&self.tree, centres), integrand.data)?;
            let mut reduced = self.reduce(centres, &levels)?;
            let still = reduced.move_centres(&self.tree, centres) <= 1.0;
            if !still && attempt == 0 {
                drop(levels);
                self.settle(integrand, globals, centres)?;
                continue;
            }
            return self.weighted(levels, reduced);
        }
        unreachable!("invariant: the second attempt returns")
    }

    /// What was found, with its gradient where rules stand: that of the log densities, by the weights of nodes.
    pub(super) fn weighted(&self, levels: Levels<'_, AnyModel>, mut reduced: Reduced) -> Result<ValueAndGradient> {
        reduced.join(&self.tree);
        let weights = |pass: usize, block: Option<usize>| self.layout.weights(&self.tree, &reduced, pass, block);
        let found = levels.gradient(weights)?;
        Ok(ValueAndGradient { value: reduced.value, ..found })
    }

    /// Means and variances of every row's latents given these globals, one a level, of the rows of the table.
    pub(super) fn conditionals(
        &self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut PartCentres,
    ) -> Result<Vec<Conditionals>> {
        self.settle(integrand, globals, centres)?;
        let density = self.density(integrand);
        let levels = density.level_values(globals, &self.layout.passes(&self.tree, centres), integrand.data)?;
        let reduced = self.reduce(centres, &levels)?;
        let mut found = reduced.conditionals(&self.tree, centres);
        for own in &mut found {
            own.rows = integrand.table.rows_evaluated(own.block, &self.rows)?;
        }
        Ok(found)
    }

    /// Raises the numbers of points of products until a rule and the next larger one agree on this draw; whether any was
    /// raised.
    ///
    /// # Errors
    /// What the model reports at a node.
    pub(super) fn raise(
        &mut self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut PartCentres,
        until: Until,
    ) -> Result<bool> {
        let mut raised = self.raise_each(integrand, globals, centres, until)?;
        let mut again = raised;
        while again && self.tree.ladder != Ladder::Usual {
            again = self.raise_each(integrand, globals, centres, until)?;
            raised |= again;
        }
        Ok(raised)
    }

    /// The same level by level; where levels share the combinations that there may be, each by one step at most.
    fn raise_each(
        &mut self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut PartCentres,
        until: Until,
    ) -> Result<bool> {
        let mut raised = false;
        let drawn: Vec<usize> = self.tree.drawn().collect();
        for level in (0..self.tree.levels.len()).filter(|level| !drawn.contains(level)) {
            let mut found = self.settle(integrand, globals, centres)?;
            while let Some(next) = self.next(level).filter(|next| *next <= until.most) {
                let mut larger = self.clone();
                larger.tree.set(level, next)?;
                if larger.tree.is_too_large() {
                    self.is_held_back = true;
                    break;
                }
                if larger.tree.has_more_than(until.nodes, level) {
                    break;
                }
                larger.lay_out(integrand.table)?;
                let mut fitted = centres.clone().fitted_to(&larger.tree);
                let finer = larger.settle(integrand, globals, &mut fitted)?;
                let apart = found.apart(&finer, &self.tree);
                let part = if self.tree.is_few(level) { FEW } else { 1.0 };
                if apart <= part * until.tolerance {
                    break;
                }
                (*self, *centres, found, raised) = (larger, fitted, finer, true);
                // The largest rule of all, and the one before was not enough.
                self.is_held_back |= self.next(level).is_none();
                if self.tree.ladder == Ladder::Nested {
                    break;
                }
            }
        }
        Ok(raised)
    }

    /// The next number of points of a level.
    fn next(&self, level: usize) -> Option<usize> {
        let own = &self.tree.levels[level];
        self.tree.steps(level).iter().copied().find(|each| *each > own.each)
    }

    /// Moves every rule until it stands still; what it gives then.
    pub(super) fn settle(
        &self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut PartCentres,
    ) -> Result<Reduced> {
        let density = self.density(integrand);
        for attempt in 1.. {
            let levels = density.level_values(globals, &self.layout.passes(&self.tree, centres), integrand.data)?;
            let mut reduced = self.reduce(centres, &levels)?;
            let moved = reduced.move_centres(&self.tree, centres);
            if moved <= 1.0 || attempt == MOVES {
                centres.is_settled = true;
                return Ok(reduced);
            }
        }
        unreachable!("invariant: the last attempt returns")
    }

    /// What was read of every evaluation, summed.
    pub(super) fn reduce(&self, centres: &PartCentres, levels: &Levels<'_, AnyModel>) -> Result<Reduced> {
        Reduced::of(&self.tree, centres, Grid::read(&self.tree, &self.layout, levels))
    }

    pub(super) fn density<'a>(&'a self, integrand: &Integrand<'a>) -> LogDensity<'a, AnyModel> {
        integrand.density(&self.layout.minibatch)
    }
}
