//! Carries inner rules along where the nodes of outer ones move: each inner centre follows the latents around it.
//!
//! An inner rule has a centre for every combination of the nodes around it. Where an outer rule moves, its nodes stand
//! for other latents, and centres that stayed would be those of the latents before: inner rules would chase outer ones,
//! and outer ones the integrals of inner rules that stand wrong. So the centres $`c_p`$ of a row at the combinations
//! $`p`$, with latents $`x_p`$ around it, are led by a regression: $`c_p + B(x'_p - x_p)`$, with the slope $`B`$ of the
//! centres on latents, by how much the combinations weigh.

use super::MOST_LATENTS;
use super::centres::{PartCentres, Square, cholesky};
use super::reduce::Reduced;
use super::tree::Tree;
use crate::engine::family::real;

/// The weight of all combinations together that none goes below: the slope is then known where few have weight.
const LEAST: f64 = 1e-3;
/// What is added to squares of one, so that latents which move together have a slope together.
const RIDGE: f64 = 1e-6;

/// Where the nodes are of every level that others stand in, `[paths, rows, nodes]`; none for the others.
#[derive(Debug)]
pub(super) struct Nodes {
    levels: Vec<Vec<[f64; MOST_LATENTS]>>,
}

/// A combination of nodes around a row.
#[derive(Debug, Clone)]
struct Around {
    weight: f64,
    before: Vec<f64>,
    after: Vec<f64>,
}

impl Nodes {
    /// The nodes of rules as they stand; `None` where no level stands in another.
    pub(super) fn of(tree: &Tree, centres: &PartCentres) -> Option<Self> {
        let is_around = |at: usize| tree.levels.iter().any(|own| own.within.as_ref().is_some_and(|(of, _)| *of == at));
        if !(0..tree.levels.len()).any(is_around) {
            return None;
        }
        let mut own = Self { levels: vec![Vec::new(); tree.levels.len()] };
        (0..tree.levels.len()).filter(|at| is_around(*at)).for_each(|at| own.read(tree, centres, at));
        Some(own)
    }

    fn read(&mut self, tree: &Tree, centres: &PartCentres, at: usize) {
        let (level, own) = (&tree.levels[at], &centres.levels[at]);
        let rows = 0..level.paths * level.rows;
        let nodes = rows.flat_map(|row| (0..level.rule.len()).map(move |node| own.node(level, row, node)));
        self.levels[at] = nodes.collect();
    }

    /// Leads the centres of inner rules to where nodes around them have moved, outer levels first; `self` holds the
    /// nodes before, and `reduced` the weights there.
    pub(super) fn carry(self, tree: &Tree, reduced: &Reduced, centres: &mut PartCentres) {
        let mut after = Self { levels: self.levels.clone() };
        for (at, level) in tree.levels.iter().enumerate() {
            if let Some((_, outer)) = &level.within {
                for row in 0..level.rows {
                    let all = |path: usize| self.around(&after, tree, reduced, [at, path, outer[row]]);
                    let all: Vec<Around> = (0..level.paths).map(all).collect();
                    lead(
                        &all,
                        level.width,
                        |path| (path * level.rows + row) * level.width,
                        &mut centres.levels[at].centre,
                    );
                }
            }
            if !self.levels[at].is_empty() {
                after.read(tree, centres, at);
            }
        }
    }

    /// What stands around a row of a level at one of its paths, where `row` is the row of the level around it.
    fn around(&self, after: &Self, tree: &Tree, reduced: &Reduced, [at, mut path, mut row]: [usize; 3]) -> Around {
        let mut found = Around { weight: 1.0, before: Vec::new(), after: Vec::new() };
        let mut level = &tree.levels[at];
        while let Some((around, _)) = &level.within {
            let outer = &tree.levels[*around];
            let (outer_path, node) = (path / outer.rule.len(), path % outer.rule.len());
            let place = outer.place(outer_path, row) + node;
            found.weight *= reduced.weight(*around, place);
            found.before.extend(&self.levels[*around][place][..outer.width]);
            found.after.extend(&after.levels[*around][place][..outer.width]);
            if let Some((_, rows)) = &outer.within {
                row = rows[row];
            }
            (path, level) = (outer_path, outer);
        }
        found
    }
}

/// Moves the centre of a row at every combination, of so many latents from a place on, by its slope on what is around.
fn lead(all: &[Around], width: usize, place: impl Fn(usize) -> usize, centres: &mut [f64]) {
    let count = all.first().map_or(0, |own| own.before.len());
    let has_moved = all.iter().any(|own| own.before != own.after);
    // Of so many latents around no row is integrated by products.
    if !has_moved || count == 0 || count > MOST_LATENTS {
        return;
    }
    let least = LEAST / real(all.len());
    let weights: Vec<f64> = all.iter().map(|own| (own.weight + least) / (1.0 + LEAST)).collect();
    let mean =
        |of: &dyn Fn(usize) -> f64| weights.iter().enumerate().map(|(path, weight)| weight * of(path)).sum::<f64>();
    let means: Vec<f64> = (0..count).map(|k| mean(&|path| all[path].before[k])).collect();
    let away = |path: usize, k: usize| all[path].before[k] - means[k];
    let deviations: Vec<f64> = (0..count).map(|k| mean(&|path| away(path, k).powi(2)).sqrt()).collect();
    // In units of deviations, so that a slope is one whatever the units of latents.
    let unit = |path: usize, k: usize| if deviations[k] > 0.0 { away(path, k) / deviations[k] } else { 0.0 };
    let mut squares: Square<MOST_LATENTS> = [[0.0; MOST_LATENTS]; MOST_LATENTS];
    for (row, slots) in squares.iter_mut().enumerate().take(count) {
        for (column, slot) in slots.iter_mut().enumerate().take(row + 1) {
            let ridge = if row == column { RIDGE } else { 0.0 };
            *slot = ridge + mean(&|path| unit(path, row) * unit(path, column));
        }
    }
    let lower = cholesky(squares, count);
    for latent in 0..width {
        let middle = mean(&|path| centres[place(path) + latent]);
        let along = |k: usize| mean(&|path| unit(path, k) * (centres[place(path) + latent] - middle));
        let slopes = solve(&lower, (0..count).map(along).collect());
        for (path, own) in all.iter().enumerate() {
            let step =
                |k: usize| if deviations[k] > 0.0 { (own.after[k] - own.before[k]) / deviations[k] } else { 0.0 };
            centres[place(path) + latent] += slopes.iter().enumerate().map(|(k, slope)| slope * step(k)).sum::<f64>();
        }
    }
}

/// The solution of a system by the lower Cholesky factor of its matrix.
fn solve(lower: &Square<MOST_LATENTS>, mut right: Vec<f64>) -> Vec<f64> {
    for row in 0..right.len() {
        let known: f64 = (0..row).map(|k| lower[row][k] * right[k]).sum();
        right[row] = (right[row] - known) / lower[row][row];
    }
    for row in (0..right.len()).rev() {
        let known: f64 = (row + 1..right.len()).map(|k| lower[k][row] * right[k]).sum();
        right[row] = (right[row] - known) / lower[row][row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centres_follow_what_they_are_linear_in() {
        // Two latents around a row of one: its centre is 1 - 0.5 x + 2 y.
        let at = |x: f64, y: f64| 1.0 - 0.5 * x + 2.0 * y;
        let places: Vec<[f64; 2]> = (0..9).map(|k| [f64::from(k % 3), 100.0 + 0.1 * f64::from(k / 3)]).collect();
        let moved = |[x, y]: [f64; 2]| [x + 0.3 * x, y - 0.05];
        let around = |own: &[f64; 2]| Around { weight: 1.0 / 9.0, before: own.to_vec(), after: moved(*own).to_vec() };
        let all: Vec<Around> = places.iter().map(around).collect();
        let mut centres: Vec<f64> = places.iter().map(|[x, y]| at(*x, *y)).collect();
        lead(&all, 1, |path| path, &mut centres);
        for (own, place) in centres.iter().zip(places) {
            let [x, y] = moved(place);
            assert!((own - at(x, y)).abs() < 1e-5, "{own} {}", at(x, y));
        }
    }
}
