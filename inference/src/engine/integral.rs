//! Integrates the latents of rows out, given the globals: adaptive Gauss–Hermite quadrature at every level of rows.
//!
//! Draws with importance weights serve where rows have more latents than products of points do.
//!
//! A row's rule stands at the mean and covariance that its own normalised weights gave it last, so that neither modes
//! nor second derivatives are needed. The gradient by the globals is the weighted gradient of the log densities at the
//! nodes (Fisher's identity), with nodes and weights held still: one tape over all nodes.

mod alike;
mod alone;
mod at_draws;
mod carry;
mod centres;
mod hermite;
mod layout;
mod missed;
mod observation;
mod on_device;
mod part;
mod reduce;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use self::alone::RowsAlone;
pub(crate) use self::at_draws::{AtDraws, here_or_anew};
pub(crate) use self::on_device::{DeviceRows, RowsAtDraw};

use partita_core::kernel::add_scaled;
use partita_core::{AnyData, AnyModel, Device, LogDensity, Minibatch, SiteTable, ValueAndGradient};

use self::alike::Alike;
use self::centres::{PartCentres, PartSlopes};
use self::hermite::Kind;
use self::layout::{Passes, TOGETHER};
pub(crate) use self::observation::Observation;
use self::part::Part;
use self::tree::{Ladder, Tree};
use crate::engine::error::{Error, Result};

/// A silo's model and data, as an integral reads them.
#[derive(Debug)]
pub(crate) struct Integrand<'a> {
    pub(crate) model: &'a AnyModel,
    pub(crate) data: &'a AnyData,
    pub(crate) device: &'a Device,
    pub(crate) table: &'a SiteTable,
}

impl<'a> Integrand<'a> {
    /// The log density of the rows that a minibatch names, or all.
    fn density(&self, minibatch: &'a [Minibatch]) -> LogDensity<'a, AnyModel> {
        LogDensity::new(self.model, self.device, self.table).minibatch(minibatch)
    }
}

/// The rules over all rows of a silo, in parts.
#[derive(Debug, Clone)]
pub(crate) struct RowIntegral {
    parts: Vec<Part>,
    alike: Alike,
}

/// Where the rules over all rows stand at one draw of the globals.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Centres {
    parts: Vec<PartCentres>,
}

/// Centres as a linear function of whitened globals, by regression over draws of mean zero and unit covariance.
#[derive(Debug)]
pub(crate) struct Slopes {
    parts: Vec<PartSlopes>,
}

/// The most latents of a row that are integrated.
pub(crate) const MOST_LATENTS: usize = 8;

/// The latents of the rows of a block, given the globals.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Conditionals {
    pub(crate) block: usize,
    /// The rows of the block that they are of; `None` for all in order.
    pub(crate) rows: Option<Vec<usize>>,
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
    /// The most combinations of nodes a row.
    pub(crate) nodes: usize,
    /// Where rules are drawn, the standard deviation in nats, from other draws, of differences between globals that is
    /// small enough.
    pub(crate) noise: f64,
}

impl RowIntegral {
    /// Rules of the fewest points for the rows of a table.
    ///
    /// # Errors
    /// As for [`RowIntegral::check`].
    pub(crate) fn new(table: &SiteTable) -> Result<Self> {
        Self::check(table)?;
        Self::over(table, Alike::none(table))
    }

    /// The same for a silo's rows, of which those that are alike are evaluated once; shapes are what its model takes.
    ///
    /// # Errors
    /// As for [`RowIntegral::check`].
    pub(crate) fn of(integrand: &Integrand<'_>, globals: &[f64]) -> Result<Self> {
        Self::check(integrand.table)?;
        let mut own = Self::over(integrand.table, Alike::find(integrand, globals))?;
        own.parts.iter_mut().try_for_each(|part| part.adapt(integrand, globals))?;
        Ok(own)
    }

    /// The same with every row evaluated, one pass at a time.
    #[cfg(test)]
    fn over_all(table: &SiteTable) -> Result<Self> {
        let mut own = Self::new(table)?;
        own.parts.iter_mut().try_for_each(|part| part.take_one_pass(table))?;
        Ok(own)
    }

    fn over(table: &SiteTable, alike: Alike) -> Result<Self> {
        let rows = rows_of_parts(table, &alike)?;
        let passes = if rows.len() == 1 { Passes::Several } else { Passes::One };
        let parts = rows.into_iter().map(|rows| Part::new(table, rows, passes, &alike));
        Ok(Self { parts: parts.collect::<Result<_>>()?, alike })
    }

    /// Refuses rows with more latents than are integrated.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub(crate) fn check(table: &SiteTable) -> Result<()> {
        for block in table.blocks() {
            if block.width > MOST_LATENTS {
                let plate = block.plate.as_deref().unwrap_or("no plate");
                return Err(Error::Setting {
                    setting: "algorithm",
                    found: format!("FewRounds with {} latents a row in {plate}", block.width),
                    expected: "at most eight latents a row or of the silo, which are integrated; use Sfvi",
                });
            }
        }
        Ok(())
    }

    /// The most latents of a row that are integrated by draws; `None` where products of points serve all.
    pub(crate) fn drawn(table: &SiteTable) -> Option<usize> {
        let widths = table.blocks().iter().map(|block| block.width);
        widths.filter(|width| Kind::of(*width) == Kind::Drawn).max()
    }

    /// Refuses levels in levels of which even the fewest points have more combinations than are visited.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub(crate) fn check_levels(table: &SiteTable) -> Result<()> {
        let tree = Tree::of(table, &[], &Alike::none(table))?;
        if tree.is_too_large() {
            return Err(Error::Setting {
                setting: "algorithm",
                found: format!("FewRounds with nested levels of {} combinations of nodes", tree.passes),
                expected: "at most 2,048, which are visited; use Sfvi",
            });
        }
        Ok(())
    }

    /// The integral over a part of the rows, and how many such parts there are; `None` if it is all of them.
    ///
    /// Its rows lie among all others at equal distances, so that an order of rows does no harm.
    pub(crate) fn sample(&self) -> Option<(Self, usize)> {
        let count = self.parts.len();
        (count > 1).then(|| (Self { parts: self.parts[..1].to_vec(), alike: self.alike.clone() }, count))
    }

    /// Whether there is nothing to integrate.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.tree.levels.is_empty())
    }

    /// Rules before they have seen data.
    pub(crate) fn start(&self) -> Centres {
        Centres { parts: self.parts.iter().map(|part| PartCentres::start(&part.tree)).collect() }
    }

    /// Rules of other numbers of points as these have them.
    pub(crate) fn fit(&self, centres: Centres) -> Centres {
        let parts = centres.parts.into_iter().zip(&self.parts);
        Centres { parts: parts.map(|(own, part)| own.fitted_to(&part.tree)).collect() }
    }

    /// Takes the fewest points again.
    pub(crate) fn reset(&mut self, table: &SiteTable) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.reset(table))
    }

    /// Gives levels in levels the usual points at least; whether any had fewer.
    pub(crate) fn fill(&mut self, table: &SiteTable) -> Result<bool> {
        let mut has_changed = false;
        for part in &mut self.parts {
            if let Some(filled) = part.filled(table)? {
                (*part, has_changed) = (filled, true);
            }
        }
        Ok(has_changed)
    }

    /// The points of every level, an axis of a product or all that are drawn, part by part.
    pub(crate) fn points(&self) -> Vec<usize> {
        self.parts.iter().flat_map(|part| part.tree.levels.iter().map(|level| level.each)).collect()
    }

    /// The most points of the rules over the rows of a block, an axis of a product or all that are drawn; `None` if it has
    /// nothing to integrate.
    pub(crate) fn points_of(&self, block: usize) -> Option<usize> {
        let levels = self.parts.iter().flat_map(|part| &part.tree.levels);
        levels.filter(|level| level.block == block).map(|level| level.each).max()
    }

    /// Whether rules for so many latents are drawn.
    pub(crate) fn draws(latents: usize) -> bool {
        Kind::of(latents) == Kind::Drawn
    }

    /// Whether levels in levels are too many for the usual points.
    pub(crate) fn is_nested(&self) -> bool {
        self.parts.iter().any(|part| part.tree.ladder == Ladder::Nested)
    }

    /// Rows of all plates times the combinations of points at which each is evaluated, of the usual points where levels have
    /// fewer, which may be raised to these; `None` where no level stands in another, as wards stand in a silo with an effect
    /// of its own.
    pub(crate) fn evaluations(&self) -> Option<u64> {
        let is_within = self.parts.iter().flat_map(|part| &part.tree.levels).any(|level| level.within.is_some());
        let of = |Part { tree, layout, .. }: &Part| layout.rows_evaluated() * tree.usual_passes() / tree.passes;
        is_within.then(|| self.parts.iter().map(of).sum::<usize>() as u64)
    }

    /// Takes the points of every level; false if there are not as many levels.
    pub(crate) fn set_points(&mut self, mut points: &[usize], table: &SiteTable) -> Result<bool> {
        for part in &mut self.parts {
            let Some((own, rest)) = points.split_at_checked(part.tree.levels.len()) else { return Ok(false) };
            part.set_points(own, table)?;
            points = rest;
        }
        Ok(points.is_empty())
    }

    /// Takes points that are enough whatever the rows: where the rows' own need may not decide on them.
    ///
    /// # Errors
    /// [`Error::Setting`] for nested levels, of which so many points have too many combinations.
    pub(crate) fn set_enough_points(&mut self, table: &SiteTable) -> Result<()> {
        if self.is_nested() {
            return Err(Error::Setting {
                setting: "privacy",
                found: "levels of rows in levels, which are integrated by as few points as these rows need".into(),
                expected: "fewer levels: what points rows need says something of them",
            });
        }
        self.set_by_width(Ladder::enough, table)
    }

    /// Takes points that lead to where a posterior is, and are too few to say what it is.
    pub(crate) fn set_coarse_points(&mut self, table: &SiteTable) -> Result<()> {
        self.set_by_width(Ladder::coarse, table)
    }

    fn set_by_width(&mut self, points: fn(Ladder, usize) -> usize, table: &SiteTable) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.set_by_width(points, table))
    }

    /// $\ell_j(z)$: the log marginal likelihood of the silo's rows at these globals.
    pub(crate) fn value(&self, integrand: &Integrand<'_>, globals: &[f64], centres: &mut Centres) -> Result<f64> {
        let parts = self.parts.iter().zip(&mut centres.parts);
        parts.map(|(part, own)| part.value(integrand, globals, own)).sum()
    }

    /// The log marginal likelihood of each row that stands in no other, block after block in the order of rows.
    pub(crate) fn rows(&self, integrand: &Integrand<'_>, globals: &[f64], centres: &mut Centres) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        for (part, own) in self.parts.iter().zip(&mut centres.parts) {
            all.extend(part.rows(integrand, globals, own)?);
        }
        Ok(self.alike.spread_rows(integrand.table, &all))
    }

    /// Every observation given the others of its row, in the order of sites, rows and numbers in them.
    pub(crate) fn observations(
        &self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut Centres,
    ) -> Result<Vec<Observation>> {
        let mut all = Vec::new();
        for (part, own) in self.parts.iter().zip(&mut centres.parts) {
            all.extend(part.observations(integrand, globals, own)?);
        }
        Ok(self.alike.spread_observations(integrand.table, all))
    }

    /// $\ell_j(z)$ with its gradient by globals and θ.
    pub(crate) fn gradient(
        &self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut Centres,
    ) -> Result<ValueAndGradient> {
        let mut total: Option<ValueAndGradient> = None;
        for (part, own) in self.parts.iter().zip(&mut centres.parts) {
            let found = part.gradient(integrand, globals, own)?;
            match &mut total {
                None => total = Some(found),
                Some(total) => {
                    total.value += found.value;
                    add_scaled(&mut total.globals, 1.0, &found.globals);
                    add_scaled(&mut total.theta, 1.0, &found.theta);
                }
            }
        }
        Ok(total.unwrap_or_default())
    }

    /// Means and variances of every row's latents given these globals.
    pub(crate) fn conditionals(
        &self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut Centres,
    ) -> Result<Vec<Conditionals>> {
        let mut all = Vec::new();
        for (part, own) in self.parts.iter().zip(&mut centres.parts) {
            all.extend(part.conditionals(integrand, globals, own)?);
        }
        Ok(self.alike.spread_conditionals(integrand.table, all))
    }

    /// The same rows by other rules of about the same cost; `None` where there is no other than products of points enough.
    pub(crate) fn varied(&self, table: &SiteTable) -> Result<Option<Self>> {
        if !self.parts.iter().any(Part::is_noisy) {
            return Ok(None);
        }
        let parts = self.parts.iter().map(|part| part.varied(table)).collect::<Result<_>>()?;
        Ok(Some(Self { parts, alike: self.alike.clone() }))
    }

    /// Gives every rule that is drawn more draws; whether any was raised.
    pub(crate) fn draw_more(&mut self, table: &SiteTable) -> Result<bool> {
        let mut raised = false;
        for part in &mut self.parts {
            raised |= part.draw_more(table)?;
        }
        Ok(raised)
    }

    /// Raises the numbers of points of products until rules and the next larger ones agree on this draw; whether any was
    /// raised.
    ///
    /// # Errors
    /// What the model reports at a node.
    pub(crate) fn raise(
        &mut self,
        integrand: &Integrand<'_>,
        globals: &[f64],
        centres: &mut Centres,
        until: Until,
    ) -> Result<bool> {
        #[expect(clippy::cast_precision_loss, reason = "parts are few")]
        let until = Until { tolerance: until.tolerance / self.parts.len() as f64, ..until };
        let mut raised = false;
        for (part, own) in self.parts.iter_mut().zip(&mut centres.parts) {
            raised |= part.raise(integrand, globals, own, until)?;
        }
        Ok(raised)
    }
}

impl Centres {
    /// All numbers in one vector.
    pub(crate) fn flat(&self) -> Vec<f64> {
        self.parts.iter().flat_map(PartCentres::flat).collect()
    }

    /// The same from one vector; `None` if it has another length.
    pub(crate) fn of_flat(self, mut values: &[f64]) -> Option<Self> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for own in self.parts {
            let (here, rest) = values.split_at_checked(own.flat_len())?;
            parts.push(own.of_flat(here)?);
            values = rest;
        }
        values.is_empty().then_some(Self { parts })
    }
}

impl Slopes {
    /// From the centres at draws, whose whitened globals `noise` gives.
    pub(crate) fn of(centres: &[Centres], noise: impl Fn(usize) -> Vec<f64>) -> Self {
        let count = centres.first().map_or(0, |own| own.parts.len());
        let part = |part: usize| PartSlopes::of(centres.iter().map(|own| &own.parts[part]), &noise);
        Self { parts: (0..count).map(part).collect() }
    }

    /// Centres at these whitened globals.
    pub(crate) fn at(&self, white: &[f64]) -> Centres {
        Centres { parts: self.parts.iter().map(|own| own.at(white)).collect() }
    }
}

/// The rows of outermost plates of each part, of those that are evaluated: all in one where there are few, or where
/// latents of the silo or rows without latents tie them together.
fn rows_of_parts(table: &SiteTable, alike: &Alike) -> Result<Vec<Vec<Minibatch>>> {
    let (blocks, evaluated) = (table.blocks(), alike.minibatch(table));
    let is_tied = |index: usize| {
        let block = &blocks[index];
        (block.plate.is_none() && block.width > 0)
            || (block.plate.is_some() && table.outermost(index) == index && block.width == 0)
    };
    let outermost =
        || (0..blocks.len()).filter(|index| blocks[*index].plate.is_some() && table.outermost(*index) == *index);
    let rows: Vec<Vec<usize>> = (0..blocks.len()).map(|index| alike.rows(table, index)).collect();
    let fewest = outermost().map(|index| rows[index].len()).min().unwrap_or(0);
    let mut total = 0;
    for (index, block) in blocks.iter().enumerate() {
        total += table.rows_evaluated(index, &evaluated)?.map_or(block.rows, |own| own.len());
    }
    let count = if (0..blocks.len()).any(is_tied) { 1 } else { total.div_ceil(TOGETHER).min(fewest) };
    if count <= 1 {
        return Ok(vec![evaluated]);
    }
    let part = |first: usize| {
        let rows = |index: usize| {
            let plate = blocks[index].plate.as_deref()?;
            Some(Minibatch::new(plate, rows[index].iter().skip(first).step_by(count).copied().collect()))
        };
        outermost().filter_map(rows).collect()
    };
    Ok((0..count).map(part).collect())
}
