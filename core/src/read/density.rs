//! Reads a model as the log density of unconstrained vectors, with its gradient.

use std::sync::atomic::Ordering::Relaxed;

use burn::module::Module;

use super::gradient::{ValueAndGradient, collect, collect_own};
use super::latents::Latents;
use crate::declare::model::Model;
use crate::declare::scope::{
    AnyMoments, Density, Layers, LocalPart, Minibatch, Moments, Outcome, Reading, Scope, Source, Tape, Terms,
};
use crate::declare::site::{Part, SiteTable};
use crate::declare::theta;
use crate::device::Device;
use crate::distribution::Loss;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::operation::own_tape;
use crate::number::Number;

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
/// #         scope.plate("row", data.dims()[0], |s, rows| {
/// #             s.observe("y", Normal::new(mean.clone(), 1.0).over(rows), rows.take(data)?)
/// #         })
/// #     }
/// # }
/// let device = Device::flex();
/// let table = SiteTable::globals(&Mean {}, &device)?;
/// let density = LogDensity::new(&Mean {}, &device, &table);
/// let prior = density.global(&[0.5])?;
/// assert!((prior.globals[0] + 0.5).abs() < 1e-15);
/// let square_root = density.prior(0.5).global(&[0.5])?;
/// assert!((square_root.globals[0] + 0.25).abs() < 1e-15);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug)]
pub struct LogDensity<'a, M> {
    pub(super) model: &'a M,
    pub(super) device: &'a Device,
    pub(super) table: &'a SiteTable,
    pub(super) minibatch: &'a [Minibatch],
    pub(super) weight: f64,
    prior: f64,
    pub(super) loss: Loss,
    moments: Option<AnyMoments<'a>>,
    on_burn_tape: bool,
}

impl<'a, M: Model> LogDensity<'a, M> {
    /// Binds a model to a device and its site table.
    #[must_use]
    pub fn new(model: &'a M, device: &'a Device, table: &'a SiteTable) -> Self {
        let loss = Loss::default();
        Self { model, device, table, minibatch: &[], weight: 1.0, prior: 1.0, loss, moments: None, on_burn_tape: false }
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

    /// Takes the global part to this power: its log densities, with log-Jacobians, are multiplied by `power`.
    #[must_use]
    pub fn prior(mut self, power: f64) -> Self {
        self.prior = power;
        self
    }

    /// Lets every observed site contribute minus its `loss`, observation by observation, instead of its log density.
    ///
    /// Log densities of latents and factors stay what they are: a likelihood declared as a factor has no observations.
    /// Minibatches and weights multiply a loss as they do a log density.
    ///
    /// # Errors
    /// Readings with a loss give [`Error::Argument`] for an index outside its domain, and [`Error::Loss`] for a
    /// distribution without the integral that the loss needs; [`LogDensity::locally_enhanced`] and readings that stay
    /// on the device take [`Loss::NegativeLogLikelihood`] only.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// Passes rows through linear layers by local reparameterisation: [`LogDensity::local`] then reads these moments,
    /// and not the latents, of every site that [`crate::Site::is_layer`].
    #[must_use]
    pub fn moments<T: Number>(mut self, moments: Moments<'a, T>) -> Self {
        self.moments = Some(moments.into());
        self
    }

    /// Evaluates on Burn's tape what Partita's own would do faster, to compare the two.
    #[doc(hidden)]
    #[must_use]
    pub fn on_burn_tape(mut self) -> Self {
        self.on_burn_tape = true;
        self
    }

    /// $\log p_\theta(Z_G)$ and its gradient by the unconstrained global vector.
    ///
    /// # Errors
    /// [`Error::Length`] for a vector of the wrong length; otherwise what the model's statements refuse.
    pub fn global(&self, globals: &[f64]) -> Result<ValueAndGradient> {
        self.global_of(globals)
    }

    /// [`LogDensity::global`] of a vector of either precision.
    ///
    /// # Errors
    /// As for [`LogDensity::global`].
    pub fn global_of<T: Number>(&self, globals: &[T]) -> Result<ValueAndGradient<T>> {
        self.table.check_latents(globals, None, |_| 0)?;
        let evaluate = |latents: Tape| -> Result<Outcome> {
            let reading = Density { latents, ..self.reading(Terms::Joint) };
            let mut scope = self.scope(Source::globals(globals), reading);
            scope.run(|scope| self.model.global(scope))?;
            scope.ended()?;
            Ok(scope.outcome)
        };
        if self.table.global_tape {
            return self.on_either_tape(Part::Global, ValueAndGradient::default(), evaluate);
        }
        self.finish(evaluate(Tape::Constants)?, ValueAndGradient::default(), &[])
    }

    /// $\log p_\theta(y_j, Z_{L_j} \mid Z_G)$ and its gradients: the share of one silo.
    ///
    /// # Errors
    /// As for [`LogDensity::global`].
    pub fn local(&self, latents: Latents<'_>, data: &M::Data) -> Result<ValueAndGradient> {
        self.local_of(latents, data)
    }

    /// [`LogDensity::local`] at globals of either precision.
    ///
    /// # Errors
    /// As for [`LogDensity::global`].
    pub fn local_of<T: Number>(&self, latents: Latents<'_, T>, data: &M::Data) -> Result<ValueAndGradient<T>> {
        self.with_locals(latents, data, self.given_globals(), &[])
    }

    /// The sum of [`LogDensity::local`] over particles that differ in the noise of linear layers, and its gradients.
    ///
    /// ```math
    /// \sum_k \log p_\theta(y_j \mid M + \sqrt V \odot \varepsilon_k)
    /// ```
    /// with the noise $\varepsilon_k$ of the moments' key for `particles[k]` in place of its own particle. All are
    /// evaluated on one tape, on which layers keep the moments of constant rows: a first layer's products are done once
    /// for all.
    ///
    /// # Errors
    /// [`Error::Argument`] without moments, without particles, or for a model with local latents, which a particle has
    /// its own draws of: evaluate them one by one. Otherwise as for [`LogDensity::global`].
    pub fn local_sum(&self, globals: &[f64], data: &M::Data, particles: &[u32]) -> Result<ValueAndGradient> {
        let has_locals = self.table.has_local_latents();
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
        self.with_locals(Latents { globals, locals: &locals }, data, self.given_globals(), particles)
    }

    /// $\log p_\theta(Z_G, Z_{L_j}, y_j)$ and its gradients in one pass.
    ///
    /// # Errors
    /// As for [`LogDensity::global`].
    pub fn joint(&self, latents: Latents<'_>, data: &M::Data) -> Result<ValueAndGradient> {
        self.joint_of(latents, data)
    }

    /// [`LogDensity::joint`] at globals of either precision.
    ///
    /// # Errors
    /// As for [`LogDensity::global`].
    pub fn joint_of<T: Number>(&self, latents: Latents<'_, T>, data: &M::Data) -> Result<ValueAndGradient<T>> {
        self.with_locals(latents, data, self.reading(Terms::Joint), &[])
    }

    /// The log density that `reading` asks for: once, or once for each of `particles` where there are any.
    fn with_locals<T: Number>(
        &self,
        latents: Latents<'_, T>,
        data: &M::Data,
        reading: Density<'_>,
        particles: &[u32],
    ) -> Result<ValueAndGradient<T>> {
        self.table.check_minibatch(self.minibatch)?;
        self.table.check_latents(latents.globals, Some(latents.locals), |block| self.rows(block))?;
        self.loss.check()?;
        let blank = self.blank(latents);
        if let Some(Layers { moments, .. }) = &reading.layers {
            self.table.check_globals(moments.means.len())?;
            self.table.check_globals(moments.variances.len())?;
            return self.finish(self.outcome(latents, data, reading, particles)?, blank, &[]);
        }
        let terms = reading.terms;
        self.on_either_tape(Part::Local, blank, |tape| {
            self.outcome(latents, data, Density { latents: tape, ..self.reading(terms) }, particles)
        })
    }

    /// What the whole model gives at these latents.
    fn outcome<T: Number>(
        &self,
        latents: Latents<'_, T>,
        data: &M::Data,
        reading: Density<'_>,
        particles: &[u32],
    ) -> Result<Outcome> {
        let mut scope = self.scope(latents.source(), reading);
        let globals = scope.run(|scope| self.model.global(scope))?;
        scope.begin_local(self.local_part());
        let first = scope.next_site();
        for particle in particles.iter().copied().map(Some).chain(particles.is_empty().then_some(None)) {
            if let Some(particle) = particle {
                scope.begin_particle(first, particle);
            }
            scope.run(|scope| self.model.local(scope, &globals, data))?;
            scope.ended()?;
        }
        Ok(scope.outcome)
    }

    /// What `evaluate` gives with latents on Partita's own tape, or on Burn's where the sum of densities has met an
    /// operation that is not Partita's, and for a model with θ.
    fn on_either_tape<T: Number>(
        &self,
        part: Part,
        blank: ValueAndGradient<T>,
        evaluate: impl Fn(Tape) -> Result<Outcome>,
    ) -> Result<ValueAndGradient<T>> {
        if self.tries_own_tape(part) {
            let (outcome, tape) = own_tape::during(|| evaluate(Tape::Own));
            let mut outcome = outcome?;
            let root = outcome.tape.take().map(Handle::from);
            let gradients = root.as_ref().map(|root| tape.backward(root));
            if !matches!(gradients, Some(None)) {
                own_tape::sweep(self.device);
                return collect_own(outcome, self.table, blank, gradients.flatten());
            }
            self.table.needs_burn_tape(part).store(true, Relaxed);
        }
        self.finish(evaluate(Tape::Leaves)?, blank, &[])
    }

    /// Whether evaluations of this part take Partita's own tape, as far as is known.
    pub(super) fn tries_own_tape(&self, part: Part) -> bool {
        let needs_burn_tape = self.table.needs_burn_tape(part);
        if self.on_burn_tape || needs_burn_tape.load(Relaxed) {
            return false;
        }
        let is_without_theta = Module::num_params(self.model) == 0;
        if !is_without_theta {
            needs_burn_tape.store(true, Relaxed);
        }
        is_without_theta
    }

    pub(super) fn reading(&self, terms: Terms) -> Density<'a> {
        Density { loss: self.loss, ..Density::of(terms) }
    }

    /// The reading of the local part, the only one that may do without the weights of layers: their prior is that of
    /// drawn ones.
    fn given_globals(&self) -> Density<'a> {
        let layers = self.moments.map(|moments| Layers { moments, passes: Vec::new() });
        Density { layers, ..self.reading(Terms::Local) }
    }

    pub(super) fn scope<'s>(&'s self, source: Source<'s>, reading: Density<'s>) -> Scope<'s> {
        self.scope_of(source, Reading::Density(reading))
    }

    /// A scope for this reading, at the beginning of the global part.
    pub(super) fn scope_of<'s>(&'s self, source: Source<'s>, reading: Reading<'s>) -> Scope<'s> {
        let mut scope = Scope::new(self.device, self.table, source, reading);
        scope.begin_global(self.prior);
        scope
    }

    pub(super) fn local_part(&self) -> LocalPart<'a> {
        LocalPart { minibatch: self.minibatch, weight: self.weight }
    }

    /// Gradients of zero for the local blocks.
    pub(super) fn blank<T: Number>(&self, latents: Latents<'_, T>) -> ValueAndGradient<T> {
        ValueAndGradient {
            locals: latents.locals.iter().map(|block| vec![0.0; block.len()]).collect(),
            ..ValueAndGradient::default()
        }
    }

    /// Rows now evaluated of a block.
    pub(super) fn rows(&self, block: usize) -> usize {
        self.table.chosen(block, self.minibatch).map_or(self.table.blocks[block].rows, |(rows, _)| rows.len())
    }

    pub(super) fn finish<T: Number>(
        &self,
        outcome: Outcome,
        blank: ValueAndGradient<T>,
        row_weights: &[f64],
    ) -> Result<ValueAndGradient<T>> {
        collect(outcome, self.table, blank, row_weights, |gradients| theta::gradient(self.model, gradients))
    }
}
