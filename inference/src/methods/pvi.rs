//! Gives the coordinator's side of PVI: one approximate factor a silo, multiplied into the posterior in natural parameters.

mod answers;
mod asynchronous;
mod counts;
mod ledger;
mod membership;
mod messages;
mod on_device;
mod options;
mod prior;
mod private;
mod product;
mod schedule;
mod silo;
pub(crate) mod solver;
mod state;
mod theta;

pub use options::{Factors, MissingSilo, PriorShare, PviOptions};
pub use schedule::{Delays, Order, SiloSchedule};
pub use silo::PviSilo;

use counts::Counts;
use ledger::{Ledger, Told};
use messages::{Answer, Sizes, Solve};
use prior::{exact_prior, fitted_prior};
use schedule::{Turn, Work};

use partita_core::{AnyModel, Device, Model};

use crate::engine::algorithm::{Algorithm, Asynchronous, ElboSamples, MethodCounts, Posterior, StepInfo};
use crate::engine::clipped::ClippedCount;
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::natural::{ExponentialFamily, NormalFamily};
use crate::engine::report::Privacy;
use crate::engine::settings::Settings;
use crate::engine::terms::coordinator::{Bounds, Coordinator};
use crate::engine::terms::noised::open_or_noised;
use crate::engine::trainer::Descent;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;
use crate::methods::pvi::solver::{LocalUpdate, SolverState};

/// Partitioned variational inference: $`q(Z_G) \propto p(Z_G) \prod_m t_m(Z_G)`$ with one factor a silo.
///
/// A visit: the coordinator sends natural parameters $`\eta_q`$; silo $`m`$ takes its factor out, maximises its local
/// free energy with the cavity $`\eta_q - \eta_m`$ as prior, and answers $`\Delta_m = \rho(\eta_{q_m} - \eta_q)`$; the
/// coordinator adds it. A fixed point is stationary for variational inference on the pooled data. Local latents stay in
/// their silos with their own posterior, structured by the globals: what partitioned inference is for models without
/// them, this is for models with them.
///
/// A prior that is not normal on the unconstrained scale gets a factor too, which the coordinator refines after every
/// exchange: so hyperparameters may be latent beside what they govern.
///
/// All arithmetic between parties is in natural parameters and f64. A product that is no density is refused, with the
/// silo and $`\rho`$ in the error.
///
/// # References
/// Ashman et al. (2022), Partitioned variational inference, Algorithm 1; with local latents, ours.
#[derive(Debug)]
pub struct Pvi {
    coordinator: Coordinator,
    options: PviOptions,
    family: NormalFamily,
    prior: Vec<f64>,
    /// Solves for the factor of a prior that is not of the family.
    prior_solver: Option<Box<dyn SolverState>>,
    /// The expected log density of such a prior, in nats, as last sampled.
    log_prior: Option<f64>,
    natural: Vec<f64>,
    ledger: Ledger,
    turn: Turn,
    sizes_of_messages: Sizes,
    /// Rows of each silo, for shares of the prior.
    sizes: Vec<usize>,
    /// Updates of the posterior so far; the first posterior is version 1.
    version: u64,
    work: Vec<Option<Work>>,
    clock: f64,
    asked: Vec<Asked>,
    /// Damping of each silo, where they differ.
    dampings: Option<Vec<f64>>,
    theta_descent: Descent,
    /// Whether the step of θ after this turn is done.
    theta_done: bool,
    counts: Counts,
    /// Of private visits in the last third of the run.
    clipped_rows: ClippedCount,
    manifest: Manifest,
}

/// A visit whose answer has not come.
#[derive(Debug, Clone, Copy)]
struct Asked {
    silo: usize,
    /// The version of the posterior that was sent.
    version: u64,
    /// Whether the silo was removed since: what it answers is not taken.
    is_void: bool,
}

impl Pvi {
    /// The coordinator of a run over the silos of these names, with these numbers of rows.
    ///
    /// # Errors
    /// As for [`crate::Sfvi::new`]; [`Error::Setting`] for options that mean nothing, for families without natural parameters,
    /// or for sizes that are not one positive number a silo.
    pub fn new<M: Model>(
        model: &M,
        device: &Device,
        settings: &Settings,
        silos: &[String],
        sizes: Vec<usize>,
        options: PviOptions,
    ) -> Result<Self> {
        let model = &AnyModel::new(model);
        options.check()?;
        check_estimator(settings)?;
        let coordinator = Coordinator::new(model, device, settings, silos)?;
        coordinator.check_sizes(&sizes)?;
        options.check_theta(coordinator.trainer.theta())?;
        let family = settings.family.natural_family(&coordinator.table)?;
        let (prior, prior_solver) = match exact_prior(&coordinator, &family)? {
            Some(prior) => (prior, None),
            None => {
                let mut solver = options.solver.start(settings, device);
                (fitted_prior(&coordinator, &family, &mut *solver, &options)?, Some(solver))
            }
        };
        let sizes_of_messages = Sizes {
            natural: family.natural_len() as u64,
            theta: coordinator.trainer.theta().len() as u64,
            local_steps: options.local_steps,
        };
        let manifest = open_or_noised(&coordinator.manifest, Answer::fields(&sizes_of_messages), options.private);
        let mut pvi = Self {
            natural: prior.clone(),
            ledger: Ledger::new(silos.len(), family.natural_len()),
            turn: Turn::new(options.schedule, silos.len(), settings.seed),
            theta_descent: Descent::new(settings, device),
            work: vec![None; silos.len()],
            version: 1,
            clock: 0.0,
            asked: Vec::new(),
            dampings: None,
            theta_done: true,
            counts: Counts::default(),
            clipped_rows: ClippedCount::default(),
            coordinator,
            sizes_of_messages,
            options,
            family,
            prior,
            prior_solver,
            log_prior: None,
            sizes,
            manifest,
        };
        if pvi.options.damping_by_size {
            pvi.dampings = Some(pvi.options.dampings_by_size(&pvi.sizes)?);
        }
        pvi.publish()?;
        Ok(pvi)
    }

    /// Natural parameters of the posterior.
    #[must_use]
    pub fn natural(&self) -> &[f64] {
        &self.natural
    }

    /// Natural parameters of the prior; where it is not of the family, of the factor that stands for it at the present
    /// posterior.
    #[must_use]
    pub fn prior(&self) -> &[f64] {
        &self.prior
    }

    /// The exponential family of the posterior.
    #[must_use]
    pub fn natural_family(&self) -> &NormalFamily {
        &self.family
    }

    /// Natural parameters of a silo's factor, as the coordinator has added it up from its answers.
    #[must_use]
    pub fn factor(&self, silo: usize) -> Option<&[f64]> {
        self.ledger.factors.get(silo).map(Vec::as_slice)
    }

    /// $`\log Z_q = A(\eta_q) - A(\eta_0)`$ in nats: with the silos' local free energies at the common posterior it
    /// makes the bound, $`\sum_m \mathcal F_m(q) + \log Z_q = \mathcal F(q)`$. `None` for a prior that a factor stands
    /// for.
    #[must_use]
    pub fn log_normaliser(&self) -> Option<f64> {
        let difference = || self.family.log_partition(&self.natural) - self.family.log_partition(&self.prior);
        self.prior_solver.is_none().then(difference)
    }

    /// The largest violation of $`\eta_q = \eta_0 + \sum_m \eta_m`$, relative to the largest entry.
    #[must_use]
    pub fn discrepancy(&self) -> f64 {
        self.ledger.discrepancy(&self.prior, &self.natural)
    }

    /// Lets others see the posterior in the parameters of its family.
    fn publish(&mut self) -> Result<()> {
        let member = self.family.member(self.coordinator.family(), &self.natural);
        let member = member.map_err(|error| match error {
            Error::Improper { component, found, .. } => {
                let operation = format!("the posterior after step {}", self.coordinator.step);
                Error::Improper { operation, component, found }
            }
            other => other,
        })?;
        self.coordinator.trainer.set_parameters(&member);
        debug_assert!(self.discrepancy() < 1e-8, "invariant: the posterior is the prior times the silos' factors");
        debug_assert!(self.free_energies_add_up(), "invariant: local free energies and log Z_q make the bound");
        Ok(())
    }

    /// Whether $`\sum_m \mathcal F_m(q) + \log Z_q = \mathcal F(q)`$, in which expected log likelihoods cancel: whether
    /// $`\mathrm{KL}(q\,\|\,p) = \sum_m \mathrm{E}_q[\log t_m] - \log Z_q`$.
    fn free_energies_add_up(&self) -> bool {
        let Some(log_normaliser) = self.log_normaliser() else { return true };
        let means = self.family.mean_parameters(&self.natural);
        let dot = |a: &[f64]| crate::engine::natural::dot(a, &means);
        let factors: f64 = self.ledger.factors.iter().map(|factor| dot(factor)).sum();
        let divergence = self.family.kl_divergence(&self.natural, &self.prior);
        let size = dot(&self.natural).abs() + dot(&self.prior).abs() + factors.abs() + 1.0;
        (divergence - (factors - log_normaliser)).abs() <= 1e-9 * size
    }

    /// The request of a visit from this posterior, under the prior that it had then.
    fn local_update(&self, silo: usize, version: u64, natural: &[f64], prior: &[f64]) -> Request {
        let shared = match self.options.factors {
            Factors::Shared | Factors::SharedBySize => {
                let share = self.power_of(silo);
                Some(natural.iter().zip(prior).map(|(all, prior)| share * (all - prior)).collect())
            }
            Factors::Own | Factors::Forgotten => None,
        };
        let natural = match self.options.prior {
            PriorShare::Whole => natural.to_vec(),
            PriorShare::BySize => {
                let rest = 1.0 - self.share_of(silo);
                natural.iter().zip(prior).map(|(all, prior)| all - rest * prior).collect()
            }
        };
        let Told { factor, settled, share } = self.ledger.told(silo);
        let message = Solve {
            step: self.coordinator.step,
            seed: self.coordinator.settings.seed,
            version,
            local_steps: self.options.local_steps,
            damping: self.damping(silo),
            theta: self.coordinator.trainer.theta().to_vec(),
            factor,
            settled,
            share,
            shared,
            natural,
        };
        Request { silo, message: message.write() }
    }

    fn share_of(&self, silo: usize) -> f64 {
        self.sizes[silo] as f64 / self.sizes.iter().sum::<usize>() as f64
    }

    /// What power of the factor of all stands for a silo, by its share of those who take part.
    fn power_of(&self, silo: usize) -> f64 {
        let by_size = self.options.factors == Factors::SharedBySize;
        let weight = |silo: usize| if by_size { self.sizes[silo] } else { 1 };
        let here = (0..self.sizes.len()).filter(|silo| self.ledger.present[*silo]);
        weight(silo) as f64 / here.map(weight).sum::<usize>().max(1) as f64
    }

    /// The learning rate of the last step of visits that begin at `first`; `None` for a solver without one.
    fn last_rate(&self, first: u64) -> Option<f64> {
        let (settings, steps) = (&self.coordinator.settings, self.options.local_steps);
        let update = LocalUpdate { received: Vec::new(), is_prior: false, first, steps, total: settings.steps };
        self.options.solver.last_rate(settings, &update)
    }

    /// Sends every silo that rests between visits to work, and gives the one that is ready first.
    fn next_ready(&mut self, delays: Delays) -> Option<usize> {
        let silos = self.sizes.len();
        for silo in 0..silos {
            if self.ledger.present[silo] && self.work[silo].is_none() {
                let until = self.clock + Turn::delay(delays, silo, silos, self.ledger.updates[silo]);
                let (natural, prior) = (self.natural.clone(), self.prior.clone());
                self.work[silo] = Some(Work { until, version: self.version, natural, prior });
            }
        }
        let until = |silo: &usize| self.work[*silo].as_ref().map_or(f64::INFINITY, |work| work.until);
        (0..silos).filter(|silo| self.work[*silo].is_some()).min_by(|a, b| until(a).total_cmp(&until(b)))
    }

    fn silo_count(&self) -> f64 {
        self.sizes.len() as f64
    }

    /// The silos' last expected log likelihoods less the divergence from the prior; not a number before every silo that
    /// takes part has answered once.
    fn bound(&self) -> f64 {
        let ledger = &self.ledger;
        let heard = |(value, here): (&f64, &bool)| match (value.is_finite(), here) {
            (true, _) => *value,
            (false, true) => f64::NAN,
            (false, false) => 0.0,
        };
        let known: f64 = ledger.log_likelihoods.iter().zip(&ledger.present).map(heard).sum();
        known
            + match self.log_prior {
                Some(log_prior) => log_prior + self.family.entropy(&self.natural),
                None => -self.family.kl_divergence(&self.natural, &self.prior),
            }
    }
}

/// Refuses estimators whose draws weigh differently.
fn check_estimator(settings: &Settings) -> Result<()> {
    let expected = "an estimator of the bound itself, such as StickingTheLanding; or LocallyEnhanced";
    Error::unless(!settings.estimator.weighs_draws(), "estimator", "ImportanceWeighted with Pvi", expected)
}

/// Whether every silo has answered.
fn is_complete(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome, Outcome::Reply(_)))
}

impl Algorithm for Pvi {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        if self.theta_is_due() {
            return Ok(self.coordinator.ask_step());
        }
        let requests: Vec<Request> = match self.options.schedule {
            SiloSchedule::Asynchronous(delays) => {
                let ready = self.next_ready(delays);
                let work = ready.and_then(|silo| Some((silo, self.work[silo].as_ref()?)));
                work.map(|(silo, work)| self.local_update(silo, work.version, &work.natural, &work.prior))
                    .into_iter()
                    .collect()
            }
            _ => {
                let silos = self.turn.silos(&self.ledger.present);
                silos
                    .into_iter()
                    .map(|silo| self.local_update(silo, self.version, &self.natural, &self.prior))
                    .collect()
            }
        };
        if requests.is_empty() {
            return Err(Error::NoSilos);
        }
        let asked = |Request { silo, message }: &Request| {
            Ok(Asked { silo: *silo, version: message.get_word("version")?, is_void: false })
        };
        self.asked = requests.iter().map(asked).collect::<Result<_>>()?;
        Ok(requests)
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        if self.theta_is_due() {
            return self.step_theta(outcomes);
        }
        let asked = std::mem::take(&mut self.asked);
        self.visited(asked.into_iter().zip(outcomes).collect())
    }

    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        if self.options.private.is_some() {
            // A bound is a sum without noise.
            return Vec::new();
        }
        let requests = self.coordinator.ask_bounds(draws, offset);
        requests.into_iter().filter(|request| self.ledger.counts(request.silo)).collect()
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples> {
        let unknown = self.options.missing_silo == MissingSilo::GoOn && !is_complete(&outcomes);
        if unknown || self.options.private.is_some() {
            // Without a silo's data the bound is unknown.
            return Ok(ElboSamples { elbos: vec![f64::NAN; draws], ..ElboSamples::default() });
        }
        let names = self.coordinator.silos.iter().enumerate().filter(|(silo, _)| self.ledger.counts(*silo));
        let names: Vec<String> = names.map(|(_, name)| name.clone()).collect();
        self.coordinator.bounds_of(&names, outcomes, Bounds { count: draws, offset })
    }

    fn asynchronous(&mut self) -> Option<&mut dyn Asynchronous> {
        Some(self)
    }

    fn counts(&self) -> Option<MethodCounts> {
        Some(self.counts.section())
    }

    fn privacy(&self) -> Option<Privacy> {
        self.options.private.map(|own| own.report(self.clipped_rows, &self.sizes, self.options.local_steps))
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        self.coordinator.posterior()
    }

    fn save(&self) -> Message {
        self.state()
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        self.restore(state)
    }
}
