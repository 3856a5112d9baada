//! Sums log densities at nodes to the log marginal likelihood of rows, inner levels first, with the weights of nodes.

use partita_core::kernel::exponential;
use partita_core::special::HALF_LOG_TWO_PI;
use partita_core::{AnyModel, Levels};

use super::Conditionals;
use super::carry::Nodes;
use super::centres::PartCentres;
use super::layout::Layout;
use super::tree::Tree;
use crate::engine::error::{Error, Result};

/// Log densities of every level, `[paths, rows, nodes]`, and what stands outside all levels.
#[derive(Debug)]
pub(crate) struct Grid {
    levels: Vec<Vec<f64>>,
    outside: f64,
}

impl Grid {
    /// Puts what was read of each evaluation where it belongs.
    pub(crate) fn read(tree: &Tree, layout: &Layout, found: &Levels<'_, AnyModel>) -> Self {
        Self::put(tree, layout, &|evaluation, block| found.rows(evaluation, block))
    }

    /// The same from the log densities of the rows of a block in an evaluation, which `rows` gives.
    fn put<'f>(tree: &Tree, layout: &Layout, rows: &dyn Fn(usize, Option<usize>) -> &'f [f64]) -> Self {
        let mut levels = Vec::with_capacity(tree.levels.len());
        for (at, level) in tree.levels.iter().enumerate() {
            let mut values = vec![0.0; level.paths * level.rows * level.rule.len()];
            for evaluation in 0..layout.evaluations() {
                let rows = rows(evaluation, (!level.is_silo).then_some(level.block));
                for (slot, row) in layout.slots(at, evaluation).iter().zip(rows) {
                    if slot.counts {
                        values[slot.place(level)] = *row;
                    }
                }
            }
            levels.push(values);
        }
        let outside = if tree.silo().is_some() { 0.0 } else { rows(0, None).iter().sum() };
        Self { levels, outside }
    }
}

/// Log marginal likelihoods, with the normalised weights of nodes.
#[derive(Debug)]
pub(crate) struct Reduced {
    pub(crate) value: f64,
    /// Those of each row, `[paths, rows]`, by level.
    logs: Vec<Vec<f64>>,
    /// Weights of the nodes of each row, given the nodes outside, `[paths, rows, nodes]`, by level.
    weights: Vec<Vec<f64>>,
    /// The levels that stand in no other.
    roots: Vec<usize>,
}

impl Reduced {
    /// Sums a grid.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for a row whose density is no number, zero at every node, or too narrow for double precision.
    pub(crate) fn of(tree: &Tree, centres: &PartCentres, grid: Grid) -> Result<Self> {
        let Grid { levels: mut weights, outside } = grid;
        let mut logs: Vec<Vec<f64>> = vec![Vec::new(); tree.levels.len()];
        for (at, level) in tree.levels.iter().enumerate().rev() {
            let nodes = level.rule.len();
            let constant = float(level.width) * HALF_LOG_TWO_PI;
            let mut own = Vec::with_capacity(level.paths * level.rows);
            for row in weights[at].chunks_exact_mut(nodes) {
                row.iter_mut().zip(&level.rule.log_factors).for_each(|(value, factor)| *value += factor);
                let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                row.iter_mut().for_each(|value| *value -= most);
                own.push(most);
            }
            exponential(&mut weights[at]);
            for (index, (row, log)) in weights[at].chunks_exact_mut(nodes).zip(&mut own).enumerate() {
                let sum: f64 = row.iter().sum();
                let own = &centres.levels[at];
                let is_resolved = own.is_resolved(level, index);
                *log += if is_resolved { sum.ln() + constant + own.log_det(level, index) } else { f64::NAN };
                if !log.is_finite() {
                    return Err(not_finite(index % level.rows, *log));
                }
                let inverse = 1.0 / sum;
                row.iter_mut().for_each(|value| *value *= inverse);
            }
            if let Some((around, outer)) = &level.within {
                let parent = &tree.levels[*around];
                for (index, found) in own.iter().enumerate() {
                    // A path here is a path and a node there.
                    let (path, row) = (index / level.rows, index % level.rows);
                    let (outer_path, node) = (path / parent.rule.len(), path % parent.rule.len());
                    // A row in a row counts once there, and as often as its outer row farther out.
                    let times = if parent.is_silo { level.times(row) } else { 1.0 };
                    weights[*around][parent.place(outer_path, outer[row]) + node] += times * found;
                }
            }
            logs[at] = own;
        }
        let roots: Vec<usize> = (0..tree.levels.len()).filter(|at| tree.levels[*at].within.is_none()).collect();
        let own = |at: &usize| {
            let level = &tree.levels[*at];
            logs[*at].iter().enumerate().map(|(row, log)| level.times(row) * log).sum::<f64>()
        };
        let value = outside + roots.iter().map(own).sum::<f64>();
        Ok(Self { value, logs, weights, roots })
    }

    /// How far log marginal likelihoods of the rows that stand in no other are apart, summed over all that these count for.
    pub(crate) fn apart(&self, other: &Self, tree: &Tree) -> f64 {
        let level = |at: &usize| {
            let pairs = self.logs[*at].iter().zip(&other.logs[*at]).enumerate();
            pairs.map(|(row, (a, b))| tree.levels[*at].times(row) * (a - b).abs()).sum::<f64>()
        };
        self.roots.iter().map(level).sum()
    }

    /// The same by the blocks of their levels.
    pub(crate) fn by_block<'a>(&'a self, tree: &'a Tree) -> impl Iterator<Item = (usize, &'a [f64])> {
        self.roots.iter().map(|at| (tree.levels[*at].block, self.logs[*at].as_slice()))
    }

    /// Moves every rule to the moments of its weights, and inner ones along with outer ones; how far the one that moved
    /// most did by itself, as a part of what rules may that stand still.
    pub(crate) fn move_centres(&mut self, tree: &Tree, centres: &mut PartCentres) -> f64 {
        let (mut most, before) = (0.0_f64, Nodes::of(tree, centres));
        for (index, (level, own)) in tree.levels.iter().zip(&mut centres.levels).enumerate() {
            let still = tree.still(index);
            for (at, weights) in self.weights[index].chunks_exact(level.rule.len()).enumerate() {
                most = most.max(own.follow(level, at, weights) / still);
            }
        }
        if let Some(before) = before {
            before.carry(tree, self, centres);
        }
        most
    }

    /// Makes the weights of inner levels those of their nodes and the nodes outside together.
    pub(crate) fn join(&mut self, tree: &Tree) {
        for (at, level) in tree.levels.iter().enumerate() {
            let Some((around, outer)) = &level.within else { continue };
            let parent = &tree.levels[*around];
            let (before, own) = self.weights.split_at_mut(at);
            for (index, row) in own[0].chunks_exact_mut(level.rule.len()).enumerate() {
                let path = index / level.rows;
                let (outer_path, node) = (path / parent.rule.len(), path % parent.rule.len());
                let factor = before[*around][parent.place(outer_path, outer[index % level.rows]) + node];
                row.iter_mut().for_each(|weight| *weight *= factor);
            }
        }
    }

    /// The weight of a row's node, at its place in `[paths, rows, nodes]`.
    pub(crate) fn weight(&self, at: usize, place: usize) -> f64 {
        self.weights[at][place]
    }

    /// Means and variances of each level's latents, with its block.
    pub(crate) fn conditionals(mut self, tree: &Tree, centres: &PartCentres) -> Vec<Conditionals> {
        let given = self.weights.clone();
        self.join(tree);
        let mut all = Vec::with_capacity(tree.levels.len());
        for (at, level) in tree.levels.iter().enumerate() {
            let (nodes, width) = (level.rule.len(), level.width);
            let (mut means, mut squares) = (vec![0.0; level.rows * width], vec![0.0; level.rows * width]);
            for (index, weights) in given[at].chunks_exact(nodes).enumerate() {
                // What the path weighs: the sum of the joint weights of its nodes.
                let path: f64 = self.weights[at][index * nodes..][..nodes].iter().sum();
                let (mean, variance) = centres.levels[at].moments(level, index, weights);
                let row = (index % level.rows) * width;
                for k in 0..width {
                    means[row + k] += path * mean[k];
                    squares[row + k] += path * (variance[k] + mean[k] * mean[k]);
                }
            }
            let variances = means.iter().zip(&squares).map(|(mean, square)| (square - mean * mean).max(0.0)).collect();
            all.push(Conditionals { block: level.block, rows: None, means, variances });
        }
        all
    }
}

fn not_finite(row: usize, found: f64) -> Error {
    Error::NotFinite {
        who: "the integral".into(),
        step: 0,
        quantity: format!("the marginal likelihood of row {row}"),
        found,
    }
}

#[expect(clippy::cast_precision_loss, reason = "rows have few latents")]
fn float(number: usize) -> f64 {
    number as f64
}
