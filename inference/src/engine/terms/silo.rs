//! Gives the silo's side of SFVI: draws with shared noise, gradient shares, and its own local step.

use partita_core::kernel::add_scaled;
use partita_core::{
    AnyData, AnyModel, Device, Key, Model, Noise, Part, Precision, Purpose, SiteTable, shared_theta, theta, with_theta,
};

use crate::engine::algorithm::{finite, movable};
use crate::engine::checkpoint::{NamedVectors, named};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::{DrawWeights, ElboTerm, Estimator, LayerMoments, add, check_layers, check_points};
use crate::engine::family::{CovarianceMatrix, DrawNumber, Family};
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::rows::{Locals, StepRows};
use crate::engine::settings::Settings;
use crate::engine::terms::coordinator::global_site;
use crate::engine::terms::messages::{EstimateRequest, Sizes, SlopeRequest, StepRequest, Terms};
use crate::engine::terms::noised::NoisedRows;
use crate::engine::terms::particles::{AllEvaluated, Context, Draws, Evaluated, LocalGradients, Worker};
use crate::engine::terms::pending::{LastWeights, Pending};
use crate::engine::trainer::adaptive::is_many;
use crate::engine::wire::message::Message;
use crate::engine::wire::typed::Rows;

/// One party of SFVI: its data, its local posterior, and the answers it gives.
///
/// Data, local latents and their variational parameters stay here; what leaves is listed in
/// [`crate::Algorithm::manifest`].
pub struct Silo {
    pub(crate) name: String,
    pub(crate) device: Device,
    pub(crate) settings: Settings,
    pub(crate) table: SiteTable,
    pub(crate) family: Box<dyn Family>,
    pub(crate) locals: Locals,
    /// Copies of model and data, one for each thread that evaluates particles.
    pub(crate) workers: Vec<Worker>,
    /// Numbers of θ that parties share.
    pub(crate) theta_len: usize,
    pub(crate) step: u64,
    /// The parameters of the global posterior that the latest request brought; empty before, and where no local
    /// posterior depends on the globals.
    seen: Vec<f64>,
    /// Gradients of the last step that wait for the weights of their draws.
    pub(crate) pending: Option<Pending>,
    /// What hides rows from local steps, where the silo is private.
    pub(crate) noised: Option<NoisedRows>,
}

/// The name of the saved globals.
const SEEN: &str = "seen.globals";

/// Refuses a learning rate that a coordinator cannot have found.
pub(crate) fn check_rate(kind: &str, rate: f64) -> Result<f64> {
    let problem = format_args!("its learning rate is {rate}, expected a finite one >= 0");
    Error::well_formed(rate >= 0.0 && rate.is_finite(), kind, problem)?;
    Ok(rate)
}

impl std::fmt::Debug for Silo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Silo").field("name", &self.name).field("step", &self.step).finish_non_exhaustive()
    }
}

impl Silo {
    /// A silo called `name`, the `index`-th of the run.
    ///
    /// # Errors
    /// What the model refuses of the data; [`Error::Setting`], [`Error::UnknownSite`].
    pub fn new<M: Model>(
        name: &str,
        index: u32,
        model: &M,
        data: &M::Data,
        device: &Device,
        settings: &Settings,
    ) -> Result<Self> {
        let model = &AnyModel::new(model);
        let data = &AnyData::new(data);
        settings.check()?;
        let table = SiteTable::of(model, device, data).map_err(|error| Error::from(error).in_silo(name, 0))?;
        settings.family.check(&table)?;
        settings.check_observations(&table)?;
        let family = settings.family.global_family(&table)?;
        let theta_len = shared_theta(model)?.len();
        let model = with_theta(model, &theta(model)?, device)?;
        let locals = Locals::new(&model, data, &table, settings, device, index)?;
        check_layers(settings.estimator, &table, &*family, locals.depend_on_globals())?;
        check_points(settings.estimator, &*family, locals.have_points())?;
        let workers = settings.silo_threads().min(settings.particles).max(1);
        Ok(Self {
            name: name.to_owned(),
            device: device.clone(),
            settings: settings.clone(),
            family,
            locals,
            table,
            workers: vec![Worker { model, data: data.clone() }; workers],
            theta_len,
            step: 0,
            seen: Vec::new(),
            pending: None,
            noised: None,
        })
    }

    /// Draws local noise and minibatches from a seed of the silo's own, which no other party knows.
    ///
    /// Without it they come from the seed of the run, which the coordinator has too: right for a simulation that is to
    /// be repeated, but then whoever holds the run's seed knows the noise behind every share.
    #[must_use]
    pub fn private_seed(mut self, seed: u64) -> Self {
        self.locals.set_seed(seed);
        self
    }

    /// The model's sites for this silo's data.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.table
    }

    /// The variational parameters of the local latents, one vector a block. For the silo's own use.
    ///
    /// With [`Estimator::ImportanceWeighted`] the step last answered is not in them before the next request.
    #[must_use]
    pub fn local_parameters(&self) -> Vec<Vec<f64>> {
        self.locals.parameters()
    }

    /// Replaces the variational parameters of the local latents; a step that waits for its weights is dropped.
    ///
    /// # Errors
    /// [`Error::Message`] if a length differs.
    pub fn set_local_parameters(&mut self, parameters: Vec<Vec<f64>>) -> Result<()> {
        let is_set = self.locals.set_parameters(parameters);
        Error::well_formed(is_set, "local parameters", "their lengths are not those of this silo")?;
        self.pending = None;
        Ok(())
    }

    /// Keeps the parameters of the global posterior, for the marginals of local latents.
    pub(crate) fn see(&mut self, globals: &[f64]) {
        if self.locals.depend_on_globals() {
            self.seen.clear();
            self.seen.extend_from_slice(globals);
        }
    }

    /// The globals last seen, as a named vector.
    pub(super) fn save_seen(&self) -> Option<(String, Vec<f64>)> {
        (!self.seen.is_empty()).then(|| (SEEN.to_owned(), self.seen.clone()))
    }

    /// Takes back what [`Silo::save_seen`] gave, or that there was nothing; false if it does not fit.
    pub(super) fn load_seen(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        let seen = named(state, SEEN).unwrap_or_default().to_vec();
        let fits = seen.is_empty() || seen.len() == self.family.parameter_len();
        self.seen = if fits { seen } else { Vec::new() };
        fits
    }

    /// Marginal moments of the local latents at these parameters of the global posterior.
    pub(crate) fn moments_at(&self, globals: &[f64]) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let Worker { model, data } = &self.workers[0];
        let covariance = self.covariance_at(globals);
        self.locals.moments(model, data, &self.table, covariance.as_ref())
    }

    /// The covariance of the globals last seen, where the local posterior depends on them.
    pub(crate) fn seen_covariance(&self) -> Option<CovarianceMatrix> {
        self.covariance_at(&self.seen)
    }

    fn covariance_at(&self, globals: &[f64]) -> Option<CovarianceMatrix> {
        let known = !globals.is_empty() && self.locals.depend_on_globals();
        known.then(|| self.family.covariance_matrix(globals))
    }

    /// What the lengths of requests and answers with so many draws follow from.
    pub(crate) fn sizes(&self, draws: usize) -> Sizes {
        Sizes::new(&*self.family, self.theta_len, draws, &self.settings)
    }

    /// Replaces the part of θ that parties share; the private part is that of the latest step.
    pub(crate) fn set_theta(&mut self, shared: &[f64]) -> Result<()> {
        let theta = self.locals.with_private(shared);
        if !theta.is_empty() {
            for worker in &mut self.workers {
                worker.model = with_theta(&worker.model, &theta, &self.device)?;
            }
        }
        Ok(())
    }

    /// Computes in this precision from here on, whatever that of its device.
    pub(crate) fn recast(&mut self, precision: Precision) -> Result<()> {
        self.device = self.device.clone().with_precision(precision);
        for worker in &mut self.workers {
            worker.model = with_theta(&worker.model, &theta(&worker.model)?, &self.device)?;
        }
        Ok(())
    }

    /// Shares and local gradients of particles `0..count`, in order, whatever the number of threads.
    ///
    /// Gradients by what an encoder gave become part of the gradient by θ, of the first particle's share, and leave an
    /// empty vector behind; for a report they are not needed and stay.
    pub(crate) fn elbo_terms(
        &mut self,
        globals: &[f64],
        rows: &mut StepRows,
        draw: Draws,
        local: LocalGradients,
    ) -> Result<Vec<Evaluated<ElboTerm>>> {
        let AllEvaluated { draws: mut elbo_terms, by_theta } =
            self.evaluate(globals, rows, draw, |context, workers| context.all(workers, local))?;
        if let (Some(theta), Some(first)) = (by_theta, elbo_terms.first_mut()) {
            add(&mut first.found.theta, &theta);
        }
        Ok(elbo_terms)
    }

    /// What `all` finds of the draws at these rows, with the gradient by θ that encoders pull back for a step.
    pub(super) fn evaluate<T>(
        &mut self,
        globals: &[f64],
        rows: &mut StepRows,
        draw: Draws,
        all: impl FnOnce(&Context<'_>, &mut [Worker]) -> Result<Vec<Evaluated<T>>>,
    ) -> Result<AllEvaluated<T>> {
        let layers = (self.settings.estimator == Estimator::LocalReparameterisation && draw.purpose == Purpose::Fit)
            .then(|| LayerMoments::new(&*self.family, globals));
        let Worker { model, data } = &self.workers[0];
        let encodings = self.locals.encode(model, data, &self.table, rows)?;
        let context = Context {
            device: &self.device,
            settings: &self.settings,
            table: &self.table,
            family: &*self.family,
            locals: &self.locals,
            globals,
            rows,
            draw,
            layers,
        };
        let mut results = all(&context, &mut self.workers)?;
        if draw.purpose != Purpose::Fit {
            return Ok(AllEvaluated { draws: results, by_theta: None });
        }
        let particles = results.iter_mut().map(|own| own.by_local.as_mut_slice());
        let particles = particles.filter(|own| !own.is_empty()).collect();
        let by_theta = encodings.vjp(&self.workers[0].model, &self.device, particles)?;
        Ok(AllEvaluated { draws: results, by_theta })
    }

    /// The learning rate of a step: that of the request, where it has one.
    fn rate(&self, request: &StepRequest) -> Result<f64> {
        let Some(rate) = request.rate else { return Ok(self.settings.rate(request.step)) };
        check_rate(StepRequest::KIND, rate)
    }

    /// Answers with the terms of a step, and takes one step of the local parameters.
    fn step(&mut self, request: &StepRequest) -> Result<Message> {
        let StepRequest { step, global, .. } = request;
        let step = *step;
        let rate = self.rate(request)?;
        let is_served = !self.settings.estimator.weighs_draws() || self.locals.private_theta().is_empty();
        let found = format_args!("{:?} with private θ in a silo of Sfvi", self.settings.estimator);
        let expected = "Central or SfviAvg, or an estimator whose draws weigh the same: Sfvi sends no weights of θ";
        Error::unless(is_served, "estimator", found, expected)?;
        self.settle(LastWeights::told(request.weighted_step, request.weights.as_deref()))?;
        self.set_theta(&request.theta)?;
        let draw = Draws::shared(Purpose::Fit, step, self.settings.particles);
        if request.undone.is_some() {
            self.locals.forget(&self.settings, &self.device);
        }
        let mut rows = self.locals.rows(step);
        let found = self.elbo_terms(global, &mut rows, draw, LocalGradients::of_step(self.settings.estimator))?;
        let found = found.into_iter().map(|own| (own.found, own.by_local));
        let (mut elbo_terms, local): (Vec<ElboTerm>, Vec<_>) = found.unzip();
        for gradient in &local {
            self.check_local(gradient, step)?;
        }
        self.check(&elbo_terms, step)?;
        let private = self.locals.take_private(&mut elbo_terms);
        let is_asked = step == 0 && is_many(self.family.parameter_len() + self.theta_len);
        let rows_have_latents = is_asked.then(|| self.table.has_local_latents());
        let terms = Terms { rows_have_latents, ..self.terms(step, global, &elbo_terms, draw)? };
        if self.settings.estimator.weighs_draws() {
            self.pending = Some(Pending { step, rate, draws: local });
        } else {
            let elbos: Vec<f64> = elbo_terms.iter().map(|elbo_term| elbo_term.elbo).collect();
            let weights = DrawWeights::equal(&elbos);
            self.locals.descend(&rows, weights.descent(local), &weights.theta_descent(private), rate);
        }
        self.step = step + 1;
        self.see(global);
        Ok(terms.write())
    }

    /// Shares of report draws on all rows, without the gradient by θ.
    pub(crate) fn report_elbo_terms(&mut self, globals: &[f64], offset: u64, count: usize) -> Result<Vec<ElboTerm>> {
        let draw = Draws::shared(Purpose::Report, offset, count);
        let globals_len = self.family.len();
        let zero = || ElboTerm {
            grad_mean: vec![0.0; globals_len],
            grad_offset: vec![0.0; globals_len],
            ..ElboTerm::default()
        };
        let mut sums: Vec<ElboTerm> = std::iter::repeat_with(zero).take(count).collect();
        for mut rows in self.locals.all_rows() {
            let results = self.elbo_terms(globals, &mut rows, draw, LocalGradients::OfDraws)?;
            for (sum, Evaluated { found: own, .. }) in sums.iter_mut().zip(results) {
                sum.elbo += rows.share() * own.elbo;
                add_scaled(&mut sum.grad_mean, rows.share(), &own.grad_mean);
                add_scaled(&mut sum.grad_offset, rows.share(), &own.grad_offset);
            }
        }
        self.check(&sums, self.step)?;
        Ok(sums)
    }

    /// Answers with the terms of report draws on all rows; changes nothing but what waited for its weights, and what is
    /// known of the globals.
    fn estimate(&mut self, request: &EstimateRequest) -> Result<Message> {
        self.settle(LastWeights::told(request.weighted_step, request.weights.as_deref()))?;
        self.set_theta(&request.theta)?;
        #[expect(clippy::cast_possible_truncation, reason = "draw counts are far below 2^32")]
        let elbo_terms = self.report_elbo_terms(&request.global, request.step, request.draws as usize)?;
        self.see(&request.global);
        Ok(self.vectors(request.step, &elbo_terms).write())
    }

    /// The answer to a step: two vectors a particle, or the pulled-back gradient where that is smaller.
    fn terms(&self, step: u64, globals: &[f64], elbo_terms: &[ElboTerm], draw: Draws) -> Result<Terms> {
        let coupled = self.locals.depend_on_globals();
        let vector_numbers = elbo_terms.len() * self.family.len() * if coupled { 2 } else { 1 };
        let by_variance = elbo_terms.iter().any(|elbo_term| !elbo_term.variance.is_empty());
        // Draws that the coordinator weighs have to stay apart.
        let apart = self.settings.estimator.weighs_draws();
        if apart || vector_numbers <= self.family.parameter_len() && !by_variance {
            return Ok(self.vectors(step, elbo_terms));
        }
        let mut gradient = vec![0.0; self.family.parameter_len()];
        for (elbo_term, particle) in elbo_terms.iter().zip(0_u32..) {
            let noise = draw.global_noise(&*self.family, &self.settings, particle);
            elbo_term.vjp(&*self.family, globals, &noise, &mut gradient)?;
        }
        Ok(Terms { gradient: Some(gradient), ..self.bounds_and_theta(step, elbo_terms) })
    }

    /// $(a_j, b_j)$ of every particle; $b_j$ only where it differs from $a_j$.
    fn vectors(&self, step: u64, elbo_terms: &[ElboTerm]) -> Terms {
        let grad_offset =
            self.locals.depend_on_globals().then(|| joined(elbo_terms, |elbo_term| &elbo_term.grad_offset));
        let grad_mean = Some(joined(elbo_terms, |elbo_term| &elbo_term.grad_mean));
        Terms { grad_mean, grad_offset, ..self.bounds_and_theta(step, elbo_terms) }
    }

    /// The bound of every particle and the gradient by θ: of every particle where each has a weight, else the sum.
    fn bounds_and_theta(&self, step: u64, elbo_terms: &[ElboTerm]) -> Terms {
        let elbo = elbo_terms.iter().map(|elbo_term| elbo_term.elbo).collect();
        let theta_gradient = if elbo_terms.iter().all(|elbo_term| elbo_term.theta.is_empty()) {
            Rows::default()
        } else if self.settings.estimator.weighs_draws() {
            joined(elbo_terms, |elbo_term| &elbo_term.theta)
        } else {
            let mut theta = vec![0.0; self.theta_len];
            elbo_terms.iter().for_each(|elbo_term| add(&mut theta, &elbo_term.theta));
            Rows { count: 1, values: theta }
        };
        Terms { step, elbo, theta_gradient, ..Terms::default() }
    }

    pub(crate) fn check(&self, elbo_terms: &[ElboTerm], step: u64) -> Result<()> {
        for elbo_term in elbo_terms {
            finite(&self.name, step, |_| "its ELBO term".into(), &[elbo_term.elbo])?;
            for gradient in [&elbo_term.grad_mean, &elbo_term.grad_offset, &elbo_term.variance] {
                finite(&self.name, step, |index| describe_global(&self.table, index), gradient)?;
            }
            finite(&self.name, step, |index| format!("the gradient by θ[{index}]"), &elbo_term.theta)?;
        }
        Ok(())
    }

    /// Refuses a gradient by the local parameters by which they could not move: nothing clips it.
    pub(crate) fn check_local(&self, gradient: &[Vec<f64>], step: u64) -> Result<()> {
        gradient.iter().enumerate().try_for_each(|(block, own)| {
            movable(&self.name, step, None, |index| self.describe_local(block, index), own).map(drop)
        })
    }

    fn describe_local(&self, block: usize, index: usize) -> String {
        let place = &self.table.blocks()[block];
        let sites: Vec<&str> = self
            .table
            .latents(Part::Local)
            .filter(|site| site.block() == block)
            .map(|site| site.name.as_str())
            .collect();
        let plate = place.plate.as_deref().unwrap_or("no plate");
        format!("the gradient of the local posterior of `{}` ({plate}, parameter {index})", sites.join("`, `"))
    }
}

/// Where component `index` of a gradient by the globals is, in words.
pub(crate) fn describe_global(table: &SiteTable, index: usize) -> String {
    global_site(table, index)
        .map_or_else(|| format!("component {index}"), |site| format!("the gradient by site `{}`", site.name))
}

/// The key of the global noise of an owner: all parties, or a silo in its local steps.
///
/// A silo's global noise has a block of its own, apart from the blocks of its local latents.
pub(crate) fn global_key(purpose: Purpose, step: u64, owner: u32) -> Key {
    let block = if owner == Key::COORDINATOR { 0 } else { u32::MAX };
    Key::new(purpose, step).silo(owner).block(block)
}

/// The noise of one draw from a family.
pub(crate) fn noise_of(family: &dyn Family, settings: &Settings, key: Key) -> Vec<f64> {
    let mut noise = Vec::new();
    fill_noise(family, settings, key, &mut noise);
    noise
}

/// The same in place of other noise.
pub(crate) fn fill_noise<T: DrawNumber>(family: &dyn Family, settings: &Settings, key: Key, noise: &mut Vec<T>) {
    noise.resize(family.noise_len(), T::default());
    T::fill_noise(Noise::new(settings.seed).kind(settings.noise), key, noise);
}

/// One vector of every share.
fn joined(elbo_terms: &[ElboTerm], of: fn(&ElboTerm) -> &Vec<f64>) -> Rows {
    Rows {
        count: elbo_terms.len(),
        values: elbo_terms.iter().flat_map(|elbo_term| of(elbo_term).iter().copied()).collect(),
    }
}

impl Program for Silo {
    fn standing(&self) -> Standing<'_> {
        Standing { name: &self.name, seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            StepRequest::KIND => self.step(&StepRequest::read(request, &self.sizes(self.settings.particles))?),
            EstimateRequest::KIND => {
                self.estimate(&EstimateRequest::read(request, &self.sizes(self.settings.most_draws()))?)
            }
            SlopeRequest::KIND => self.slope(&SlopeRequest::read(request, &self.sizes(1))?),
            other => Err(Error::Message { kind: other.to_owned(), problem: "an SFVI silo does not know it".into() }),
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        Ok(self.state())
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let fits = self.restore(state);
        self.step = if fits { step } else { self.step };
        Ok(fits)
    }

    fn commit(&self, _: &Message) -> Commit {
        // Only what waits for its weights moves before the step can fail.
        if self.pending.is_some() { Commit::AsItGoes } else { Commit::AtItsEnd }
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.moments_at(&self.seen)
    }

    fn set_precision(&mut self, precision: Precision) -> Result<bool> {
        self.recast(precision).map(|()| true)
    }

    fn kept_theta(&self) -> Vec<f64> {
        self.locals.private_theta().to_vec()
    }
}

/// Names and shapes of the global sites, to compare between parties.
pub(crate) fn global_signature(table: &SiteTable) -> String {
    let sites: Vec<String> = table
        .latents(Part::Global)
        .map(|site| format!("{} {} {:?}", site.name, site.distribution, site.shape))
        .collect();
    sites.join("; ")
}
