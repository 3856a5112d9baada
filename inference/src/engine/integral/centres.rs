//! Keeps where each row's rule stands at one draw of the globals: its centre and scale, moved by the rule's own moments.

use partita_core::kernel::add_scaled;

use super::MOST_LATENTS;
use super::hermite::{Kind, Rule};
use super::layout::Slot;
use super::tree::{Level, Tree};
use crate::engine::family::real;

/// Centres and scales of the rows of a part, level by level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartCentres {
    pub(crate) levels: Vec<LevelCentres>,
    /// Whether they have been moved until they stood still.
    pub(crate) is_settled: bool,
}

/// Those of one level, for each path of outer nodes and row.
///
/// # Shapes
/// `centre`: `[paths, rows, width]`; `factor`: `[paths, rows, width, width]`, lower triangular.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LevelCentres {
    pub(crate) centre: Vec<f64>,
    pub(crate) factor: Vec<f64>,
}

/// The least standard deviation, in gaps between points, that moments are believed: below it weights sit on one point.
pub(super) const LEAST_SPREAD: f64 = 0.3;
/// The least scale of a rule, as a part of its centre.
pub(super) const RESOLVED: f64 = 1e3 * f64::EPSILON;
/// The part of the way to the outermost point beyond which a row's mass may lie outside the rule.
pub(super) const EDGE: f64 = 0.7;
/// The factor on the scale of a rule whose row may lie outside.
pub(super) const WIDENED: f64 = 3.0;
/// The least square of the diagonal of a factor, above rounding.
pub(super) const LEAST_SQUARE: f64 = 1e-10;
/// The draws, for each latent and one more, that weights are to be worth for their moments to be believed.
const ENOUGH_A_LATENT: f64 = 5.0;
/// The factor on how far rules that are drawn have moved.
const LATER: f64 = 3.0;
/// The way of a centre, in typical distances of a draw, from which on its rule keeps its scale.
const WAY: f64 = 0.6;

impl PartCentres {
    /// Every row at zero with scale one.
    pub(crate) fn start(tree: &Tree) -> Self {
        let level = |level: &Level| {
            let (count, width) = (level.paths * level.rows, level.width);
            let mut factor = vec![0.0; count * width * width];
            factor
                .chunks_exact_mut(width * width)
                .for_each(|own| own.iter_mut().step_by(width + 1).for_each(|s| *s = 1.0));
            LevelCentres { centre: vec![0.0; count * width], factor }
        };
        Self { levels: tree.levels.iter().map(level).collect(), is_settled: false }
    }

    /// The same for a tree with other rules. Where one latent stands around a level, its centres and scales are linear
    /// between nodes; else paths that were not there begin as the last that was.
    pub(crate) fn fitted_to(mut self, tree: &Tree) -> Self {
        for (own, level) in self.levels.iter_mut().zip(&tree.levels) {
            let each = level.rows * level.width;
            let paths = own.centre.len() / each;
            if paths == level.paths {
                continue;
            }
            self.is_settled = false;
            let around = level.within.as_ref().map(|(around, _)| &tree.levels[*around]);
            match around.filter(|around| around.width == 1 && around.paths == 1 && paths > 1) {
                Some(around) => {
                    let way = Way::between(&Rule::new(1, paths).points, &around.rule.points);
                    own.centre = led(&own.centre, each, way.iter().copied());
                    // A scale is that of a node beyond the outermost ones.
                    own.factor = led(&own.factor, each * level.width, way.iter().map(Way::inside));
                }
                None => {
                    own.centre = repeated(&own.centre, each, level.paths);
                    own.factor = repeated(&own.factor, each * level.width, level.paths);
                }
            }
        }
        self
    }
}

impl PartCentres {
    /// All numbers in one vector.
    pub(crate) fn flat(&self) -> Vec<f64> {
        let levels = self.levels.iter().flat_map(|own| own.centre.iter().chain(&own.factor)).copied();
        levels.chain(std::iter::once(f64::from(u8::from(self.is_settled)))).collect()
    }

    /// How many there are.
    pub(crate) fn flat_len(&self) -> usize {
        self.levels.iter().map(|own| own.centre.len() + own.factor.len()).sum::<usize>() + 1
    }

    /// The same from one vector; `None` if it has another length.
    pub(crate) fn of_flat(mut self, values: &[f64]) -> Option<Self> {
        let mut rest = values;
        for own in &mut self.levels {
            for part in [&mut own.centre, &mut own.factor] {
                let (here, after) = rest.split_at_checked(part.len())?;
                part.copy_from_slice(here);
                rest = after;
            }
        }
        let [settled] = rest else { return None };
        self.is_settled = *settled > 0.5;
        Some(self)
    }
}

/// Centres as a linear function of whitened globals, by regression over draws of mean zero and unit covariance.
#[derive(Debug)]
pub(crate) struct PartSlopes {
    mean: PartCentres,
    /// For each component, the slopes level by level.
    slopes: Vec<Vec<LevelSlopes>>,
}

/// Those of one level by one component.
#[derive(Debug)]
struct LevelSlopes {
    /// Of every centre.
    centre: Vec<f64>,
    /// Of the logarithm of every scale, one a latent.
    scale: Vec<f64>,
}

/// The farthest that the logarithm of a scale is led from its mean: a rule only begins there.
const MOST_LED: f64 = 1.0;

impl PartSlopes {
    /// From the centres at draws, whose whitened globals `noise` gives.
    pub(crate) fn of<'c>(centres: impl Iterator<Item = &'c PartCentres>, noise: &impl Fn(usize) -> Vec<f64>) -> Self {
        let centres: Vec<&PartCentres> = centres.collect();
        #[expect(clippy::cast_precision_loss, reason = "there are few draws")]
        let weight = 1.0 / centres.len() as f64;
        let mut mean = centres[0].clone();
        for own in &mut mean.levels {
            own.centre.fill(0.0);
            own.factor.fill(0.0);
        }
        mean.is_settled = centres.iter().all(|own| own.is_settled);
        let blank = |own: &LevelCentres| {
            let none = vec![0.0; own.centre.len()];
            LevelSlopes { centre: none.clone(), scale: none }
        };
        let mut slopes: Vec<Vec<LevelSlopes>> =
            (0..noise(0).len()).map(|_| mean.levels.iter().map(blank).collect()).collect();
        for (index, own) in centres.iter().enumerate() {
            let noise = noise(index);
            for (at, level) in own.levels.iter().enumerate() {
                add_scaled(&mut mean.levels[at].centre, weight, &level.centre);
                add_scaled(&mut mean.levels[at].factor, weight, &level.factor);
                let scales: Vec<f64> = level.scales().map(f64::ln).collect();
                for (slopes, noise) in slopes.iter_mut().zip(&noise) {
                    add_scaled(&mut slopes[at].centre, weight * noise, &level.centre);
                    add_scaled(&mut slopes[at].scale, weight * noise, &scales);
                }
            }
        }
        Self { mean, slopes }
    }

    /// Centres at these whitened globals.
    pub(crate) fn at(&self, white: &[f64]) -> PartCentres {
        let mut centres = self.mean.clone();
        for (at, own) in centres.levels.iter_mut().enumerate() {
            let mut led = vec![0.0; own.centre.len()];
            for (slopes, white) in self.slopes.iter().zip(white) {
                add_scaled(&mut own.centre, *white, &slopes[at].centre);
                add_scaled(&mut led, *white, &slopes[at].scale);
            }
            led.iter_mut().for_each(|own| *own = own.clamp(-MOST_LED, MOST_LED).exp());
            // Each row of a factor by what its latent's scale is led by.
            let width = own.width();
            own.factor
                .chunks_exact_mut(width)
                .zip(led)
                .for_each(|(row, led)| row.iter_mut().for_each(|own| *own *= led));
        }
        centres
    }
}

/// Where a node lies among those of another rule: so far from one of them on the way to the next.
#[derive(Debug, Clone, Copy)]
struct Way {
    from: usize,
    share: f64,
}

impl Way {
    /// That of each of some points among at least two others, both in increasing order.
    fn between(others: &[f64], points: &[f64]) -> Vec<Self> {
        let way = |point: &f64| {
            let from = others.partition_point(|own| own < point).clamp(1, others.len() - 1) - 1;
            Self { from, share: (point - others[from]) / (others[from + 1] - others[from]) }
        };
        points.iter().map(way).collect()
    }

    /// The same, or the outermost node where it lies beyond.
    fn inside(&self) -> Self {
        Self { share: self.share.clamp(0.0, 1.0), ..*self }
    }
}

/// Parts of a length on their ways between those there.
fn led(values: &[f64], each: usize, way: impl Iterator<Item = Way>) -> Vec<f64> {
    let part = |part: usize| &values[part * each..][..each];
    let own = |Way { from, share }: Way| {
        part(from).iter().zip(part(from + 1)).map(move |(a, b)| (1.0 - share) * a + share * b)
    };
    way.flat_map(own).collect()
}

/// As many parts of a length as are asked for, the last of those there standing for further ones.
fn repeated(values: &[f64], each: usize, parts: usize) -> Vec<f64> {
    let last = (values.len() / each).saturating_sub(1);
    (0..parts).flat_map(|part| &values[part.min(last) * each..][..each]).copied().collect()
}

impl LevelCentres {
    /// Latents a row.
    fn width(&self) -> usize {
        (self.factor.len() / self.centre.len().max(1)).max(1)
    }

    /// The scale along each latent of each row: the diagonals of factors.
    fn scales(&self) -> impl Iterator<Item = f64> + '_ {
        let width = self.width();
        self.factor.chunks_exact(width * width).flat_map(move |own| own.iter().step_by(width + 1).copied())
    }

    /// A node of a row, $c + St_n$, in the first numbers of those given.
    pub(super) fn node(&self, level: &Level, at: usize, node: usize) -> [f64; MOST_LATENTS] {
        let (width, point) = (level.width, level.rule.point(node));
        let (centre, factor) = (&self.centre[at * width..][..width], &self.factor[at * width * width..]);
        let mut found = [0.0; MOST_LATENTS];
        for (k, (slot, centre)) in found.iter_mut().zip(centre).enumerate() {
            *slot = centre + factor[k * width..].iter().zip(&point[..=k]).map(|(s, t)| s * t).sum::<f64>();
        }
        found
    }

    /// The latents of rows at nodes, $c + St_n$, in the order of `slots`.
    pub(crate) fn put(&self, level: &Level, slots: &[Slot], out: &mut [f64]) {
        let width = level.width;
        if width == 1 {
            for (slot, out) in slots.iter().zip(out) {
                *out = self.centre[slot.at()] + self.factor[slot.at()] * level.rule.points[slot.node()];
            }
            return;
        }
        for (slot, out) in slots.iter().zip(out.chunks_exact_mut(width)) {
            let (at, node) = (slot.at(), slot.node());
            let (centre, point) = (&self.centre[at * width..][..width], level.rule.point(node));
            let factor = &self.factor[at * width * width..][..width * width];
            for (k, (slot, centre)) in out.iter_mut().zip(centre).enumerate() {
                *slot = centre + factor[k * width..].iter().zip(&point[..=k]).map(|(s, t)| s * t).sum::<f64>();
            }
        }
    }

    /// $\log\det S$ of a row.
    pub(crate) fn log_det(&self, level: &Level, at: usize) -> f64 {
        let width = level.width;
        self.factor[at * width * width..][..width * width].iter().step_by(width + 1).map(|s| s.ln()).sum()
    }

    /// Whether the nodes of a row are apart in double precision: where not, its density is that of the centre at every node,
    /// and what the rule gives is far too large.
    pub(crate) fn is_resolved(&self, level: &Level, at: usize) -> bool {
        let width = level.width;
        let scales = self.factor[at * width * width..][..width * width].iter().step_by(width + 1);
        scales.zip(&self.centre[at * width..]).all(|(scale, centre)| *scale > RESOLVED * centre.abs())
    }

    /// Moves a row's rule to the mean and covariance that `weights`, normalised, give its nodes; how far that was, in
    /// its own scale.
    pub(crate) fn follow(&mut self, level: &Level, at: usize, weights: &[f64]) -> f64 {
        let width = level.width;
        match width {
            1 => self.follow_one(level, at, weights),
            2 | 3 => self.follow_several::<3>(level, at, weights),
            _ => self.follow_several::<MOST_LATENTS>(level, at, weights),
        }
    }

    /// The same for rows of at most `MOST` latents.
    fn follow_several<const MOST: usize>(&mut self, level: &Level, at: usize, weights: &[f64]) -> f64 {
        let width = level.width;
        let tempered = match level.rule.kind {
            Kind::Product => None,
            Kind::Drawn => tempered(weights, ENOUGH_A_LATENT * real(width + 1)),
        };
        let mut moments = Moments::<MOST>::of(&level.rule, tempered.as_deref().unwrap_or(weights));
        if tempered.is_some() && moments.distance() > WAY * real(width).sqrt() {
            // It travels: there may be more of the way to go.
            moments.keep();
        }
        let lower = cholesky(moments.safe_spread(&level.rule), width);
        let factor = &mut self.factor[at * width * width..][..width * width];
        let centre = &mut self.centre[at * width..][..width];
        let mut moved = [[0.0; MOST]; MOST];
        for row in 0..width {
            centre[row] += (0..=row).map(|l| factor[row * width + l] * moments.mean[l]).sum::<f64>();
            for column in 0..=row {
                moved[row][column] = (column..=row).map(|l| factor[row * width + l] * lower[l][column]).sum();
            }
        }
        factor.chunks_exact_mut(width).zip(moved).for_each(|(row, moved)| row.copy_from_slice(&moved[..width]));
        let far = |k: usize| moments.mean[k].abs().max(lower[k][k].ln().abs());
        let moved = (0..width).map(far).fold(0.0, f64::max);
        match level.rule.kind {
            Kind::Product => moved,
            // A product is nearly exact wherever it stands; draws are not, and stand still later.
            Kind::Drawn => (LATER * moved).max(f64::from(u8::from(tempered.is_some()))),
        }
    }

    /// The same for rows of one latent, which are most: its numbers stay in registers.
    fn follow_one(&mut self, level: &Level, at: usize, weights: &[f64]) -> f64 {
        let rule = &level.rule;
        let (mean, variance) = of_one(rule, weights);
        let scale = safe_square(rule, mean, variance).sqrt();
        self.centre[at] += self.factor[at] * mean;
        self.factor[at] *= scale;
        mean.abs().max(scale.ln().abs())
    }

    /// The mean of a row's latents, and their variances, under `weights`.
    pub(crate) fn moments(&self, level: &Level, at: usize, weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let width = level.width;
        let Moments { mean, covariance } = Moments::<MOST_LATENTS>::of(&level.rule, weights);
        let (factor, centre) = (&self.factor[at * width * width..], &self.centre[at * width..]);
        let through = |k: usize, vector: &dyn Fn(usize) -> f64| -> f64 {
            (0..=k).map(|l| factor[k * width + l] * vector(l)).sum()
        };
        let means = (0..width).map(|k| centre[k] + through(k, &|l| mean[l])).collect();
        let variances = (0..width).map(|k| through(k, &|l| through(k, &|m| covariance[l][m]))).collect();
        (means, variances)
    }
}

/// Weights raised to the power at which they are worth `enough` draws; `None` if they are without.
///
/// Moments by few draws would make a rule as narrow as these lie; flattened weights lead to where all of them say.
fn tempered(weights: &[f64], enough: f64) -> Option<Vec<f64>> {
    let raised = |power: f64| weights.iter().map(move |own| own.powf(power));
    let worth = |power: f64| raised(power).sum::<f64>().powi(2) / raised(2.0 * power).sum::<f64>();
    if 1.0 / weights.iter().map(|own| own * own).sum::<f64>() >= enough {
        return None;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..20 {
        let middle = 0.5 * (low + high);
        if worth(middle) >= enough { low = middle } else { high = middle }
    }
    let sum: f64 = raised(low).sum();
    Some(raised(low).map(|own| own / sum).collect())
}

/// Numbers of one row, of which the first `width` count: rows are many, and allocate nothing.
pub(super) type Square<const MOST: usize> = [[f64; MOST]; MOST];

/// Moments of the nodes of a rule in its own coordinates.
pub(super) struct Moments<const MOST: usize> {
    mean: [f64; MOST],
    pub(super) covariance: Square<MOST>,
}

impl<const MOST: usize> Moments<MOST> {
    pub(super) fn of(rule: &Rule, weights: &[f64]) -> Self {
        let (mut mean, mut covariance) = ([0.0; MOST], [[0.0; MOST]; MOST]);
        if rule.width == 1 {
            (mean[0], covariance[0][0]) = of_one(rule, weights);
            return Self { mean, covariance };
        }
        for (node, weight) in weights.iter().enumerate() {
            mean.iter_mut().zip(rule.point(node)).for_each(|(slot, t)| *slot += weight * t);
        }
        for (node, weight) in weights.iter().enumerate() {
            let point = rule.point(node);
            let mut away = [0.0; MOST];
            away.iter_mut().zip(point).zip(&mean).for_each(|((slot, t), mean)| *slot = t - mean);
            for (row, sums) in covariance.iter_mut().enumerate().take(rule.width) {
                let factor = weight * away[row];
                sums[..=row].iter_mut().zip(&away).for_each(|(sum, own)| *sum += factor * own);
            }
        }
        let lower = covariance;
        for (row, sums) in covariance.iter_mut().enumerate().take(rule.width) {
            sums.iter_mut().zip(lower).skip(row + 1).for_each(|(slot, below)| *slot = below[row]);
        }
        Self { mean, covariance }
    }

    /// How far the mean has gone.
    fn distance(&self) -> f64 {
        self.mean.iter().map(|own| own * own).sum::<f64>().sqrt()
    }

    /// Keeps the scale as it is.
    fn keep(&mut self) {
        self.covariance = std::array::from_fn(|row| std::array::from_fn(|column| f64::from(u8::from(row == column))));
    }

    /// The covariance to go on with: no narrower than the rule can see, and wide where mass may lie outside.
    fn safe_spread(&self, rule: &Rule) -> Square<MOST> {
        let mut spread = self.covariance;
        for (k, row) in spread.iter_mut().enumerate().take(rule.width) {
            row[k] = safe_square(rule, self.mean[k], row[k]);
        }
        spread
    }
}

/// Mean and variance of a rule in one dimension.
fn of_one(rule: &Rule, weights: &[f64]) -> (f64, f64) {
    let points = || weights.iter().zip(&rule.points);
    let mean: f64 = points().map(|(weight, t)| weight * t).sum();
    (mean, points().map(|(weight, t)| weight * (t - mean) * (t - mean)).sum())
}

/// The variance of one latent to go on with.
fn safe_square(rule: &Rule, mean: f64, variance: f64) -> f64 {
    let is_outside = mean.abs() > EDGE * rule.reach;
    variance.max(if is_outside { WIDENED * WIDENED } else { (LEAST_SPREAD * rule.gap).powi(2) })
}

/// The lower Cholesky factor of a covariance, its diagonal kept above rounding.
pub(super) fn cholesky<const MOST: usize>(mut matrix: Square<MOST>, width: usize) -> Square<MOST> {
    for row in 0..width {
        for column in 0..=row {
            let inner: f64 = (0..column).map(|k| matrix[row][k] * matrix[column][k]).sum();
            let rest = matrix[row][column] - inner;
            matrix[row][column] =
                if row == column { rest.max(LEAST_SQUARE).sqrt() } else { rest / matrix[column][column] };
        }
        matrix[row][row + 1..].fill(0.0);
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centres_that_are_linear_in_the_node_around_are_so_at_other_nodes() {
        let (few, many) = (Rule::new(1, 7).points, Rule::new(1, 11).points);
        // Two rows at each node.
        let at = |points: &[f64]| points.iter().flat_map(|t| [1.0 - 0.5 * t, 3.0 * t]).collect::<Vec<f64>>();
        for (from, to) in [(&few, &many), (&many, &few), (&few, &few)] {
            let way = Way::between(from, to);
            let found = led(&at(from), 2, way.iter().copied());
            assert_eq!(found.len(), 2 * to.len());
            assert!(found.iter().zip(at(to)).all(|(own, exact)| (own - exact).abs() < 1e-13), "{found:?}");
            // Beyond the outermost nodes scales are theirs.
            let scales = led(&at(from), 2, way.iter().map(Way::inside));
            let most = from.last().map_or(0.0, |t| 3.0 * t);
            assert!(scales.chunks(2).all(|own| own[1].abs() < most + 1e-13), "{scales:?}");
        }
    }
}
