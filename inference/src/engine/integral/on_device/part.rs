//! Evaluates the rows of a part at all nodes of a rule on the device: moves of their rules, and their sum with its gradient.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use partita_core::{
    AnyModel, DeviceLevels, Handle, LogDensity, Minibatch, Part as ModelPart, Precision, Site, ValueAndGradient,
    ordered_sum,
};

use super::super::Integrand;
use super::super::centres::{LevelCentres, PartCentres};
use super::super::hermite::Rule;
use super::super::layout::{Layout, Passes};
use super::super::part::Part;
use super::MOVES_A_READ;
use super::rules::{Moved, Points, Stand, Summed, held};
use crate::engine::error::{Error, Result, is_outside};
use crate::engine::on_device::by_site;

/// The most rows of all nodes that are evaluated at once, so that memory stays bounded.
const ROWS_AT_ONCE: usize = 1 << 20;
/// The difference, relative to a log density, at which numbers of the device are those of the host but for rounding.
const ROUNDING: f64 = 1e-9;
const ROUNDING_SINGLE: f64 = 1e-3;
/// The numbers of an answer before its gradient.
const HEAD: usize = 3;

/// The only level of a part on a device, with a rule.
#[derive(Debug)]
pub(super) struct DevicePart<'a> {
    integrand: &'a Integrand<'a>,
    block: usize,
    rows: usize,
    width: usize,
    /// How far rules may move, in their own scale, and have stood still.
    still: f64,
    /// For how many rows each counts, `[rows, 1]`.
    times: Tensor<2>,
    points: Points,
    chunks: Vec<Chunk>,
}

/// Nodes that are evaluated at once.
#[derive(Debug)]
struct Chunk {
    nodes: Range<usize>,
    minibatch: Vec<Minibatch>,
}

/// Which read of some rules it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Turn<'l> {
    /// The first: rules that stand still at once stay where they are. They may be compared with others before.
    First(Option<Ladder<'l>>),
    Further,
    /// Rules move that have never settled; nothing is summed.
    Settling,
    /// Rules are taken as they are.
    Last,
}

/// Rules that are tried in turn, of which the last but one is to be taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ladder<'l> {
    pub(super) rules: &'l [DevicePart<'l>],
    /// How far log marginal likelihoods may be apart, in nats summed over rows, and agree.
    pub(super) tolerance: f64,
}

/// Rules after some moves.
struct Rested {
    stand: Stand,
    /// Log marginal likelihoods of rows before the last move.
    logs: Tensor<2>,
    /// Whether all have come to rest, `[1, 1]`.
    is_at_rest: Tensor<2, Bool>,
}

impl Rested {
    /// One more move, of rules that have not come to rest.
    fn then(self, next: Self) -> Self {
        Self {
            stand: next.stand.unless(&self.is_at_rest, &self.stand),
            logs: held(next.logs, &self.is_at_rest, &self.logs),
            is_at_rest: self.is_at_rest.bool_or(next.is_at_rest),
        }
    }
}

/// Rules beside smaller ones.
struct Compared {
    next: Rested,
    /// How far log marginal likelihoods are apart, in nats summed over rows, `[1, 1]`.
    apart: Tensor<2>,
    /// Whether both have come to rest, `[1, 1]`.
    is_known: Tensor<2, Bool>,
}

/// Rules of a part that are raised, and where those stand which are the last so far.
pub(super) struct Climbing {
    globals: Vec<Tensor<2>>,
    own: Rested,
    next: Option<Rested>,
}

/// The sum over rows, with what it was made of.
struct Weighed {
    value: Tensor<1>,
    gradient: Vec<Tensor<1>>,
    weights: Tensor<2>,
}

/// How many numbers an answer has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    globals: usize,
    rows: usize,
    width: usize,
}

impl Answer {
    /// That of a part for so many globals.
    pub(super) fn of(part: &Part, globals: usize) -> Self {
        let level = &part.tree.levels[0];
        Self { globals, rows: level.rows, width: level.width }
    }

    pub(super) fn len(self) -> usize {
        HEAD + self.globals + Stand::flat_len(self.rows, self.width)
    }

    /// An answer from its numbers.
    pub(super) fn read(self, numbers: &[f64]) -> Found {
        let (head, rest) = numbers.split_at(HEAD);
        let (gradient, stand) = rest.split_at(self.globals);
        let value = ValueAndGradient { value: head[0], globals: gradient.to_vec(), ..ValueAndGradient::default() };
        let levels = vec![Stand::read(stand, self.rows, self.width)];
        let centres = PartCentres { levels, is_settled: true };
        Found { value, is_at_rest: head[1] > 0.5, has_these_points: head[2] > 0.5, centres }
    }
}

/// An answer.
pub(super) struct Found {
    pub(super) value: ValueAndGradient,
    /// Whether rules that were tried lead to these.
    pub(super) has_these_points: bool,
    pub(super) is_at_rest: bool,
    pub(super) centres: PartCentres,
}

impl Climbing {
    /// The numbers of a comparison with the next larger rules, on the device, in the form of an answer: how far they are apart,
    /// whether both have come to rest, and where these rules stand.
    ///
    /// # Errors
    /// What the model refuses.
    pub(super) fn compare(&mut self, larger: &DevicePart<'_>) -> Result<Vec<Tensor<1>>> {
        let Compared { next, apart, is_known } = larger.compared(&self.globals, &self.own)?;
        self.next = Some(next);
        let is_known = apart.zeros_like().mask_fill(is_known, 1.0);
        let head = [apart, is_known.clone(), is_known].map(|own| own.reshape([1]));
        Ok(head.into_iter().chain(self.own.stand.flat()).collect())
    }

    /// Takes the larger rules that were compared.
    pub(super) fn raise(&mut self) {
        if let Some(next) = self.next.take() {
            self.own = next;
        }
    }
}

impl<'a> DevicePart<'a> {
    /// The rows of a part with a rule of so many points an axis.
    ///
    /// # Errors
    /// What the layout of rows refuses.
    pub(super) fn of(integrand: &'a Integrand<'a>, part: &Part, each: usize) -> Result<Self> {
        let level = &part.tree.levels[0];
        let rule = if each == level.each { Arc::clone(&level.rule) } else { Arc::new(Rule::new(level.width, each)) };
        Self::in_chunks(integrand, part, &rule, ROWS_AT_ONCE)
    }

    /// The same, of which at most so many rows of nodes are evaluated at once.
    fn in_chunks(integrand: &'a Integrand<'a>, part: &Part, rule: &Rule, at_once: usize) -> Result<Self> {
        let (level, table, device) = (&part.tree.levels[0], integrand.table, integrand.device);
        let plate = table.blocks()[level.block].plate.as_deref().unwrap_or_default();
        let (rows, mut total) = (part.rows_of(level.block, table)?, 0);
        for (index, block) in table.blocks().iter().enumerate() {
            total += table.rows_evaluated(index, &part.rows)?.map_or(block.rows, |own| own.len());
        }
        let most = (at_once / total.max(1)).clamp(1, rule.len());
        // As few evaluations as that allows, of about as many nodes each.
        let each = rule.len().div_ceil(rule.len().div_ceil(most));
        let chunk = |first: usize| {
            let nodes = first..(first + each).min(rule.len());
            let others = part.rows.iter().filter(|own| own.plate != plate).cloned();
            let own = std::iter::once(Minibatch::repeated(plate, &rows, nodes.len()));
            Chunk { minibatch: own.chain(others).collect(), nodes }
        };
        let times = (0..level.rows).map(|row| level.times(row)).collect();
        Ok(Self {
            integrand,
            block: level.block,
            rows: level.rows,
            width: level.width,
            still: part.tree.still(0),
            times: device.tensor(times, [level.rows, 1]),
            points: Points::of(rule, device),
            chunks: (0..rule.len()).step_by(each).map(chunk).collect(),
        })
    }

    /// The numbers of an answer to `turn` for rules that begin at `centres`, on the device.
    ///
    /// # Errors
    /// What the model refuses.
    pub(super) fn ask(&self, globals: &[f64], centres: &LevelCentres, turn: Turn<'_>) -> Result<Vec<Tensor<1>>> {
        let globals = self.globals(globals);
        let mut stand = Stand::of(centres, self.width, self.integrand.device);
        let mut has_these_points = None;
        if let Turn::First(Some(ladder)) = turn {
            let (is_known, settled) = self.climb(&globals, stand, ladder)?;
            (has_these_points, stand) = (is_known, settled);
        }
        let first = self.step(&globals, &stand)?;
        let (first, left) = match turn {
            Turn::First(_) => (Rested { stand: first.stand.unless(&first.is_at_rest, &stand), ..first }, MOVES_A_READ),
            Turn::Further | Turn::Last | Turn::Settling => (first, MOVES_A_READ - 1),
        };
        let Rested { stand, is_at_rest, .. } = self.settle(&globals, first, left)?;
        if matches!(turn, Turn::Settling) {
            let count = 1 + self.integrand.table.global_len();
            let nothing: Tensor<1> = self.integrand.device.tensor(vec![0.0; count], [count]);
            let [start, rest] = [nothing.clone().narrow(0, 0, 1), nothing.narrow(0, 0, count - 1)];
            let flags = [start.clone().mask_fill(is_at_rest.reshape([1]), 1.0), start.clone() + 1.0];
            return Ok([start].into_iter().chain(flags).chain([rest]).chain(stand.flat()).collect());
        }
        let Weighed { value, gradient, weights } = self.weigh(&globals, &stand)?;
        let Moved { stand: moved, .. } = stand.moved(&self.points, &weights);
        let next = match turn {
            Turn::Last => moved,
            _ => stand.unless(&is_at_rest, &moved),
        };
        let flag = |holds: Tensor<2, Bool>| value.zeros_like().mask_fill(holds.reshape([1]), 1.0);
        let has_these_points = has_these_points.map_or_else(|| value.zeros_like() + 1.0, flag);
        let is_at_rest = flag(is_at_rest);
        Ok([value, is_at_rest, has_these_points].into_iter().chain(gradient).chain(next.flat()).collect())
    }

    /// Rules that begin at `centres`, to be compared with larger ones.
    ///
    /// # Errors
    /// What the model refuses.
    pub(super) fn begin(&self, globals: &[f64], centres: &LevelCentres) -> Result<Climbing> {
        let (globals, stand) = (self.globals(globals), Stand::of(centres, self.width, self.integrand.device));
        let own = self.settled(&globals, &stand)?;
        Ok(Climbing { globals, own, next: None })
    }

    /// Whether log densities of rows at the first and the last node are those of the host; `None` where they are no numbers.
    ///
    /// # Errors
    /// What the model refuses.
    pub(super) fn agrees(&self, part: &Part, globals: &[f64]) -> Result<Option<bool>> {
        let Integrand { model, data, device, table } = *self.integrand;
        let (tree, centres) = (&part.tree, PartCentres::start(&part.tree));
        let alone = Layout::of(table, tree, Passes::One, &part.rows)?;
        let nodes = [0, tree.levels[0].rule.len() - 1];
        let passes = alone.passes(tree, &centres);
        let chosen: Vec<_> = nodes.iter().map(|node| passes[*node].clone()).collect();
        let density = LogDensity::new(model, device, table).minibatch(&alone.minibatch);
        let expected = match density.level_values(globals, &chosen, data) {
            Err(error) if is_outside(&error) => return Ok(None),
            other => other?,
        };
        let stand = Stand::of(&centres.levels[0], self.width, device);
        let heights = self.heights(&self.globals(globals), &stand)?;
        let count = heights.dims()[1];
        let found = Handle::from(heights).read()?.values;
        let rounding = match device.precision() {
            Precision::Double => ROUNDING,
            Precision::Single => ROUNDING_SINGLE,
        };
        let is_near = |(pass, node): (usize, &usize)| {
            let own = found.iter().skip(*node).step_by(count);
            let pairs = own.zip(expected.rows(pass, Some(self.block)));
            pairs.into_iter().all(|(own, log)| (own - log).abs() <= rounding * (1.0 + log.abs()))
        };
        Ok(Some(nodes.iter().enumerate().all(is_near)))
    }

    /// The globals by site.
    fn globals(&self, globals: &[f64]) -> Vec<Tensor<2>> {
        by_site(globals, self.integrand.table, self.integrand.device)
    }

    /// So many moves after others, of rules that have not come to rest.
    fn settle(&self, globals: &[Tensor<2>], mut rested: Rested, moves: usize) -> Result<Rested> {
        for _ in 0..moves {
            let next = self.step(globals, &rested.stand)?;
            rested = rested.then(next);
        }
        Ok(rested)
    }

    /// Where rules settle on the way to those that are to be taken, and whether all before them are too far from the next ones
    /// and they are not.
    fn climb(
        &self,
        globals: &[Tensor<2>],
        stand: Stand,
        ladder: Ladder<'_>,
    ) -> Result<(Option<Tensor<2, Bool>>, Stand)> {
        let Ladder { rules, tolerance } = ladder;
        let Some((first, others)) = rules.split_first() else { return Ok((None, stand)) };
        let (mut own, mut holds) = (first.settled(globals, &stand)?, None::<Tensor<2, Bool>>);
        for (place, finer) in others.iter().enumerate() {
            let Compared { next, apart, is_known } = finer.compared(globals, &own)?;
            let is_last = place + 1 == others.len();
            let is_right = if is_last { apart.lower_equal_elem(tolerance) } else { apart.greater_elem(tolerance) };
            let is_right = is_right.bool_and(is_known);
            holds = Some(match holds {
                Some(holds) => holds.bool_and(is_right),
                None => is_right,
            });
            if !is_last {
                own = next;
            }
        }
        Ok((holds, own.stand))
    }

    /// Rules that begin at others' centres, after the moves of a read.
    fn settled(&self, globals: &[Tensor<2>], stand: &Stand) -> Result<Rested> {
        self.settle(globals, self.step(globals, stand)?, MOVES_A_READ - 1)
    }

    /// These rules beside smaller ones, where they settle from there.
    fn compared(&self, globals: &[Tensor<2>], smaller: &Rested) -> Result<Compared> {
        let next = self.settled(globals, &smaller.stand)?;
        let apart = ((smaller.logs.clone() - next.logs.clone()).abs() * self.times.clone()).sum_dim(0);
        let is_known = smaller.is_at_rest.clone().bool_and(next.is_at_rest.clone());
        Ok(Compared { next, apart, is_known })
    }

    /// One move.
    fn step(&self, globals: &[Tensor<2>], stand: &Stand) -> Result<Rested> {
        let Summed { logs, weights } = stand.sum(&self.points, self.heights(globals, stand)?);
        let Moved { stand, far } = stand.moved(&self.points, &weights);
        Ok(Rested { stand, logs, is_at_rest: far.max_dim(0).lower_equal_elem(self.still) })
    }

    /// The log densities of rows at all nodes, `[rows, nodes]`.
    fn heights(&self, globals: &[Tensor<2>], stand: &Stand) -> Result<Tensor<2>> {
        let nodes = stand.nodes(&self.points);
        let one = |chunk: &Chunk| {
            let latents = self.latents(globals, &nodes, chunk);
            let levels = self.density(chunk).level_values_on_device(&latents, self.integrand.data)?;
            Ok(self.rows_at(&levels, chunk))
        };
        Ok(Tensor::cat(self.chunks.iter().map(one).collect::<Result<_>>()?, 1))
    }

    /// The sum over rows where rules stand, with its gradient: that of the log densities, by the weights of nodes.
    fn weigh(&self, globals: &[Tensor<2>], stand: &Stand) -> Result<Weighed> {
        let nodes = stand.nodes(&self.points);
        let read = |chunk: &Chunk| {
            let latents = self.latents(globals, &nodes, chunk);
            Ok::<_, Error>(self.density(chunk).levels_on_device(&latents, self.integrand.data)?)
        };
        // One tape gives heights and gradient; several do not stay in memory until the weights are known.
        let (mut kept, heights) = match self.chunks.as_slice() {
            [only] => {
                let levels = read(only)?;
                let heights = self.rows_at(&levels, only);
                (Some(levels), heights)
            }
            _ => (None, self.heights(globals, stand)?),
        };
        let Summed { logs, weights } = stand.sum(&self.points, heights);
        let counted = weights.clone() * self.times.clone();
        let mut value = ordered_sum(logs * self.times.clone());
        let mut gradient: Vec<Tensor<1>> = Vec::new();
        for chunk in &self.chunks {
            let levels = match kept.take() {
                Some(levels) => levels,
                None => read(chunk)?,
            };
            // What stands outside rows with latents counts once.
            let outside = levels.rows(None).filter(|_| chunk.nodes.start == 0);
            if let Some(outside) = &outside {
                value = value + outside.clone();
            }
            let own = self.part_of(&counted, chunk).flatten::<1>(0, 1);
            let found = levels.gradient(|block| match block {
                Some(_) => Some(own.clone()),
                None => outside.as_ref().map(|outside| outside.zeros_like() + 1.0),
            });
            let found = found.into_iter().map(|own| own.flatten::<1>(0, 1));
            gradient = match gradient.is_empty() {
                true => found.collect(),
                false => gradient.into_iter().zip(found).map(|(sum, own)| sum + own).collect(),
            };
        }
        Ok(Weighed { value, gradient, weights })
    }

    /// The latents of the model's sites where all rows stand at these nodes.
    fn latents(&self, globals: &[Tensor<2>], nodes: &[Tensor<2>], chunk: &Chunk) -> Vec<Tensor<2>> {
        let count = self.rows * chunk.nodes.len();
        let column = |own: &Tensor<2>| self.part_of(own, chunk).reshape([count, 1]);
        let sites = self.integrand.table.latents(ModelPart::Local).filter(|own| own.block() == self.block);
        let site = |own: &Site| {
            let columns = nodes[own.offset()..][..own.width()].iter().map(column).collect();
            Tensor::cat(columns, 1)
        };
        globals.iter().cloned().chain(sites.filter(|own| own.width() > 0).map(site)).collect()
    }

    /// The columns of these nodes.
    fn part_of(&self, all: &Tensor<2>, chunk: &Chunk) -> Tensor<2> {
        if self.chunks.len() == 1 {
            return all.clone();
        }
        all.clone().narrow(1, chunk.nodes.start, chunk.nodes.len())
    }

    /// What was read of rows at these nodes.
    fn rows_at(&self, levels: &DeviceLevels, chunk: &Chunk) -> Tensor<2> {
        let rows = levels.rows(Some(self.block));
        let Some(rows) = rows else { unreachable!("invariant: a row with latents has their log density") };
        rows.reshape([self.rows, chunk.nodes.len()])
    }

    fn density<'d>(&'d self, chunk: &'d Chunk) -> LogDensity<'d, AnyModel> {
        let Integrand { model, device, table, .. } = *self.integrand;
        LogDensity::new(model, device, table).minibatch(&chunk.minibatch)
    }
}

#[cfg(test)]
mod tests {
    use partita_core::{AnyData, AnyModel, Device, SiteTable};

    use super::*;
    use crate::engine::effects::Effects;
    use crate::engine::integral::RowIntegral;

    #[test]
    fn nodes_in_chunks_have_the_sums_of_all_at_once() {
        let device = Device::flex();
        let y: Vec<f64> = (0..12).map(|row| f64::from(u8::from(row % 3 == 0))).collect();
        let (model, data) = (Effects { latents: 2, nested: None }, device.tensor(y, [12]));
        let table = SiteTable::of(&model, &device, &data).unwrap();
        let (model, data) = (AnyModel::new(&model), AnyData::new(&data));
        let integrand = Integrand { model: &model, data: &data, device: &device, table: &table };
        let integral = RowIntegral::new(&table).unwrap();
        let part = &integral.parts[0];
        let centres = PartCentres::start(&part.tree);
        let answer = |at_once: usize, chunks: usize| {
            let own = DevicePart::in_chunks(&integrand, part, &part.tree.levels[0].rule, at_once).unwrap();
            assert_eq!(own.chunks.len(), chunks);
            let numbers = own.ask(&[0.4, -0.3], &centres.levels[0], Turn::First(None)).unwrap();
            Handle::from(Tensor::cat(numbers, 0)).read().unwrap().values
        };
        // 81 nodes of 12 rows: all at once, 12 at a time with nine in the last, and each alone.
        let whole = answer(ROWS_AT_ONCE, 1);
        for (at_once, chunks) in [(12 * 13, 7), (1, 81)] {
            let found = answer(at_once, chunks);
            let near = found.iter().zip(&whole).all(|(own, all)| (own - all).abs() < 1e-11 * (1.0 + all.abs()));
            assert!(near && found.len() == whole.len(), "{chunks} chunks: {found:?} {whole:?}");
        }
    }
}
