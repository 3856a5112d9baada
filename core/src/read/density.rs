//! Reads a model as the log density of unconstrained vectors, with its gradient.

use burn::tensor::{Gradients, Tensor, TensorData};

use super::latents::Latents;
use crate::declare::model::Model;
use crate::declare::scope::{Leaf, Minibatch, Moments, Outcome, Scope, Source, Table};
use crate::declare::site::{Part, SiteTable};
use crate::declare::theta;
use crate::device::{Device, add_data, data_to_array};
use crate::distribution::Loss;
use crate::error::{Error, Result};
use crate::math::kernel::add_scaled;

/// A log density (nats) and its gradient by the unconstrained latents and by θ.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Assessment {
    /// The log density, including log-Jacobians of the maps to the supports.
    pub value: f64,
    /// Gradient by the global vector.
    pub globals: Vec<f64>,
    /// Gradient by each local block.
    pub locals: Vec<Vec<f64>>,
    /// Gradient by the model's own trainable parameters, in the order Burn visits them.
    pub theta: Vec<f64>,
    /// Gradient by the means of linear layers, zero for other globals, which have theirs in `globals`; empty unless
    /// [`LogDensity::moments`] were given.
    pub means: Vec<f64>,
    /// Gradient by the variances of linear layers, zero for other globals; empty unless moments were given.
    pub variances: Vec<f64>,
}

/// A locally enhanced bound's share with its gradients, and the weights of the inner draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Enhanced {
    /// Value and gradients.
    pub assessment: Assessment,
    /// $\tilde w_{rk} N/B$: the normalised weight of each repeat of each row, times the scale of the row.
    pub weights: Vec<f64>,
    /// $N/B$, times the weight of the local part.
    pub scale: f64,
}

/// A model bound to a device and a site table, ready to be evaluated as a log density.
///
/// # Example
/// ```
/// use partita_core::{Device, LogDensity, Model, Normal, Result, Scope, SiteTable, burn};
/// use burn::{module::Module, tensor::Tensor};
/// # #[derive(Module, Debug)]
/// # struct Mean {}
/// # impl Model for Mean {
/// #     type Globals = Tensor<1>;
/// #     type Data = Tensor<1>;
/// #     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("mean", Normal::new(0.0, 1.0)) }
/// #     fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
/// #         scope.plate("row", data.dims()[0], |s, rows| s.observe("y", Normal::new(mean.clone(), 1.0).over(rows), rows.take(data)?))
/// #     }
/// # }
/// let device = Device::flex();
/// let table = SiteTable::globals(&Mean {}, &device)?;
/// let density = LogDensity::new(&Mean {}, &device, &table);
/// let prior = density.global(&[0.5])?;
/// assert!((prior.globals[0] + 0.5).abs() < 1e-15);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug)]
pub struct LogDensity<'a, M> {
    pub(super) model: &'a M,
    pub(super) device: &'a Device,
    pub(super) table: &'a SiteTable,
    pub(super) minibatch: &'a [Minibatch],
    pub(super) weight: f64,
    pub(super) loss: Loss,
    moments: Option<Moments<'a>>,
}

impl<'a, M: Model> LogDensity<'a, M> {
    /// Binds a model to a device and its site table.
    #[must_use]
    pub fn new(model: &'a M, device: &'a Device, table: &'a SiteTable) -> Self {
        Self { model, device, table, minibatch: &[], weight: 1.0, loss: Loss::default(), moments: None }
    }

    /// Evaluates only these rows of the plates named; their log densities are multiplied by N/B.
    #[must_use]
    pub fn minibatch(mut self, minibatch: &'a [Minibatch]) -> Self {
        self.minibatch = minibatch;
        self
    }

    /// Multiplies the local part by `weight`.
    #[must_use]
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// Lets every observed site contribute minus its `loss`, observation by observation, instead of its log density.
    ///
    /// Log densities of latents and factors stay what they are: a likelihood declared as a factor has no observations.
    /// Minibatches and weights multiply a loss as they do a log density.
    ///
    /// # Errors
    /// Readings with a loss give [`Error::Argument`] for an index outside its domain, and [`Error::Loss`] for a
    /// distribution without the integral that the loss needs; [`LogDensity::locally_enhanced`] and readings that stay on
    /// the device take [`Loss::NegativeLogLikelihood`] only.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// Passes rows through linear layers by local reparameterisation: [`LogDensity::local`] then reads these moments, and
    /// not the latents, of every site that [`crate::Site::is_layer`].
    #[must_use]
    pub fn moments(mut self, moments: Moments<'a>) -> Self {
        self.moments = Some(moments);
        self
    }

    /// $\log p_\theta(Z_G)$ and its gradient by the unconstrained global vector.
    ///
    /// # Errors
    /// [`Error::Length`] for a vector of the wrong length; otherwise what the model's statements refuse.
    pub fn global(&self, globals: &[f64]) -> Result<Assessment> {
        self.table.check_latents(globals, None, |_| 0)?;
        let mut scope = self.scope(Source { globals: Some(globals), ..Source::default() });
        scope.taping = self.table.global_tape;
        self.model.global(&mut scope)?;
        scope.ended()?;
        self.finish(scope, None, &[])
    }

    /// $\log p_\theta(y_j, Z_{L_j} \mid Z_G)$ and its gradients: the share of one silo.
    ///
    /// # Errors
    /// As for [`LogDensity::global`].
    pub fn local(&self, latents: Latents<'_>, data: &M::Data) -> Result<Assessment> {
        self.with_locals(latents, data, true, &[])
    }

    /// The sum of [`LogDensity::local`] over particles that differ in the noise of linear layers, and its gradients.
    ///
    /// ```math
    /// \sum_k \log p_\theta(y_j \mid M + \sqrt V \odot \varepsilon_k)
    /// ```
    /// with the noise $\varepsilon_k$ of the moments' key for `particles[k]` in place of its own particle. All are evaluated on
    /// one tape, on which layers keep the moments of constant rows: a first layer's products are done once for all.
    ///
    /// # Errors
    /// [`Error::Argument`] without moments, without particles, or for a model with local latents, which a particle has its
    /// own draws of: evaluate them one by one. Otherwise as for [`LogDensity::global`].
    pub fn local_sum(&self, globals: &[f64], data: &M::Data, particles: &[u32]) -> Result<Assessment> {
        let has_locals = self.table.blocks.iter().any(|block| block.width > 0);
        if self.moments.is_none() || has_locals || particles.is_empty() {
            let found = match (particles.is_empty(), has_locals) {
                (true, _) => "no particles",
                (false, true) => "a model with local latents",
                (false, false) => "no moments",
            };
            return Err(Error::Argument {
                operation: "local densities of several particles".into(),
                argument: "moments",
                found: found.into(),
                expected: "moments, particles, and a model without local latents; call `local` for each particle instead",
            });
        }
        let locals = vec![Vec::new(); self.table.blocks.len()];
        self.with_locals(Latents { globals, locals: &locals }, data, true, particles)
    }

    /// $\log p_\theta(Z_G, Z_{L_j}, y_j)$ and its gradients in one pass.
    ///
    /// # Errors
    /// As for [`LogDensity::global`].
    pub fn joint(&self, latents: Latents<'_>, data: &M::Data) -> Result<Assessment> {
        self.with_locals(latents, data, false, &[])
    }

    /// The locally enhanced bound's share of one silo, and its gradients.
    ///
    /// ```math
    /// \sum_r \frac NB \log \frac1K \sum_k \frac{p_\theta(y_r, z_{rk} \mid Z_G)}{q(z_{rk} \mid Z_G)}
    /// ```
    /// with the rows $r$ and repeats $K$ of the one minibatch given, `latents` the draws $z_{rk}$ and `log_q` their log
    /// densities, one a repeat of a row. Gradients are those of the numerators with the normalised weights of the
    /// repeats: a gradient by a draw $z_{rk}$ holds its weight $\tilde w_{rk}N/B$ as a factor.
    ///
    /// # Errors
    /// As for [`LogDensity::global`]; [`Error::Length`] if `log_q` is not one number for each repeat.
    ///
    /// # References
    /// Geffner and Domke (2022), arXiv:2203.04432; Burda, Grosse and Salakhutdinov (2016) for the inner average.
    pub fn locally_enhanced(&self, latents: Latents<'_>, data: &M::Data, log_q: &[f64]) -> Result<Enhanced> {
        self.table.check_latents(latents.globals, Some(latents.locals), |block| self.rows(block))?;
        if !self.loss.is_log() {
            return Err(Error::Argument {
                operation: "locally enhanced bound".into(),
                argument: "loss",
                found: self.loss.to_string(),
                expected: "the negative log likelihood, whose exponential the bound averages; use another estimator",
            });
        }
        let mut scope = self.scope(source(latents));
        scope.quiet = true;
        let globals = self.model.global(&mut scope)?;
        (scope.quiet, scope.part, scope.weight, scope.minibatch) = (false, Part::Local, self.weight, self.minibatch);
        scope.rowwise = true;
        self.model.local(&mut scope, &globals, data)?;
        scope.ended()?;
        let rows = std::mem::take(&mut scope.outcome.rows);
        if log_q.len() != rows.len() || self.minibatch.len() != 1 {
            return Err(Error::Length {
                operation: "log densities of inner draws".into(),
                found: log_q.len(),
                expected: rows.len(),
                remedy: "Give one number for each repeat of each row of one plate.".into(),
            });
        }
        let batch = &self.minibatch[0];
        let total = self.table.blocks.iter().find(|block| block.plate.as_ref() == Some(&batch.plate));
        #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^52")]
        let scale = self.weight * total.map_or(1.0, |block| (block.rows * batch.repeats) as f64 / rows.len() as f64);
        let mut weights = Vec::with_capacity(rows.len());
        let mut value = scope.outcome.total;
        let ratios: Vec<f64> = rows.iter().zip(log_q).map(|(log_p, log_q)| log_p - log_q).collect();
        for row in ratios.chunks(batch.repeats) {
            let sum = crate::math::special::log_sum_exp(row);
            #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 repeats")]
            let count = (row.len() as f64).ln();
            value += scale * (sum - count);
            weights.extend(row.iter().map(|ratio| scale * (ratio - sum).exp()));
        }
        if let Some(tape) = scope.outcome.row_tape.take() {
            let weights: Tensor<1> = self.device.tensor(weights.clone(), [weights.len()]);
            let term = (tape * weights).sum();
            scope.outcome.tape = Some(match scope.outcome.tape.take() {
                Some(sum) => sum + term,
                None => term,
            });
        }
        for leaf in scope.outcome.leaves.iter_mut().filter(|leaf| leaf.rowwise) {
            let each = (leaf.host_gradient.len() / weights.len()).max(1);
            for (row, weight) in leaf.host_gradient.chunks_mut(each).zip(&weights) {
                row.iter_mut().for_each(|gradient| *gradient *= weight);
            }
        }
        let lengths = latents.locals.iter().map(Vec::len).collect();
        let assessment = self.finish(scope, Some(lengths), &weights)?;
        Ok(Enhanced { assessment: Assessment { value, ..assessment }, weights, scale })
    }

    /// Once, or once for each of `particles` where there are any.
    fn with_locals(&self, latents: Latents<'_>, data: &M::Data, quiet: bool, particles: &[u32]) -> Result<Assessment> {
        self.table.check_latents(latents.globals, Some(latents.locals), |block| self.rows(block))?;
        self.loss.check()?;
        // The prior of a layer is that of drawn weights: only a reading without it may do without them.
        let moments = self.moments.filter(|_| quiet);
        if let Some(moments) = moments {
            self.table.check_latents(moments.means, None, |_| 0)?;
            self.table.check_latents(moments.variances, None, |_| 0)?;
        }
        let mut scope = self.scope(Source { moments, ..source(latents) });
        scope.quiet = quiet;
        let globals = self.model.global(&mut scope)?;
        (scope.quiet, scope.part, scope.weight, scope.minibatch) = (false, Part::Local, self.weight, self.minibatch);
        let first = scope.next;
        for particle in particles.iter().copied().map(Some).chain(particles.is_empty().then_some(None)) {
            if let Some(particle) = particle {
                scope.begin_particle(first, particle);
            }
            self.model.local(&mut scope, &globals, data)?;
            scope.ended()?;
        }
        let lengths = latents.locals.iter().map(Vec::len).collect();
        self.finish(scope, Some(lengths), &[])
    }

    pub(super) fn scope<'s>(&'s self, source: Source<'s>) -> Scope<'s> {
        let mut scope = Scope::new(self.device, Table::Known(self.table), source);
        (scope.scoring, scope.tracking, scope.loss) = (true, true, self.loss);
        scope
    }

    /// Rows now evaluated of a block.
    pub(super) fn rows(&self, block: usize) -> usize {
        let block = &self.table.blocks[block];
        let chosen = self.minibatch.iter().find(|batch| Some(&batch.plate) == block.plate.as_ref());
        chosen.map_or(block.rows, |batch| batch.rows.len())
    }

    fn finish(&self, scope: Scope<'_>, local_lengths: Option<Vec<usize>>, row_weights: &[f64]) -> Result<Assessment> {
        let mut assessment = Assessment {
            locals: local_lengths.unwrap_or_default().into_iter().map(|length| vec![0.0; length]).collect(),
            ..Assessment::default()
        };
        if scope.source.moments.is_some() {
            assessment.means = vec![0.0; self.table.global_len];
            assessment.variances = vec![0.0; self.table.global_len];
        }
        let theta = |gradients: Option<&Gradients>| theta::gradient(self.model, gradients);
        collect(scope.outcome, self.table, assessment, row_weights, theta)
    }
}

/// The value and the gradients by the globals of a reading of globals alone, with `theta` those by point parameters.
pub(crate) fn gradients_of(
    outcome: Outcome,
    table: &SiteTable,
    theta: impl FnOnce(Option<&Gradients>) -> Result<Vec<f64>>,
) -> Result<Assessment> {
    collect(outcome, table, Assessment::default(), &[], theta)
}

/// Runs the tape of a reading backward and puts every gradient in its place of `assessment`.
fn collect(
    outcome: Outcome,
    table: &SiteTable,
    mut assessment: Assessment,
    row_weights: &[f64],
    theta: impl FnOnce(Option<&Gradients>) -> Result<Vec<f64>>,
) -> Result<Assessment> {
    assessment.value = outcome.total;
    assessment.globals = vec![0.0; table.global_len];
    let gradients = outcome.tape.map(|tape| tape.backward());
    for leaf in outcome.leaves {
        let tape = match &gradients {
            Some(gradients) => tape_gradient(&leaf, gradients)?,
            None => None,
        };
        match tape {
            // Most numbers of most models: written once, where they belong.
            Some(tape) if leaf.constrained.is_empty() && table.sites[leaf.site].part == Part::Global => {
                add_data(tape, &leaf.host_gradient, global_place(table, &leaf, &mut assessment));
            }
            tape => pull_back(table, leaf, tape, row_weights, &mut assessment)?,
        }
    }
    assessment.theta = theta(gradients.as_ref())?;
    Ok(assessment)
}

/// Takes a leaf's gradient back to unconstrained numbers and adds it at the site's place.
fn pull_back(
    table: &SiteTable,
    mut leaf: Leaf,
    tape: Option<TensorData>,
    row_weights: &[f64],
    out: &mut Assessment,
) -> Result<()> {
    let site = &table.sites[leaf.site];
    let mut gradient = match tape {
        Some(tape) => {
            let mut tape = data_to_array(tape).values;
            if !leaf.host_gradient.is_empty() {
                add_scaled(&mut tape, 1.0, &leaf.host_gradient);
            }
            tape
        }
        None => std::mem::take(&mut leaf.host_gradient),
    };
    if !leaf.constrained.is_empty() {
        let Some(bijector) = &site.bijector else { unreachable!("invariant: a latent site has a bijector") };
        gradient.resize(leaf.constrained.len(), 0.0);
        let mut pulled = vec![0.0; leaf.unconstrained.len()];
        let one = bijector.unconstrained_len(site.event)?.max(1);
        let event = site.event.max(1);
        let inputs = leaf.unconstrained.chunks_exact(one).zip(leaf.constrained.chunks_exact(event));
        let events = gradient.len() / event;
        let parts = inputs.zip(gradient.chunks_exact(event)).zip(pulled.chunks_exact_mut(one));
        for (index, (((u, x), g), result)) in parts.enumerate() {
            let weight = if leaf.rowwise { row_weights[index * row_weights.len() / events] } else { leaf.weight };
            bijector.pull_back(u, x, g, weight, result);
        }
        gradient = pulled;
    }
    if site.part == Part::Global {
        if !gradient.is_empty() {
            add_scaled(global_place(table, &leaf, out), 1.0, &gradient);
        }
        return Ok(());
    }
    let width = table.blocks[site.block].width;
    let block = &mut out.locals[site.block];
    if width == site.width && gradient.len() == block.len() {
        *block = gradient;
        return Ok(());
    }
    for (row, terms) in block.chunks_exact_mut(width).zip(gradient.chunks_exact(site.width)) {
        row[site.offset..site.offset + site.width].copy_from_slice(terms);
    }
    Ok(())
}

/// Where the gradient of a leaf of the globals belongs.
fn global_place<'o>(table: &SiteTable, leaf: &Leaf, out: &'o mut Assessment) -> &'o mut [f64] {
    let site = &table.sites[leaf.site];
    let vector = match (leaf.variance, site.layer && !out.means.is_empty()) {
        (true, _) => &mut out.variances,
        (false, true) => &mut out.means,
        (false, false) => &mut out.globals,
    };
    &mut vector[site.offset..site.offset + site.width]
}

fn source(latents: Latents<'_>) -> Source<'_> {
    Source { globals: Some(latents.globals), locals: Some(latents.locals), ..Source::default() }
}

/// The tape's gradient of a leaf, or `None` if nothing on the tape depends on it.
fn tape_gradient(leaf: &Leaf, gradients: &Gradients) -> Result<Option<TensorData>> {
    let leaf: Tensor<1> = leaf.handle.clone().typed();
    let Some(gradient) = leaf.grad(gradients) else { return Ok(None) };
    let data = gradient
        .try_into_data()
        .map_err(|error| Error::Device { operation: "reading a gradient".into(), reason: format!("{error:?}") })?;
    Ok(Some(data))
}
