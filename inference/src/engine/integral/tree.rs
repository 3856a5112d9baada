//! Arranges the levels of latents that are integrated: rows in rows, with the node of each in every pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use partita_core::{Minibatch, SiteTable};

use super::alike::Alike;
use super::hermite::{Kind, Rule};
use crate::engine::error::Result;
use crate::engine::family::real;

/// One level: the rows of a block with latents.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    /// The block of the table.
    pub(crate) block: usize,
    /// Whether it is the silo's own, of one row outside plates.
    pub(crate) is_silo: bool,
    pub(crate) rows: usize,
    /// Latents a row.
    pub(crate) width: usize,
    /// The level around it, and the row there of each row.
    pub(crate) within: Option<(usize, Arc<[usize]>)>,
    /// For how many rows of the table each row counts; `None` where each does for itself.
    times: Option<Arc<[f64]>>,
    /// The points an axis, or all of them where they are drawn.
    pub(crate) each: usize,
    pub(crate) rule: Arc<Rule>,
    /// Combinations of nodes of the levels around.
    pub(crate) paths: usize,
    /// Combinations of nodes inside.
    pub(crate) inner: usize,
}

impl Level {
    /// Where the nodes of a row begin in `[paths, rows, nodes]`.
    pub(crate) fn place(&self, path: usize, row: usize) -> usize {
        (path * self.rows + row) * self.rule.len()
    }

    /// For how many rows of the table a row counts, at an index of `[paths, rows]`.
    pub(crate) fn times(&self, at: usize) -> f64 {
        self.times.as_ref().map_or(1.0, |times| times[at % self.rows])
    }
}

/// Where a level stands in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stand {
    pub(crate) path: usize,
    pub(crate) node: usize,
    /// Whether this is the pass that counts for this node: the first of those that differ in inner nodes alone.
    pub(crate) counts: bool,
}

/// All levels of a silo, outer ones before inner ones.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) levels: Vec<Level>,
    /// The passes over the model that visit every combination of nodes.
    pub(crate) passes: usize,
    pub(crate) ladder: Ladder,
    rules: Rules,
}

/// The numbers of the draws of rules, and of others that these are compared with.
const DRAWS: u64 = 1;
const OTHER_DRAWS: u64 = 2;

/// The rules made so far, by their width and points an axis.
#[derive(Debug, Clone, Default)]
struct Rules(BTreeMap<[usize; 2], Arc<Rule>>);

impl Rules {
    fn get(&mut self, width: usize, each: usize) -> Result<Arc<Rule>> {
        if let Some(rule) = self.0.get(&[width, each]) {
            return Ok(Arc::clone(rule));
        }
        let rule = Arc::new(match Kind::of(width) {
            Kind::Product => Rule::new(width, each),
            Kind::Drawn => Rule::drawn(width, each, DRAWS)?,
        });
        self.0.insert([width, each], Arc::clone(&rule));
        Ok(rule)
    }
}

/// Rules have stood still when none moved farther, in its own scale.
const STILL: f64 = 0.3;

/// The most combinations of nodes of nested levels that are visited without being asked for.
pub(crate) const MOST_COMBINATIONS: usize = 2_048;

/// The numbers of points that are tried in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ladder {
    /// From what is enough for most rows.
    Usual,
    /// From fewer, which serve rows that are nearly normal, and on as [`Ladder::Usual`]: for levels in levels of which the
    /// usual points have at most [`MOST_COMBINATIONS`].
    Pair,
    /// From the fewest, up to [`MOST_COMBINATIONS`]: for levels in levels of which the usual points have more.
    Nested,
}

impl Ladder {
    /// Those of levels of this width: an axis of a product, or all of a rule that is drawn.
    pub(crate) fn steps(self, width: usize) -> &'static [usize] {
        match (self, width) {
            (Self::Usual, 0 | 1) => &[15, 21, 31, 45, 63, 127, 255],
            (Self::Usual, 2) => &[9, 15, 25, 41],
            (Self::Usual | Self::Pair, 3) => &[7, 11, 17, 25],
            (Self::Pair, 0 | 1) => &[7, 9, 11, 15, 21, 31, 45, 63, 127, 255],
            (Self::Pair, 2) => &[5, 7, 9, 15, 25, 41],
            (Self::Nested, 0 | 1) => &[5, 7, 9, 11, 15, 21, 31, 45, 63, 127, 255],
            (Self::Nested, 2 | 3) => &[4, 5, 7, 9, 11, 15, 25],
            (_, 4 | 5) => &[256, 512, 1_024, 2_048, 4_096],
            _ => &[1_024, 2_048, 4_096],
        }
    }

    /// The points that lead to where a posterior is.
    pub(crate) fn coarse(self, width: usize) -> usize {
        match (self, width) {
            (Self::Usual | Self::Pair, 0 | 1) => 7,
            (Self::Usual | Self::Pair, 2 | 3) => 5,
            _ => self.steps(width)[0],
        }
    }

    /// The points from which rules over rows begin that no other level stands around or in.
    fn usual(width: usize) -> usize {
        Self::Usual.steps(width)[0]
    }

    /// The points that are enough for rows of this width whatever they are.
    pub(crate) fn enough(self, width: usize) -> usize {
        let raised = match width {
            0 | 1 => 2,
            2 | 3 => 1,
            _ => 0,
        };
        // A level in a level takes what it would by itself.
        let own = if self == Self::Pair { Self::Usual } else { self };
        own.steps(width)[raised]
    }
}

impl Tree {
    /// The levels of the rows of a site table that a minibatch names, or all, each with the fewest points.
    pub(crate) fn of(table: &SiteTable, minibatch: &[Minibatch], alike: &Alike) -> Result<Self> {
        let (mut levels, mut rules): (Vec<Level>, _) = (Vec::new(), Rules::default());
        let mut places = vec![None; table.blocks().len()];
        for (index, block) in table.blocks().iter().enumerate() {
            let evaluated = table.rows_evaluated(index, minibatch)?;
            let rows = evaluated.as_ref().map_or(block.rows, Vec::len);
            if block.width == 0 || rows == 0 {
                continue;
            }
            places[index] = Some(levels.len());
            let each = Ladder::usual(block.width);
            levels.push(Level {
                block: index,
                is_silo: block.plate.is_none(),
                rows,
                width: block.width,
                within: around(table, minibatch, &places, index)?,
                times: alike.times(index).zip(evaluated).map(|(all, rows)| rows.iter().map(|row| all[*row]).collect()),
                each,
                rule: rules.get(block.width, each)?,
                paths: 1,
                inner: 1,
            });
        }
        let mut tree = Self { levels, passes: 1, ladder: Ladder::Usual, rules };
        tree.count();
        tree.ladder = match tree.levels.iter().any(|level| level.within.is_some()) {
            _ if tree.passes > MOST_COMBINATIONS => Ladder::Nested,
            true => Ladder::Pair,
            false => Ladder::Usual,
        };
        tree.reset()?;
        Ok(tree)
    }

    /// The numbers of points of a level that are tried in turn: fewer than usual only where it stands in another, or around
    /// one.
    pub(crate) fn steps(&self, level: usize) -> &'static [usize] {
        let own = &self.levels[level];
        let is_alone = own.within.is_none() && own.inner == 1;
        if self.ladder == Ladder::Pair && is_alone {
            Ladder::Usual.steps(own.width)
        } else {
            self.ladder.steps(own.width)
        }
    }

    /// Whether a level in a level, or around one, has fewer points than usual.
    pub(crate) fn is_few(&self, level: usize) -> bool {
        let own = &self.levels[level];
        self.ladder == Ladder::Pair && own.each < Ladder::usual(own.width)
    }

    /// How far rules of a level may move, in their own scale, and have stood still.
    ///
    /// A rule of $n$ points whose scale is off by a factor $e^\delta$ errs at a normal row by about $\delta^n$: fewer points
    /// stand nearer, so that they err no more than the usual ones.
    pub(crate) fn still(&self, level: usize) -> f64 {
        let own = &self.levels[level];
        let more = if self.is_few(level) { real(Ladder::usual(own.width)) / real(own.each) } else { 1.0 };
        STILL.powf(more)
    }

    /// Gives levels in levels with fewer points than usual these.
    pub(crate) fn fill(&mut self) -> Result<()> {
        for level in 0..self.levels.len() {
            if self.is_few(level) {
                self.set(level, Ladder::usual(self.levels[level].width))?;
            }
        }
        Ok(())
    }

    /// The passes where levels with fewer points than usual have these.
    pub(crate) fn usual_passes(&self) -> usize {
        let (mut inner, mut passes) = (vec![1; self.levels.len()], 1);
        for (index, level) in self.levels.iter().enumerate().rev() {
            let axes = u32::try_from(level.width).unwrap_or(u32::MAX);
            let own = if self.is_few(index) { Ladder::usual(level.width).pow(axes) } else { level.rule.len() };
            let all = own * inner[index];
            match &level.within {
                Some((around, _)) => inner[*around] = all.max(inner[*around]),
                None => passes = all.max(passes),
            }
        }
        passes
    }

    /// Whether a level has more points than it may have where rows have so many combinations of nodes: levels in levels have
    /// the usual points in any case, and count with no fewer.
    pub(crate) fn has_more_than(&self, nodes: usize, level: usize) -> bool {
        let own = &self.levels[level];
        let is_usual = self.ladder == Ladder::Pair && own.each <= Ladder::usual(own.width);
        !is_usual && self.usual_passes() > nodes
    }

    /// Gives every level the fewest points; whether any had more.
    pub(crate) fn reset(&mut self) -> Result<bool> {
        let mut changed = false;
        for index in 0..self.levels.len() {
            let each = self.steps(index)[0];
            let level = &mut self.levels[index];
            changed |= level.each != each;
            (level.each, level.rule) = (each, self.rules.get(level.width, each)?);
        }
        self.count();
        Ok(changed)
    }

    /// Gives a level rules of so many points.
    pub(crate) fn set(&mut self, level: usize, each: usize) -> Result<()> {
        let own = &mut self.levels[level];
        (own.each, own.rule) = (each, self.rules.get(own.width, each)?);
        self.count();
        Ok(())
    }

    /// Whether there are more combinations than are visited, of levels in levels.
    pub(crate) fn is_too_large(&self) -> bool {
        self.ladder == Ladder::Nested && self.passes > MOST_COMBINATIONS
    }

    /// The levels whose rules are drawn.
    pub(crate) fn drawn(&self) -> impl Iterator<Item = usize> {
        (0..self.levels.len()).filter(|level| self.levels[*level].rule.kind == Kind::Drawn)
    }

    /// Takes other draws, as many, where rules are drawn, and one point an axis less where products are `held_back`.
    pub(crate) fn vary(&mut self, held_back: bool) -> Result<()> {
        for own in &mut self.levels {
            match own.rule.kind {
                Kind::Drawn => own.rule = Arc::new(Rule::drawn(own.width, own.each, OTHER_DRAWS)?),
                Kind::Product if held_back => {
                    own.each -= 1;
                    own.rule = self.rules.get(own.width, own.each)?;
                }
                Kind::Product => {}
            }
        }
        self.count();
        Ok(())
    }

    fn count(&mut self) {
        for index in (0..self.levels.len()).rev() {
            let inside = self.levels.iter().filter(|level| level.within.as_ref().is_some_and(|(at, _)| *at == index));
            let inner = inside.map(|level| level.rule.len() * level.inner).max().unwrap_or(1);
            self.levels[index].inner = inner;
        }
        for index in 0..self.levels.len() {
            let paths = self.levels[index].within.as_ref().map_or(1, |(at, _)| {
                let around = &self.levels[*at];
                around.paths * around.rule.len()
            });
            self.levels[index].paths = paths;
        }
        let roots = self.levels.iter().filter(|level| level.within.is_none());
        self.passes = roots.map(|level| level.rule.len() * level.inner).max().unwrap_or(1);
    }

    /// Where every level stands in a pass; `None` for one that has no further node there.
    pub(crate) fn stands(&self, pass: usize) -> Vec<Option<Stand>> {
        let mut stands: Vec<Option<Stand>> = Vec::with_capacity(self.levels.len());
        let mut rests = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            let (start, path) = match &level.within {
                None => (Some(pass), 0),
                Some((at, _)) => match stands[*at] {
                    Some(around) => (Some(rests[*at]), around.path * self.levels[*at].rule.len() + around.node),
                    None => (None, 0),
                },
            };
            let start = start.filter(|start| start / level.inner < level.rule.len());
            let rest = start.map_or(0, |start| start % level.inner);
            rests.push(rest);
            stands.push(start.map(|start| Stand { path, node: start / level.inner, counts: rest == 0 }));
        }
        stands
    }

    /// Whether all rows share latents of the silo.
    pub(crate) fn silo(&self) -> Option<usize> {
        self.levels.iter().position(|level| level.is_silo)
    }
}

/// The nearest block around with latents, as a level, and the row there of each row.
fn around(
    table: &SiteTable,
    minibatch: &[Minibatch],
    places: &[Option<usize>],
    block: usize,
) -> Result<Option<(usize, Arc<[usize]>)>> {
    let (blocks, mut at, mut rows) = (table.blocks(), block, None::<Vec<usize>>);
    while let (Some(parent), Some(outer)) = (&blocks[at].parent, table.outer_places(at, minibatch)?) {
        let own = rows.map_or_else(|| outer.clone(), |rows| rows.into_iter().map(|row| outer[row]).collect());
        if let Some(level) = places[parent.block] {
            return Ok(Some((level, own.into())));
        }
        (at, rows) = (parent.block, Some(own));
    }
    Ok(None)
}
