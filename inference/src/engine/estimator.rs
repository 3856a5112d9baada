//! Estimates the ELBO and its gradient: sticking the landing, total derivative, closed-form entropy.

mod importance;
mod local_bound;
mod local_reparameterisation;

pub use importance::ImportanceGradient;
pub(crate) use importance::{DrawWeights, check_points, descent};
pub(crate) use local_bound::{Repeats, enhanced_elbo_term};
pub(crate) use local_reparameterisation::{LayerMoments, LayerNumber, check_layers, particles_join, tapes};

use partita_core::{Latents, LogDensity, Model, ValueAndGradient};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::engine::PART;
use crate::engine::error::Result;
use crate::engine::family::{DrawNumber, Family, FamilyDraw, RowDraw, RowGaussian, RowGradient, RowInputs, Score};

/// How the gradient of the ELBO is estimated from a draw.
///
/// The first three are unbiased for the same gradient. With $Z = f_\eta(\varepsilon)$:
/// - `StickingTheLanding`: $(\partial f_\eta/\partial\eta)^\top \nabla_Z[\log p(Z, y) - \log q_\eta(Z)]$ with $\eta$
///   held fixed inside $\log q$ (Roeder, Wu and Duvenaud, 2017): exactly zero for every $\varepsilon$ when $q$ is the
///   posterior.
/// - `Total`: the derivative of the whole sampled bound, $\log p(Z, y) - \log q_\eta(Z)$.
/// - `ClosedFormEntropy`: the sampled $\log p(Z, y)$ plus the entropy in closed form. For Gaussian families whose
///   scales do not depend on the globals its gradient equals `Total`'s and only the bound's value has less noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Estimator {
    /// The path derivative only.
    StickingTheLanding,
    /// The derivative of the sampled bound.
    Total,
    /// The entropy in closed form.
    ClosedFormEntropy,
    /// The locally enhanced bound: inside the bound every row of a plate has its own importance-weighted average over
    /// `inner` draws of its local latents (Geffner and Domke, 2022). It lies between the ordinary bound and the one
    /// with exact local posteriors, which mends what a Gaussian gets wrong about skewed local latents. Gradients by
    /// local parameters are doubly reparameterised (Tucker et al., 2019), those by the globals' density stick the
    /// landing.
    LocallyEnhanced {
        /// Draws of its latents in a row's average.
        inner: usize,
    },
    /// The importance-weighted bound (Burda, Grosse and Salakhutdinov, 2016): the particles of a step,
    /// $`K`$ = [`crate::Settings::particles`] draws of all latents of all parties together, are averaged inside the
    /// logarithm,
    /// ```math
    /// \mathcal L_K = \mathrm{E}\Bigl[\log \frac1K \sum_{k=1}^K w_k\Bigr], \qquad
    /// w_k = \frac{p(y, Z_k)}{q_\eta(Z_k)} = \exp \sum_j \hat L_{jk},
    /// ```
    /// which rises from the ELBO at $`K = 1`$ to $`\log p(y)`$. The reported bound is the mean over independent values
    /// of it, [`crate::FitOptions::elbo_draws`] of them with $`K`$ draws each.
    ///
    /// The weights need all shares: silos send the gradients of every draw, and learn with the next request what each
    /// draw weighed. It takes no minibatches, since the logarithm of an estimate is biased; and dependent noise only
    /// with [`ImportanceGradient::Total`], since the other two are derived for independent draws.
    ImportanceWeighted {
        /// How its gradient is estimated.
        gradient: ImportanceGradient,
    },
    /// As `ClosedFormEntropy`, but linear layers declared with [`partita_core::Scope::linear`] give every row
    /// pre-activations of its own instead of drawing weights once for all rows (Kingma, Salimans and Welling, 2015).
    /// Their weights must have independent components (diagonal or isotropic Gaussian), and no local posterior may
    /// depend on the globals.
    LocalReparameterisation,
}

/// What one party contributes to the bound and its gradient, for one draw.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ElboTerm {
    /// $\hat L_j$ in nats.
    pub elbo: f64,
    /// $a_j$: the gradient that reaches the global mean.
    pub grad_mean: Vec<f64>,
    /// $b_j$: the gradient that reaches $Z_G - \mu_G$, through local latents too.
    pub grad_offset: Vec<f64>,
    /// $\nabla_\theta$.
    pub theta: Vec<f64>,
    /// The gradient by the variances of linear layers under local reparameterisation; empty without.
    pub variance: Vec<f64>,
}

impl ElboTerm {
    /// Adds to `out` the gradient by the parameters of the global family.
    ///
    /// # Errors
    /// [`crate::Error::Setting`] for a gradient by variances of a family that is not diagonal.
    pub fn vjp(&self, family: &dyn Family, parameters: &[f64], noise: &[f64], out: &mut [f64]) -> Result<()> {
        family.vjp(parameters, noise, &self.grad_mean, &self.grad_offset, out);
        if self.variance.is_empty() { Ok(()) } else { family.vjp_variance(parameters, &self.variance, out) }
    }

    /// Adds a silo's ELBO term to that of the prior.
    pub(crate) fn take(&mut self, silo: Self) {
        self.elbo += silo.elbo;
        add(&mut self.grad_mean, &silo.grad_mean);
        add(&mut self.grad_offset, &silo.grad_offset);
        self.variance = silo.variance;
        self.theta.resize(self.theta.len().max(silo.theta.len()), 0.0);
        add(&mut self.theta[..silo.theta.len()], &silo.theta);
    }
}

impl Estimator {
    /// The coordinator's ELBO term, $\hat L_0 = \log p(Z_G) - \log q(Z_G)$, from value and gradient of the prior at a
    /// draw.
    #[must_use]
    pub fn global_elbo_term(
        self,
        prior: ValueAndGradient,
        family: &dyn Family,
        parameters: &[f64],
        draw: &FamilyDraw,
    ) -> ElboTerm {
        let (elbo, grad_mean, theta) = self.global_terms(prior, family, parameters, draw);
        ElboTerm { elbo, grad_offset: grad_mean.clone(), grad_mean, theta, variance: Vec::new() }
    }

    /// The bound, the gradient that reaches mean and offset alike, and that by θ, of
    /// [`Estimator::global_elbo_term`].
    pub(crate) fn global_terms<T: DrawNumber>(
        self,
        prior: ValueAndGradient<T>,
        family: &dyn Family,
        parameters: &[f64],
        draw: &FamilyDraw<T>,
    ) -> (f64, Vec<T>, Vec<f64>) {
        let mut grad_mean = prior.globals;
        if self.score() == Score::Wanted {
            add_times(&mut grad_mean, -1.0, &draw.score);
        }
        let elbo = match self.of_draw() {
            Self::ClosedFormEntropy => prior.value + family.entropy(parameters),
            _ => prior.value - draw.log_density,
        };
        (elbo, grad_mean, prior.theta)
    }

    /// Whether the score of a draw of the globals is read.
    fn score(self) -> Score {
        match self.of_draw() {
            Self::StickingTheLanding | Self::LocallyEnhanced { .. } => Score::Wanted,
            _ => Score::Unread,
        }
    }

    /// Draws the globals with what is read of a draw, in the memory of an earlier one.
    pub(crate) fn draw_into<T: DrawNumber>(
        self,
        family: &dyn Family,
        parameters: &[f64],
        noise: &[T],
        draw: &mut FamilyDraw<T>,
    ) {
        T::draw(family, parameters, noise, self.score(), draw);
    }

    /// The same in memory of its own.
    pub(crate) fn draw(self, family: &dyn Family, parameters: &[f64], noise: &[f64]) -> FamilyDraw {
        let mut draw = FamilyDraw::default();
        self.draw_into(family, parameters, noise, &mut draw);
        draw
    }

    /// Whether the entropy of the globals is in closed form.
    pub(crate) fn closes_entropy(self) -> bool {
        self.of_draw() == Self::ClosedFormEntropy
    }

    /// Whether the entropy's gradient by the parameters of the global family is added apart from the draws.
    #[must_use]
    pub fn adds_entropy_gradient(self) -> bool {
        matches!(self.of_draw(), Self::Total | Self::ClosedFormEntropy)
    }
}

/// One block of local latents as a silo evaluates it.
#[derive(Debug)]
pub struct BlockDraw<'a> {
    /// The family of the block's rows.
    pub family: &'a RowGaussian,
    /// The parameters of the rows evaluated.
    pub parameters: &'a [f64],
    /// The noise of the rows evaluated.
    pub noise: &'a [f64],
    /// N/B of the rows evaluated.
    pub weight: f64,
    /// The rows that these belong to, where their family depends on them.
    pub outer: Option<OuterRows<'a>>,
}

/// The outer rows of the rows evaluated.
#[derive(Debug, Clone, Copy)]
pub struct OuterRows<'a> {
    /// Their block, which stands before the one of the rows.
    pub block: usize,
    /// For each row its outer row's place among the rows evaluated of that block.
    pub rows: &'a [usize],
}

impl OuterRows<'_> {
    /// The numbers of outer rows `[outer rows, width]` for each of the rows, `[width, rows]`.
    fn gather(&self, numbers: &[f64], width: usize) -> Vec<f64> {
        (0..width).flat_map(|column| self.rows.iter().map(move |row| numbers[row * width + column])).collect()
    }

    /// The transpose of [`OuterRows::gather`], times a factor: adds numbers of rows to those of their outer rows.
    fn scatter(&self, numbers: &[f64], width: usize, factor: f64, out: &mut [f64]) {
        for (column, numbers) in numbers.chunks_exact(self.rows.len().max(1)).enumerate() {
            self.rows.iter().zip(numbers).for_each(|(row, number)| out[row * width + column] += factor * number);
        }
    }
}

impl BlockDraw<'_> {
    /// What a draw of the block is made from.
    fn inputs<'a>(&'a self, deviation: &'a [f64], outer: &'a [f64]) -> RowInputs<'a> {
        RowInputs { parameters: self.parameters, deviation, outer, noise: self.noise }
    }
}

/// A draw of the rows of a block, with what it was made from.
#[derive(Debug)]
pub(crate) struct DrawnRows {
    pub(crate) draw: RowDraw,
    /// What the outer rows deviate from their means, `[outer, rows]`.
    outer: Vec<f64>,
}

impl Estimator {
    /// A silo's share, $\hat L_j = \log p(y_j, Z_{L_j} \mid Z_G) - \log q(Z_{L_j} \mid Z_G)$, and the gradient of its
    /// local parameters, added to `out` (one vector a block).
    ///
    /// # Errors
    /// What the model's statements refuse.
    pub fn local_elbo_term<M: Model>(
        self,
        density: &LogDensity<'_, M>,
        data: &M::Data,
        global: &FamilyDraw,
        blocks: &[BlockDraw<'_>],
        out: &mut [Vec<f64>],
    ) -> Result<ElboTerm> {
        let deviation = global.deviation.as_slice();
        let mut draws = draw_blocks(blocks, deviation);
        let evaluated =
            with_latents(&mut draws, |locals| density.local(Latents { globals: &global.latent, locals }, data))?;
        let through = self.through_locals(deviation, blocks, &draws, evaluated.locals, out);
        let (elbo, variance) = (evaluated.value + through.elbo, evaluated.variances);
        let mut grad_offset = evaluated.globals;
        // Nothing where layers hold all globals.
        grad_offset.resize(deviation.len(), 0.0);
        let grad_mean = grad_offset.clone();
        let mut elbo_term = ElboTerm { elbo, grad_mean, grad_offset, theta: evaluated.theta, variance };
        through.reach(&mut elbo_term);
        if !evaluated.means.is_empty() {
            add(&mut elbo_term.grad_mean, &evaluated.means);
        }
        Ok(elbo_term)
    }

    /// What the local posterior adds to a share, given the gradients of the log density by its draws; the gradient by
    /// the local parameters is added to `out`.
    ///
    /// Inner blocks come before those they belong to: a draw of outer rows gets what its own density, the model and,
    /// under sticking the landing, minus the scores of the rows inside say; what these rows' draws say of it passes
    /// through its offset alone.
    pub(crate) fn through_locals(
        self,
        deviation: &[f64],
        blocks: &[BlockDraw<'_>],
        draws: &[DrawnRows],
        mut gradients: Vec<Vec<f64>>,
        out: &mut [Vec<f64>],
    ) -> ThroughLocals {
        // A network has many globals and no local latent: nothing of their size is made for blocks without one.
        if draws.iter().all(|drawn| drawn.draw.latent.is_empty()) {
            return ThroughLocals { elbo: 0.0, direct: Vec::new(), path: Vec::new() };
        }
        let zeros = vec![0.0; deviation.len()];
        let mut through = ThroughLocals { elbo: 0.0, direct: zeros.clone(), path: zeros };
        let mut from_inside: Vec<Option<Vec<f64>>> = vec![None; blocks.len()];
        for (index, block) in blocks.iter().enumerate().rev() {
            let DrawnRows { draw, outer } = &draws[index];
            let mut gradient = std::mem::take(&mut gradients[index]);
            if self.of_draw() == Self::StickingTheLanding {
                gradient.iter_mut().zip(&draw.score).for_each(|(slot, score)| *slot -= block.weight * score);
                let scores = through.direct.iter_mut().zip(&draw.global_score);
                scores.for_each(|(slot, score)| *slot -= block.weight * score);
                if let Some(rows) = &block.outer {
                    let width = block.family.outer();
                    rows.scatter(&draw.outer_score, width, -block.weight, &mut gradients[rows.block]);
                }
            }
            through.elbo += match self.of_draw() {
                Self::ClosedFormEntropy => block.weight * block.family.entropy(block.parameters),
                _ => -block.weight * draw.log_density,
            };
            let inputs = block.inputs(deviation, outer);
            let by_offset = from_inside[index].take().map(|mut inside| {
                add(&mut inside, &gradient);
                inside
            });
            let gradient = RowGradient { grad_mean: &gradient, grad_offset: by_offset.as_ref().unwrap_or(&gradient) };
            let reached = block.family.vjp(inputs, draw, gradient, &mut out[index]);
            add(&mut through.path, &reached.globals);
            if let Some(rows) = &block.outer {
                let zeros = || vec![0.0; draws[rows.block].draw.latent.len()];
                let inside = from_inside[rows.block].get_or_insert_with(zeros);
                rows.scatter(&reached.outer, block.family.outer(), 1.0, inside);
            }
            if self.adds_entropy_gradient() {
                let is_expected = self.of_draw() == Self::ClosedFormEntropy;
                let path = block.family.add_entropy_gradient(inputs, block.weight, is_expected, &mut out[index]);
                add(&mut through.path, &path);
            }
        }
        through
    }
}

/// What the local posterior of a party adds to its share.
#[derive(Debug)]
pub(crate) struct ThroughLocals {
    /// The entropy's part of the bound.
    pub(crate) elbo: f64,
    /// What reaches the globals at fixed local draws: the score of the local posterior, where it is subtracted.
    pub(crate) direct: Vec<f64>,
    /// What reaches $`Z_G - \mu_G`$ through the local draws.
    pub(crate) path: Vec<f64>,
}

impl ThroughLocals {
    /// Adds what reaches the globals to a share.
    pub(crate) fn reach(&self, elbo_term: &mut ElboTerm) {
        if !self.path.is_empty() {
            add(&mut elbo_term.grad_mean, &self.direct);
            add(&mut elbo_term.grad_offset, &self.direct);
            add(&mut elbo_term.grad_offset, &self.path);
        }
    }
}

/// Draws the local latents of every block, outer rows before the rows inside them.
pub(crate) fn draw_blocks(blocks: &[BlockDraw<'_>], deviation: &[f64]) -> Vec<DrawnRows> {
    let mut draws: Vec<DrawnRows> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let outer = block.outer.map_or_else(Vec::new, |rows| {
            let around = &blocks[rows.block];
            let offset = around.family.offset(around.parameters, &draws[rows.block].draw);
            rows.gather(&offset, block.family.outer())
        });
        let draw = block.family.draw(block.inputs(deviation, &outer));
        draws.push(DrawnRows { draw, outer });
    }
    draws
}

/// What `evaluate` gives of the latents of all blocks, which are lent to it: they are long, and not copied.
pub(crate) fn with_latents<T>(draws: &mut [DrawnRows], evaluate: impl FnOnce(&[Vec<f64>]) -> T) -> T {
    let latents: Vec<Vec<f64>> = draws.iter_mut().map(|drawn| std::mem::take(&mut drawn.draw.latent)).collect();
    let found = evaluate(&latents);
    draws.iter_mut().zip(latents).for_each(|(drawn, own)| drawn.draw.latent = own);
    found
}

/// Adds `terms` to `out`.
pub(crate) fn add<T: DrawNumber>(out: &mut [T], terms: &[T]) {
    add_times(out, 1.0, terms);
}

/// Adds `factor` times `terms` to `out`, on idle threads too where they are many.
pub(crate) fn add_times<T: DrawNumber>(out: &mut [T], factor: f64, terms: &[T]) {
    if out.len() <= PART {
        return T::add_scaled(out, factor, terms);
    }
    assert_eq!(out.len(), terms.len(), "invariant: vectors that are added are of one length");
    let parts = out.par_chunks_mut(PART).zip(terms.par_chunks(PART));
    parts.for_each(|(out, terms)| T::add_scaled(out, factor, terms));
}
