//! Draws the effects of groups that a silo has rows of, from their distribution given these rows and a draw of the globals.

use partita_core::{Device, Key, Latents, Noise, NoiseStream, Purpose, SiteTable, pointwise_log_likelihood};
use partita_models::regression::{Regression, RegressionRows};

use super::predict::KnownSilo;
use super::{Plan, StudyError};

/// Times that every latent is drawn for each draw of the globals: once forgets the last draw where there is one latent a
/// row, and several are drawn given one another.
const SWEEPS_OF_SEVERAL: usize = 4;
/// Newton steps to the mode of a latent, and draws around it.
const NEWTON_STEPS: usize = 2;
const PROPOSALS: usize = 2;
/// How much wider than the curvature says proposals are: tails of proposals are to be the heavier ones.
const WIDER: f64 = 1.2;
/// The step of differences, in standard deviations.
const DIFFERENCE: f64 = 0.1;

/// The effects of the groups of one silo, as a Markov chain whose target moves with the globals.
///
/// Of the latents $z_g$ of a group, standard normal before its rows $y_g$, each is drawn given the others and the globals
/// $\theta$: $z'_g$ comes from the normal distribution $q$ around the mode of $p(y_g \mid z_g, \theta) N(z_g)$ with the
/// curvature there, a little wider, and is accepted with probability
/// $$ \min\left(1, \frac{p(y_g \mid z'_g, \theta) N(z'_g) / q(z'_g)}{p(y_g \mid z_g, \theta) N(z_g) / q(z_g)}\right) $$
/// for all groups of a grouping at once. Where that is the normal distribution itself nearly all are accepted.
///
/// # References
/// Tierney (1994), Markov chains for exploring posterior distributions, Annals of Statistics 22, on independence chains.
pub(super) struct KnownGroups<'a> {
    model: &'a Regression,
    device: &'a Device,
    rows: &'a RegressionRows,
    table: SiteTable,
    blocks: Vec<Block>,
    latents: Vec<Vec<f64>>,
    noise: NoiseStream,
}

/// The latents of one grouping, `[groups, width]`.
struct Block {
    place: usize,
    width: usize,
    groups: usize,
    /// The group of each row; `None` for the silo itself.
    group: Option<Vec<usize>>,
    means: Vec<f64>,
    deviations: Vec<f64>,
}

/// Normal distributions of one latent of every group.
struct Proposals {
    means: Vec<f64>,
    deviations: Vec<f64>,
}

impl Proposals {
    /// Minus the log density of a group's latent, up to a constant.
    fn surprise(&self, group: usize, latent: f64) -> f64 {
        0.5 * ((latent - self.means[group]) / self.deviations[group]).powi(2)
    }
}

impl<'a> KnownGroups<'a> {
    pub(super) fn new(plan: &'a Plan, device: &'a Device, silo: KnownSilo<'a>, seed: u64) -> Result<Self, StudyError> {
        let (model, KnownSilo { rows, places, moments, place }) = (&plan.model, silo);
        let table = SiteTable::of(model, device, rows)?;
        let (mut blocks, mut latents) = (Vec::new(), Vec::new());
        for (place, (block, (means, deviations))) in table.blocks().iter().zip(moments).enumerate() {
            latents.push(means.clone());
            if block.width == 0 {
                continue;
            }
            let grouping = block.plate.as_ref().and_then(|plate| plan.chain.grouping(plate));
            let group = grouping.map(|own| places.groups[own.terms[0]].group.clone());
            blocks.push(Block { place, width: block.width, groups: block.rows, group, means, deviations });
        }
        let noise = Noise::new(seed).stream(Key::new(Purpose::Predictive, place as u64).block(KNOWN_GROUPS));
        Ok(Self { model, device, rows, table, blocks, latents, noise })
    }

    /// The latents of all blocks, given the globals; the block of the rows has none.
    pub(super) fn draw(&mut self, globals: &[f64]) -> Result<&[Vec<f64>], StudyError> {
        let latents: Vec<[usize; 2]> = self
            .blocks
            .iter()
            .enumerate()
            .flat_map(|(block, own)| (0..own.width).map(move |column| [block, column]))
            .collect();
        for _ in 0..if latents.len() == 1 { 1 } else { SWEEPS_OF_SEVERAL } {
            for [block, column] in &latents {
                self.redraw(globals, *block, *column)?;
            }
        }
        Ok(&self.latents)
    }

    /// Draws one latent of every group of a block, given all others.
    fn redraw(&mut self, globals: &[f64], block: usize, column: usize) -> Result<(), StudyError> {
        let proposals = self.proposals(globals, block, column)?;
        let mut now = self.column(block, column);
        let mut density = self.densities(globals, block, column, &now)?;
        for _ in 0..PROPOSALS {
            let mut proposed = vec![0.0; now.len()];
            self.noise.normal(&mut proposed);
            let moments = proposals.means.iter().zip(&proposals.deviations);
            proposed.iter_mut().zip(moments).for_each(|(own, (mean, sd))| *own = sd.mul_add(*own, *mean));
            let found = self.densities(globals, block, column, &proposed)?;
            for group in 0..now.len() {
                let gain = found[group] + proposals.surprise(group, proposed[group])
                    - density[group]
                    - proposals.surprise(group, now[group]);
                if self.noise.uniform().ln() < gain {
                    (now[group], density[group]) = (proposed[group], found[group]);
                }
            }
        }
        let Block { place, width, .. } = self.blocks[block];
        let all = self.latents[place].iter_mut().skip(column).step_by(width);
        all.zip(now).for_each(|(own, now)| *own = now);
        Ok(())
    }

    /// The mode and the curvature of one latent of every group by Newton's method, from the posterior means on: what is
    /// proposed does not depend on where the latent is.
    fn proposals(&self, globals: &[f64], block: usize, column: usize) -> Result<Proposals, StudyError> {
        let Block { width, means, deviations, .. } = &self.blocks[block];
        let [mut means, widest] =
            [means, deviations].map(|all| -> Vec<f64> { all.iter().skip(column).step_by(*width).copied().collect() });
        let mut deviations = widest.clone();
        for _ in 0..NEWTON_STEPS {
            let aside = |sign: f64| -> Vec<f64> {
                means.iter().zip(&deviations).map(|(mean, sd)| mean + sign * DIFFERENCE * sd).collect()
            };
            let [below, at, above] = [aside(-1.0), means.clone(), aside(1.0)];
            let [below, at, above] = [
                self.densities(globals, block, column, &below)?,
                self.densities(globals, block, column, &at)?,
                self.densities(globals, block, column, &above)?,
            ];
            for group in 0..means.len() {
                let step = DIFFERENCE * deviations[group];
                let slope = (above[group] - below[group]) / (2.0 * step);
                let curvature = (2.0 * at[group] - above[group] - below[group]) / (step * step);
                // Where the density is not concave the widest proposal stays.
                if curvature > widest[group].powi(-2) {
                    means[group] += slope / curvature;
                    deviations[group] = curvature.sqrt().recip();
                }
            }
        }
        deviations.iter_mut().for_each(|own| *own *= WIDER);
        Ok(Proposals { means, deviations })
    }

    /// One latent of every group of a block.
    fn column(&self, block: usize, column: usize) -> Vec<f64> {
        let Block { place, width, .. } = self.blocks[block];
        self.latents[place].iter().skip(column).step_by(width).copied().collect()
    }

    /// For every group the log density of its rows and of this latent, at `values` of it and the others as they are.
    fn densities(&self, globals: &[f64], block: usize, column: usize, values: &[f64]) -> Result<Vec<f64>, StudyError> {
        let own = &self.blocks[block];
        let mut locals = self.latents.clone();
        locals[own.place].iter_mut().skip(column).step_by(own.width).zip(values).for_each(|(own, new)| *own = *new);
        let latents = Latents { globals, locals: &locals };
        let found = pointwise_log_likelihood(self.model, self.device, &self.table, self.rows, latents)?;
        let mut sums: Vec<f64> = values.iter().map(|own| -0.5 * own * own).collect();
        debug_assert_eq!(sums.len(), own.groups, "invariant: one value a group");
        for (row, density) in found.iter().flat_map(|(_, own)| &own.values).enumerate() {
            sums[own.group.as_ref().map_or(0, |group| group[row])] += density;
        }
        Ok(sums)
    }
}

/// The block of the noise of these chains, apart from those of predictive draws.
pub(super) const KNOWN_GROUPS: u32 = 1 << 20;
