//! Integrates the latents of rows out, given the globals: adaptive Gauss–Hermite quadrature at every level of rows.
//!
//! A row's rule stands at the mean and covariance that its own normalised weights gave it last, so that neither modes
//! nor second derivatives are needed. The gradient by the globals is the weighted gradient of the log densities at the
//! nodes (Fisher's identity), with nodes and weights held still: one tape over all nodes.

mod centres;
mod hermite;
mod layout;
mod reduce;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use centres::{Centres, Slopes};

use partita_core::{Device, LogDensity, Model, SiteTable, ValueAndGradient};

use self::layout::{Layout, Passes};
use self::reduce::{Grid, Reduced};
use self::tree::{Tree, ladder};
use crate::engine::error::{Error, Result};

/// A silo's model and data, as an integral reads them.
#[derive(Debug)]
pub(crate) struct Integrand<'a, M: Model> {
    pub(crate) model: &'a M,
    pub(crate) data: &'a M::Data,
    pub(crate) device: &'a Device,
    pub(crate) table: &'a SiteTable,
}

/// The rules over all rows of a silo.
#[derive(Debug, Clone)]
pub(crate) struct RowIntegral {
    tree: Tree,
    layout: Layout,
    passes: Passes,
}

/// The most latents of a row that a product rule serves.
pub(crate) const MOST_LATENTS: usize = 3;
/// The most latents of a silo's own, around which rows are integrated.
pub(crate) const MOST_SILO_LATENTS: usize = 2;

/// Rules have stood still when none moved farther, in its own scale.
const STILL: f64 = 0.3;
/// Times that rules are moved before they are taken as they are.
const MOVES: usize = 60;

/// The latents of the rows of a block, given the globals.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Conditionals {
    pub(crate) block: usize,
    /// Their means, `[rows, width]`.
    pub(crate) means: Vec<f64>,
    /// Their variances, `[rows, width]`.
    pub(crate) variances: Vec<f64>,
}

/// How far numbers of points are raised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    /// The difference from the next larger rule, in nats summed over rows, that is small enough.
    pub(crate) tolerance: f64,
    /// The most points an axis.
    pub(crate) most: usize,
}

impl RowIntegral {
    /// Rules of the fewest points for the rows of a table.
    ///
    /// # Errors
    /// [`Error::Setting`] for rows with more latents than a product rule serves.
    pub(crate) fn new(table: &SiteTable) -> Result<Self> {
        Self::check(table)?;
        let tree = Tree::of(table);
        let passes = Passes::Several;
        let layout = Layout::of(table, &tree, passes)?;
        Ok(Self { tree, layout, passes })
    }

    /// Refuses rows with more latents than a product rule serves.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub(crate) fn check(table: &SiteTable) -> Result<()> {
        for block in table.blocks() {
            let most = if block.plate.is_none() { MOST_SILO_LATENTS } else { MOST_LATENTS };
            if block.width > most {
                let plate = block.plate.as_deref().unwrap_or("no plate");
                return Err(Error::Setting {
                    setting: "algorithm",
                    found: format!("FewRounds with {} latents a row in {plate}", block.width),
                    expected: "at most three latents a row and two of the silo, which quadrature integrates; use Sfvi",
                });
            }
        }
        Ok(())
    }

    /// The combinations of nodes of nested levels, with the fewest points.
    pub(crate) fn combinations(table: &SiteTable) -> usize {
        Tree::of(table).passes
    }

    fn lay_out(&mut self, table: &SiteTable) -> Result<()> {
        self.layout = Layout::of(table, &self.tree, self.passes)?;
        Ok(())
    }

    /// Evaluates one pass at a time from here on if the model refuses several: it may give shapes by the number of its
    /// rows of data in place of `rows.len()`.
    ///
    /// # Errors
    /// What the layout refuses; what the model refuses of one pass shows at the first integral.
    pub(crate) fn adapt<M: Model>(&mut self, integrand: &Integrand<'_, M>, globals: &[f64]) -> Result<()> {
        let passes = self.layout.passes(&self.tree, &self.start());
        let first = passes.get(..1).unwrap_or_default();
        let refused = match self.density(integrand).level_values(globals, first, integrand.data) {
            Err(partita_core::Error::NotFiniteMade { .. } | partita_core::Error::NotFinite { .. }) | Ok(_) => false,
            Err(_) => true,
        };
        if refused && self.passes == Passes::Several {
            self.passes = Passes::One;
            self.lay_out(integrand.table)?;
        }
        Ok(())
    }

    /// Whether there is nothing to integrate.
    pub(crate) fn is_empty(&self) -> bool {
        self.tree.levels.is_empty()
    }

    /// Rules before they have seen data.
    pub(crate) fn start(&self) -> Centres {
        Centres::start(&self.tree)
    }

    /// Rules of other numbers of points as these have them.
    pub(crate) fn fit(&self, centres: Centres) -> Centres {
        centres.fitted_to(&self.tree)
    }

    /// Takes the fewest points again.
    pub(crate) fn reset(&mut self, table: &SiteTable) -> Result<()> {
        self.tree.reset();
        self.lay_out(table)
    }

    /// The points an axis of every level.
    pub(crate) fn points(&self) -> Vec<usize> {
        self.tree.levels.iter().map(|level| level.each).collect()
    }

    /// Takes the points an axis of every level; false if there are not as many levels.
    pub(crate) fn set_points(&mut self, points: &[usize], table: &SiteTable) -> Result<bool> {
        if points.len() != self.tree.levels.len() {
            return Ok(false);
        }
        for (level, each) in points.iter().enumerate() {
            self.tree.set(level, *each);
        }
        self.lay_out(table)?;
        Ok(true)
    }

    /// $\ell_j(z)$: the log marginal likelihood of the silo's rows at these globals.
    pub(crate) fn value<M: Model>(
        &self,
        integrand: &Integrand<'_, M>,
        globals: &[f64],
        centres: &mut Centres,
    ) -> Result<f64> {
        Ok(self.settle(integrand, globals, centres)?.value)
    }

    /// $\ell_j(z)$ with its gradient by globals and θ.
    pub(crate) fn gradient<M: Model>(
        &self,
        integrand: &Integrand<'_, M>,
        globals: &[f64],
        centres: &mut Centres,
    ) -> Result<ValueAndGradient> {
        let density = self.density(integrand);
        if !centres.is_settled {
            self.settle(integrand, globals, centres)?;
        }
        for attempt in 0.. {
            let levels = density.levels(globals, &self.layout.passes(&self.tree, centres), integrand.data)?;
            let mut reduced = Reduced::of(&self.tree, centres, Grid::read(&self.tree, &self.layout, &levels))?;
            let still = reduced.move_centres(&self.tree, centres) <= STILL;
            if !still && attempt == 0 {
                drop(levels);
                self.settle(integrand, globals, centres)?;
                continue;
            }
            reduced.join(&self.tree);
            let weights = |pass: usize, block: Option<usize>| self.layout.weights(&self.tree, &reduced, pass, block);
            let found = levels.gradient(weights)?;
            return Ok(ValueAndGradient { value: reduced.value, ..found });
        }
        unreachable!("invariant: the second attempt returns")
    }

    /// Means and variances of every row's latents given these globals, one a level.
    pub(crate) fn conditionals<M: Model>(
        &self,
        integrand: &Integrand<'_, M>,
        globals: &[f64],
        centres: &mut Centres,
    ) -> Result<Vec<Conditionals>> {
        self.settle(integrand, globals, centres)?;
        let density = self.density(integrand);
        let levels = density.level_values(globals, &self.layout.passes(&self.tree, centres), integrand.data)?;
        let reduced = Reduced::of(&self.tree, centres, Grid::read(&self.tree, &self.layout, &levels))?;
        Ok(reduced.conditionals(&self.tree, centres))
    }

    /// Raises the numbers of points until a rule and the next larger one agree on this draw; whether any was raised.
    ///
    /// # Errors
    /// What the model reports at a node.
    pub(crate) fn raise<M: Model>(
        &mut self,
        integrand: &Integrand<'_, M>,
        globals: &[f64],
        centres: &mut Centres,
        until: Until,
    ) -> Result<bool> {
        let mut raised = false;
        for level in 0..self.tree.levels.len() {
            let mut found = self.settle(integrand, globals, centres)?;
            while let Some(next) = self.next(level).filter(|next| *next <= until.most) {
                let mut larger = self.clone();
                larger.tree.set(level, next);
                larger.lay_out(integrand.table)?;
                let mut fitted = centres.clone().fitted_to(&larger.tree);
                let finer = larger.settle(integrand, globals, &mut fitted)?;
                let apart: f64 = found.rows().zip(finer.rows()).map(|(a, b)| (a - b).abs()).sum();
                if apart <= until.tolerance {
                    break;
                }
                (*self, *centres, found, raised) = (larger, fitted, finer, true);
            }
        }
        Ok(raised)
    }

    /// The next number of points an axis of a level.
    fn next(&self, level: usize) -> Option<usize> {
        let own = &self.tree.levels[level];
        ladder(own.width).iter().copied().find(|each| *each > own.each)
    }

    /// Moves every rule until it stands still; what it gives then.
    fn settle<M: Model>(
        &self,
        integrand: &Integrand<'_, M>,
        globals: &[f64],
        centres: &mut Centres,
    ) -> Result<Reduced> {
        let density = self.density(integrand);
        for attempt in 1.. {
            let levels = density.level_values(globals, &self.layout.passes(&self.tree, centres), integrand.data)?;
            let mut reduced = Reduced::of(&self.tree, centres, Grid::read(&self.tree, &self.layout, &levels))?;
            let moved = reduced.move_centres(&self.tree, centres);
            if moved <= STILL || attempt == MOVES {
                centres.is_settled = true;
                return Ok(reduced);
            }
        }
        unreachable!("invariant: the last attempt returns")
    }

    fn density<'a, M: Model>(&'a self, integrand: &Integrand<'a, M>) -> LogDensity<'a, M> {
        LogDensity::new(integrand.model, integrand.device, integrand.table).minibatch(&self.layout.minibatch)
    }
}
