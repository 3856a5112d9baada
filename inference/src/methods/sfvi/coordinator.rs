//! Gives the coordinator's side of SFVI: sums gradient shares in silo order and moves the global posterior.

use partita_core::kernel::add_scaled;
use partita_core::{Device, LogDensity, Model, Purpose, SiteTable, shared_theta, theta, with_shared_theta, with_theta};

use crate::engine::algorithm::{Algorithm, Assessed, Posterior, StepInfo, Tally, finite, replies, same_run};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::{DrawWeights, Estimator, Share, add};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::Family;
use crate::engine::optimiser::UpdateRule;
use crate::engine::settings::Settings;
use crate::engine::terms::pending::LastWeights;
use crate::engine::terms::silo::{describe_global, global_noise};
use crate::engine::wire::manifest::{Field, Manifest};
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// The kind of a saved coordinator.
pub(crate) const STATE: &str = "sfvi.coordinator";

/// Structured federated variational inference: one exchange and one optimiser step a round.
///
/// Every step the coordinator sends $(\theta, \eta_G)$ and the key of $\varepsilon_G$; silo $j$ answers with
/// $a_j = \nabla_{Z_G}\hat L_j$ and $b_j = a_j + (\partial Z_{L_j}/\partial Z_G)^\top\nabla_{Z_{L_j}}\hat L_j$, which determine
/// the paper's $g_j^\eta$ because $Z_{L_j}$ depends on $\eta_G$ only through $Z_G - \mu_G$. The split over silos is exact: for
/// the same noise the gradient is that of the pooled data.
///
/// # References
/// Hassan, Salomone and Mengersen (2023), Algorithm 1, with the gradient split of eqs. 12 and 13.
pub struct Sfvi<M: Model> {
    pub(crate) model: M,
    pub(crate) device: Device,
    pub(crate) settings: Settings,
    pub(crate) table: SiteTable,
    pub(crate) family: Box<dyn Family>,
    pub(crate) parameters: Vec<f64>,
    pub(crate) theta: Vec<f64>,
    pub(crate) rule: Box<dyn UpdateRule>,
    pub(crate) silos: Vec<String>,
    pub(crate) step: u64,
    pub(crate) manifest: Manifest,
    /// What the silos have yet to hear of the last step.
    last: LastWeights,
}

impl<M: Model> std::fmt::Debug for Sfvi<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sfvi").field("silos", &self.silos).field("step", &self.step).finish_non_exhaustive()
    }
}

impl<M: Model> Sfvi<M> {
    /// The coordinator of a run over the silos of these names.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::NoSilos`], or what the model's global function refuses.
    pub fn new(model: &M, device: &Device, settings: &Settings, silos: &[String]) -> Result<Self> {
        settings.check()?;
        if silos.is_empty() {
            return Err(Error::NoSilos);
        }
        let table = SiteTable::globals(model, device)?;
        let family = settings.family.global_family(&table)?;
        let values = shared_theta(model)?;
        let manifest = manifest(&*family, settings, values.len());
        Ok(Self {
            model: with_theta(model, &theta(model)?, device)?,
            device: device.clone(),
            settings: settings.clone(),
            parameters: settings.family.start(&*family, &table),
            family,
            table,
            theta: values,
            rule: settings.optimiser.start(device),
            silos: silos.to_vec(),
            step: 0,
            manifest,
            last: LastWeights::default(),
        })
    }

    /// The model's global sites.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.table
    }

    /// Replaces the variational parameters of the globals: a warm start.
    ///
    /// # Errors
    /// [`Error::Message`] if the length differs.
    pub fn set_parameters(&mut self, parameters: Vec<f64>) -> Result<()> {
        if parameters.len() != self.parameters.len() {
            let problem = format!("{} parameters given, the family has {}", parameters.len(), self.parameters.len());
            return Err(Error::Message { kind: "global parameters".into(), problem });
        }
        self.parameters = parameters;
        Ok(())
    }

    pub(crate) fn request(&self, kind: &str, step: u64) -> Message {
        let message =
            Message::new(kind).word("step", step).word("seed", self.settings.seed).floats("global", &self.parameters);
        let message = self.last.put(message);
        if self.theta.is_empty() { message } else { message.floats("theta", &self.theta) }
    }

    /// Replaces θ, in the model too.
    pub(crate) fn set_theta(&mut self, theta: Vec<f64>) -> Result<()> {
        if !theta.is_empty() {
            self.model = with_shared_theta(&self.model, &theta, &self.device)?;
        }
        self.theta = theta;
        Ok(())
    }

    /// The kind of a saved coordinator.
    pub(crate) fn state_kind(&self) -> &'static str {
        STATE
    }

    /// The bound and its gradient by θ that the silos' shares of one step give; moves nothing.
    pub(crate) fn theta_gradient(&self, outcomes: Vec<Outcome>) -> Result<(f64, Vec<f64>)> {
        let replies = self.shares_of(outcomes)?;
        let total = self.total(&replies, (Purpose::Fit, self.step, self.settings.particles))?;
        let weights = self.settings.estimator.weigh(&total.elbos);
        let gradient = total.gradient(&weights, self.theta.len()).split_off(self.parameters.len());
        finite("the coordinator", self.step, |index| format!("the gradient by θ[{index}]"), &gradient)?;
        Ok((weights.bound, gradient))
    }

    /// The silos' replies to this step.
    fn shares_of(&self, outcomes: Vec<Outcome>) -> Result<Vec<Message>> {
        let step = self.step;
        let replies = replies(outcomes, &self.silos, step)?;
        for (reply, silo) in replies.iter().zip(&self.silos) {
            let found = reply.get_count("step", LARGEST_COUNT)?;
            if found != step {
                let problem = format!("silo `{silo}` answered step {found}, asked was step {step}");
                return Err(Error::Message { kind: reply.kind.clone(), problem });
            }
        }
        Ok(replies)
    }

    fn to_all(&self, message: &Message) -> Vec<Request> {
        (0..self.silos.len()).map(|silo| Request { silo, message: message.clone() }).collect()
    }

    /// The sampled bounds over silos of these names alone.
    pub(crate) fn assessed_of(
        &self,
        names: &[String],
        outcomes: Vec<Outcome>,
        (draws, offset): (usize, u64),
    ) -> Result<Assessed> {
        let replies = replies(outcomes, names, self.step)?;
        let size = self.draws_a_bound();
        let total = self.total(&replies, (Purpose::Report, offset, draws * size))?;
        finite("the coordinator", self.step, |_| "the bound".into(), &total.elbos)?;
        // Without the path through variances a gradient under local reparameterisation would not be its own.
        let ordinary = self.settings.estimator != Estimator::LocalReparameterisation;
        let mut assessed = Assessed::default();
        for (elbos, gradients) in total.elbos.chunks_exact(size).zip(total.gradients.chunks_exact(size)) {
            let weights = self.settings.estimator.weigh(elbos);
            assessed.elbos.push(weights.bound);
            if ordinary {
                assessed.gradients.push(weighted(gradients.iter().zip(&weights.family)));
            }
        }
        Ok(assessed)
    }

    /// The coordinator's own share for one particle.
    fn own_share(&self, purpose: Purpose, step: u64, particle: u32) -> Result<(Vec<f64>, Share)> {
        let noise = global_noise(&*self.family, &self.settings, purpose, step, particle);
        let draw = self.family.draw(&self.parameters, &noise);
        let density = LogDensity::new(&self.model, &self.device, &self.table);
        let located = |error| Error::Model(error).in_silo("the coordinator", self.step);
        let prior = density.global(&draw.latent).map_err(located)?;
        Ok((noise, self.settings.estimator.global_share(prior, &*self.family, &self.parameters, &draw)))
    }

    /// Sums the shares of all parties, in silo order, particle by particle: the sampled bounds, the gradient by the
    /// global parameters of each particle (silos that pulled back themselves enter the first), and the gradients by θ.
    fn total(&self, replies: &[Message], (purpose, step, count): (Purpose, u64, usize)) -> Result<Total> {
        let globals = self.family.len();
        let mut total = Total::default();
        // A report needs no gradient by θ: none is sent.
        let theta = if purpose == Purpose::Fit { self.theta.len() } else { 0 };
        let read = |reply| Part::read(reply, count, theta, self);
        let parts = replies.iter().map(read).collect::<Result<Vec<_>>>()?;
        for (particle, index) in (0..count).zip(0_u32..) {
            let (noise, mut share) = self.own_share(purpose, step, index)?;
            let range = particle * globals..(particle + 1) * globals;
            for part in &parts {
                share.elbo += part.elbos[particle];
                if let Some((location, deviation)) = &part.vectors {
                    add(&mut share.location, &location[range.clone()]);
                    add(&mut share.deviation, &deviation[range.clone()]);
                }
            }
            let mut gradient = vec![0.0; self.parameters.len()];
            self.family.pull_back(&self.parameters, &noise, &share.location, &share.deviation, &mut gradient);
            if self.settings.estimator.adds_entropy_gradient() {
                self.family.add_entropy_gradient(&self.parameters, &mut gradient);
            }
            share.theta.truncate(self.theta.len());
            total.thetas.push((particle, share.theta));
            total.elbos.push(share.elbo);
            total.gradients.push(gradient);
        }
        for part in &parts {
            let thetas = part.theta.chunks_exact(self.theta.len().max(1)).map(<[f64]>::to_vec);
            total.thetas.extend(thetas.enumerate());
            if let (Some(gradient), Some(first)) = (&part.pulled_back, total.gradients.first_mut()) {
                add(first, gradient);
            }
        }
        Ok(total)
    }
}

/// What all parties say of some draws together.
#[derive(Debug, Default)]
struct Total {
    elbos: Vec<f64>,
    gradients: Vec<Vec<f64>>,
    /// The parties' gradients by θ with the draw they are of; the sums over draws of a silo stand at the first.
    thetas: Vec<(usize, Vec<f64>)>,
}

impl Total {
    /// The gradient of the bound by the global parameters, then by θ of this length.
    fn gradient(&self, weights: &DrawWeights, theta: usize) -> Vec<f64> {
        let mut gradient = weighted(self.gradients.iter().zip(&weights.family));
        let start = gradient.len();
        gradient.resize(start + theta, 0.0);
        for (draw, own) in &self.thetas {
            add_scaled(&mut gradient[start..], weights.theta[*draw], own);
        }
        gradient.iter_mut().for_each(|g| *g *= weights.share);
        gradient
    }
}

/// The sum of vectors, each times its factor.
fn weighted<'a>(terms: impl Iterator<Item = (&'a Vec<f64>, &'a f64)>) -> Vec<f64> {
    let mut sum = Vec::new();
    for (term, factor) in terms {
        sum.resize(term.len(), 0.0);
        add_scaled(&mut sum, *factor, term);
    }
    sum
}

/// One silo's reply, checked for its lengths.
struct Part {
    elbos: Vec<f64>,
    vectors: Option<(Vec<f64>, Vec<f64>)>,
    pulled_back: Option<Vec<f64>>,
    /// Of every draw where each has a weight, else their sum.
    theta: Vec<f64>,
}

impl Part {
    fn read<M: Model>(reply: &Message, count: usize, theta: usize, coordinator: &Sfvi<M>) -> Result<Self> {
        let globals = coordinator.family.len();
        let theta_len = theta * if coordinator.settings.estimator.weighs_draws() { count } else { 1 };
        let theta = if theta_len > 0 { reply.expect_floats("theta_gradient", theta_len)? } else { Vec::new() };
        let elbos = reply.expect_floats("elbo", count)?;
        if reply.has("gradient") {
            let gradient = reply.expect_floats("gradient", coordinator.parameters.len())?;
            return Ok(Self { elbos, vectors: None, pulled_back: Some(gradient), theta });
        }
        let location = reply.expect_floats("location", count * globals)?;
        let deviation =
            if reply.has("deviation") { reply.expect_floats("deviation", count * globals)? } else { location.clone() };
        Ok(Self { elbos, vectors: Some((location, deviation)), pulled_back: None, theta })
    }
}

/// What SFVI lets leave a silo.
fn manifest(family: &dyn Family, settings: &Settings, theta: usize) -> Manifest {
    let draws = crate::engine::trust::estimate::most_draws(settings);
    let vectors = family.len() * draws;
    let thetas = theta * if settings.estimator.weighs_draws() { draws } else { 1 };
    let field = |name, meaning, limit, depends_on_data| Field { name, meaning, limit, depends_on_data };
    Manifest {
        fields: vec![
            field("step", "the step answered", 1, false),
            field("elbo", "the silo's share of the bound, one number a particle", draws, true),
            field("location", "a: gradient of the share by the global latents, one vector a particle", vectors, true),
            field("deviation", "b: the same with the path through local latents", vectors, true),
            field(
                "gradient",
                "gradient of the share by the global posterior's parameters",
                family.parameter_len(),
                true,
            ),
            field("theta_gradient", "gradient of the share by the model's trained parameters", thetas, true),
        ],
    }
}

impl<M: Model> Algorithm for Sfvi<M> {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        Ok(self.to_all(&self.request("sfvi.step", self.step)))
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let step = self.step;
        let replies = self.shares_of(outcomes)?;
        let total = self.total(&replies, (Purpose::Fit, step, self.settings.particles))?;
        let weights = self.settings.estimator.weigh(&total.elbos);
        let elbo = weights.bound;
        let mut gradient = total.gradient(&weights, self.theta.len());
        // The optimisers descend; the bound is to ascend.
        gradient.iter_mut().for_each(|g| *g = -*g);
        let who = "the coordinator";
        finite(who, step, |_| "the bound".into(), &[elbo])?;
        finite(who, step, |index| describe_global(&self.table, index % self.family.len().max(1)), &gradient)?;
        let gradient_norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let clipped = self.settings.clip.is_some_and(|clip| clip.apply(&mut gradient));
        let rate = self.settings.schedule.rate(step, self.settings.steps);
        if self.theta.is_empty() {
            self.rule.step(rate, &mut self.parameters, &gradient);
        } else {
            let mut all = [self.parameters.as_slice(), &self.theta].concat();
            self.rule.step(rate, &mut all, &gradient);
            self.theta = all.split_off(self.parameters.len());
            self.parameters = all;
            self.model = with_shared_theta(&self.model, &self.theta, &self.device)?;
        }
        if self.settings.estimator.weighs_draws() {
            self.last = LastWeights { step, weights: weights.family };
        }
        self.step += 1;
        let tally = Tally::steps(1, self.silos.len());
        Ok(StepInfo { step: self.step, elbo, gradient_norm, clipped, rate, tally })
    }

    fn assessing(&self, draws: usize, offset: u64) -> Vec<Request> {
        let all = draws * self.draws_a_bound();
        self.to_all(&self.request("sfvi.assess", offset).word("draws", all as u64))
    }

    fn draws_a_bound(&self) -> usize {
        self.settings.estimator.draws_a_bound(self.settings.particles)
    }

    fn assessed(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<Assessed> {
        self.assessed_of(&self.silos, outcomes, (draws, offset))
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        Posterior { family: &*self.family, parameters: &self.parameters, theta: &self.theta }
    }

    fn save(&self) -> Message {
        let mut message = Message::new(STATE)
            .word("step", self.step)
            .word("seed", self.settings.seed)
            .floats("global", &self.parameters)
            .floats("theta", &self.theta)
            .setting("globals", &crate::engine::terms::silo::global_signature(&self.table));
        for (name, values) in self.rule.save() {
            message = message.floats(&format!("rule.{name}"), &values);
        }
        self.last.put(message)
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        same_run(state, STATE, &crate::engine::terms::silo::global_signature(&self.table), self.settings.seed)?;
        let parameters = state.expect_floats("global", self.parameters.len())?;
        let theta = state.expect_floats("theta", self.theta.len())?;
        let prefix = "rule.";
        let mut rule = Vec::new();
        for record in state.records.iter().filter(|record| record.name.starts_with(prefix)) {
            rule.push((record.name[prefix.len()..].to_owned(), state.get_floats(&record.name)?));
        }
        if !self.rule.load(rule) {
            let problem = "its optimiser state is of another optimiser".to_owned();
            return Err(Error::Message { kind: state.kind.clone(), problem });
        }
        self.last = LastWeights::get(state)?;
        (self.parameters, self.theta, self.step) = (parameters, theta, state.get_count("step", LARGEST_COUNT)?);
        if !self.theta.is_empty() {
            self.model = with_shared_theta(&self.model, &self.theta, &self.device)?;
        }
        Ok(())
    }
}
