//! Lays passes out: several at once, as repeats of every row, where there are few rows.

use partita_core::{Minibatch, SiteTable};

use super::centres::PartCentres;
use super::reduce::Reduced;
use super::tree::{Level, Tree};
use crate::engine::error::Result;

/// Which passes are evaluated together, and where each row stands among those evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) minibatch: Vec<Minibatch>,
    /// How many passes an evaluation has.
    pub(crate) repeats: usize,
    /// The rows of every level in every evaluation.
    evaluations: Vec<Vec<Vec<Slot>>>,
    /// The numbers of rows evaluated, and their widths, by block.
    blocks: Vec<(usize, usize)>,
    /// The level of each block.
    level_of: Vec<Option<usize>>,
}

/// Whether an evaluation may have several passes, as repeats of every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passes {
    Several,
    /// For models that count rows by other means than `rows.len()`.
    One,
}

/// A row of a level in one evaluation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// Its path and row, as an index of `[paths, rows]`; slots are many, and short numbers keep them in the cache.
    at: u32,
    node: u32,
    /// Whether this is the row that counts: a row stands in several passes that differ in inner nodes alone.
    pub(crate) counts: bool,
}

impl Slot {
    fn new(at: usize, node: usize, counts: bool) -> Self {
        let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { at: short(at), node: short(node), counts }
    }

    /// Its path and row, as an index of `[paths, rows]`.
    pub(crate) fn at(self) -> usize {
        self.at as usize
    }

    /// Its node.
    pub(crate) fn node(self) -> usize {
        self.node as usize
    }

    /// Its path, row and node, as an index of `[paths, rows, nodes]`.
    pub(crate) fn place(self, level: &Level) -> usize {
        self.at() * level.rule.len() + self.node()
    }
}

/// Rows evaluated together: enough that a node of the tape costs less than its numbers, few enough for the cache.
pub(super) const TOGETHER: usize = 32_768;

impl Layout {
    /// That of the rows which `rows` name, or all.
    pub(crate) fn of(table: &SiteTable, tree: &Tree, passes: Passes, rows: &[Minibatch]) -> Result<Self> {
        let silo = tree.silo();
        let span = silo.map_or(tree.passes, |silo| tree.levels[silo].inner);
        let repeats = if passes == Passes::Several { repeats(table, rows, span)? } else { 1 };
        let groups: Vec<Vec<Option<usize>>> = (0..tree.passes)
            .step_by(span.max(1))
            .flat_map(|start| (start..start + span).step_by(repeats).map(move |first| (start, first)))
            .map(|(start, first)| {
                (first..first + repeats).map(|pass| (pass < (start + span).min(tree.passes)).then_some(pass)).collect()
            })
            .collect();
        let minibatch: Vec<Minibatch> = match repeats {
            1 => rows.to_vec(),
            _ => {
                let repeated = outermost(table).filter_map(|(_, plate, count)| {
                    let named = rows.iter().find(|own| Some(own.plate.as_str()) == plate);
                    let rows = named.map_or_else(|| (0..count).collect(), |own| own.rows().to_vec());
                    Some(Minibatch::repeated(plate?, &rows, repeats))
                });
                // Rows without latents are the same at every node.
                let is_repeated = |own: &&Minibatch| outermost(table).any(|(_, plate, _)| plate == Some(&own.plate));
                repeated.chain(rows.iter().filter(|own| !is_repeated(own)).cloned()).collect()
            }
        };
        let (mut places, mut blocks) = (Vec::new(), Vec::new());
        for (index, block) in table.blocks().iter().enumerate() {
            let evaluated = table.rows_evaluated(index, &minibatch)?;
            let count = evaluated.as_ref().map_or(block.rows, Vec::len);
            blocks.push((count, block.width));
            let repeat = repeats_of(table, index, &minibatch, repeats)?;
            // Rows of a tree are those that it was made of, in their order.
            let own = match evaluated {
                Some(repeated) if repeats > 1 => places_among(table.rows_evaluated(index, rows)?, repeated),
                _ => (0..count).collect(),
            };
            places.push(own.into_iter().zip(repeat).collect::<Vec<_>>());
        }
        let mut level_of = vec![None; table.blocks().len()];
        tree.levels.iter().enumerate().for_each(|(level, own)| level_of[own.block] = Some(level));
        let evaluation = |group: Vec<Option<usize>>| {
            let stands: Vec<_> = group.into_iter().map(|pass| pass.map(|pass| tree.stands(pass))).collect();
            let level = |(at, level): (usize, &Level)| {
                let slot = |(row, repeat): &(usize, usize)| {
                    let stand = stands[*repeat].as_ref().and_then(|stands| stands[at]);
                    stand.map_or(Slot::new(*row, 0, false), |stand| {
                        Slot::new(stand.path * level.rows + row, stand.node, stand.counts)
                    })
                };
                places[level.block].iter().map(slot).collect()
            };
            tree.levels.iter().enumerate().map(level).collect()
        };
        let evaluations = groups.into_iter().map(evaluation).collect();
        Ok(Self { minibatch, repeats, evaluations, blocks, level_of })
    }

    /// The latents of every evaluation, one vector a block.
    pub(crate) fn passes(&self, tree: &Tree, centres: &PartCentres) -> Vec<Vec<Vec<f64>>> {
        let all = |slots: &Vec<Vec<Slot>>| {
            let block = |(index, (rows, width)): (usize, &(usize, usize))| {
                let mut values = vec![0.0; rows * width];
                if let Some(at) = self.level_of[index] {
                    centres.levels[at].put(&tree.levels[at], &slots[at], &mut values);
                }
                values
            };
            self.blocks.iter().enumerate().map(block).collect()
        };
        self.evaluations.iter().map(all).collect()
    }

    /// Every row of a level in an evaluation.
    pub(crate) fn slots(&self, at: usize, evaluation: usize) -> &[Slot] {
        &self.evaluations[evaluation][at]
    }

    /// The level of a block with latents.
    pub(crate) fn level(&self, block: usize) -> Option<usize> {
        self.level_of[block]
    }

    pub(crate) fn evaluations(&self) -> usize {
        self.evaluations.len()
    }

    /// Rows of all blocks in all evaluations.
    pub(crate) fn rows_evaluated(&self) -> usize {
        self.evaluations() * self.blocks.iter().map(|(rows, _)| rows).sum::<usize>()
    }

    /// The weights of the rows of a level in an evaluation.
    pub(crate) fn weights(&self, tree: &Tree, reduced: &Reduced, evaluation: usize, block: Option<usize>) -> Vec<f64> {
        let at = match block {
            Some(block) => self.level_of[block],
            None => tree.silo(),
        };
        let Some(at) = at else {
            // Outside all levels: it counts once.
            return vec![if evaluation == 0 { 1.0 } else { 0.0 }];
        };
        let level = &tree.levels[at];
        let weight = |slot: &Slot| {
            if slot.counts { level.times(slot.at()) * reduced.weight(at, slot.place(level)) } else { 0.0 }
        };
        self.slots(at, evaluation).iter().map(weight).collect()
    }
}

/// Blocks of outermost plates, with plate and rows.
fn outermost(table: &SiteTable) -> impl Iterator<Item = (usize, Option<&str>, usize)> {
    let blocks = table.blocks().iter().enumerate();
    blocks
        .filter(|(index, block)| block.plate.is_some() && block.width > 0 && table.outermost(*index) == *index)
        .map(|(index, block)| (index, block.plate.as_deref(), block.rows))
}

/// The place of each repeated row among the rows that a tree was made of; `None` for all.
fn places_among(rows: Option<Vec<usize>>, repeated: Vec<usize>) -> Vec<usize> {
    let Some(rows) = rows else { return repeated };
    let mut place = vec![0; rows.iter().max().map_or(0, |last| last + 1)];
    rows.iter().enumerate().for_each(|(at, row)| place[*row] = at);
    repeated.into_iter().map(|row| place[row]).collect()
}

/// How often each row is repeated in one evaluation.
fn repeats(table: &SiteTable, rows: &[Minibatch], span: usize) -> Result<usize> {
    let blocks = table.blocks();
    // Rows without latents that rows with latents stand in would count as often as they are repeated.
    let bare = |index: usize| blocks[table.outermost(index)].width == 0 && blocks[index].width > 0;
    if (0..blocks.len()).any(bare) {
        return Ok(1);
    }
    let mut total = 0;
    for (index, block) in blocks.iter().enumerate() {
        total += table.rows_evaluated(index, rows)?.map_or(block.rows, |own| own.len());
    }
    let most = (TOGETHER / total.max(1)).clamp(1, span);
    // As few evaluations as that allows, each of as many passes.
    Ok(span.div_ceil(span.div_ceil(most)))
}

/// The repeat of each row evaluated of a block: that of its outermost row.
fn repeats_of(table: &SiteTable, block: usize, minibatch: &[Minibatch], repeats: usize) -> Result<Vec<usize>> {
    let own = &table.blocks()[block];
    let count = table.rows_evaluated(block, minibatch)?.map_or(own.rows, |rows| rows.len());
    let outermost = table.outermost(block);
    if outermost == block {
        let is_repeated = own.plate.is_some() && own.width > 0;
        return Ok((0..count).map(|index| if is_repeated { index % repeats } else { 0 }).collect());
    }
    let Some(parent) = &own.parent else { return Ok(vec![0; count]) };
    let around = repeats_of(table, parent.block, minibatch, repeats)?;
    let places = table.outer_places(block, minibatch)?.unwrap_or_default();
    Ok(places.into_iter().map(|place| around[place]).collect())
}
