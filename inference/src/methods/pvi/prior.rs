//! Puts the model's prior into natural parameters: exactly where it is normal, and by a factor of its own where it is not.

use partita_core::{Key, LogDensity, Noise, Purpose};

use crate::engine::algorithm::finite;
use crate::engine::error::{Error, Result};
use crate::engine::estimator::add;
use crate::engine::family::Family;
use crate::engine::natural::{ExponentialFamily, NormalFamily, dot};
use crate::engine::terms::climbing::{climb, summit};
use crate::engine::terms::coordinator::Coordinator;
use crate::engine::terms::silo::{describe_global, global_key, noise_of};
use crate::methods::pvi::solver::{LocalProblem, LocalUpdate, Sampled, SolverState, quadratic};
use crate::methods::pvi::{Pvi, PviOptions};

/// The owner of the coordinator's noise for the factor of the prior.
const OWNER: u32 = u32::MAX - 1;

/// Natural parameters of the model's prior, if it is of the family.
pub(super) fn exact_prior(coordinator: &Coordinator, family: &NormalFamily) -> Result<Option<Vec<f64>>> {
    let density = LogDensity::new(&coordinator.model, &coordinator.device, &coordinator.table);
    let found = quadratic(family.len(), family.is_diagonal(), |point| Ok(density.global(point)?.globals))?;
    let natural = found.and_then(|found| found.natural(family));
    Ok(natural.filter(|natural| family.impropriety(natural).is_none()))
}

/// What replaces a prior that is not of the family: the member closest to it, found by the solver of local problems.
///
/// # Errors
/// [`Error::Setting`] for another divergence than Kullback and Leibler's, which the silos' local problems would have
/// and this one not.
pub(super) fn fitted_prior(
    coordinator: &Coordinator,
    family: &NormalFamily,
    solver: &mut dyn SolverState,
    options: &PviOptions,
) -> Result<Vec<f64>> {
    let found =
        format_args!("{:?} for a model whose prior is not normal on the unconstrained scale", options.divergence);
    let expected = "KullbackLeibler, by which such a prior is replaced by a factor, or a normal prior";
    Error::unless(options.is_kullback_leibler(), "divergence", found, expected)?;

    let nothing = vec![0.0; family.natural_len()];
    let start = coordinator.settings.family.start(coordinator.family(), &coordinator.table);
    let received = family.natural_of_member(coordinator.family(), &start)?;
    let update = LocalUpdate {
        received,
        is_prior: true,
        first: 0,
        steps: options.local_steps,
        total: coordinator.settings.steps,
    };
    Ok(solver.solve(&mut PriorProblem { coordinator, natural: family, cavity: &nothing }, &update)?.natural)
}

impl Pvi {
    /// Brings the factor that stands for the prior up to the present posterior, as a visit of a silo would; a prior
    /// that is in the family needs none.
    pub(super) fn refine_prior(&mut self, first: u64) -> Result<()> {
        let Some(solver) = &mut self.prior_solver else { return Ok(()) };
        let cavity: Vec<f64> = self.natural.iter().zip(&self.prior).map(|(all, own)| all - own).collect();
        let (steps, total) = (self.options.local_steps, self.coordinator.settings.steps);
        let update = LocalUpdate { received: self.natural.clone(), is_prior: false, first, steps, total };
        let problem = &mut PriorProblem { coordinator: &self.coordinator, natural: &self.family, cavity: &cavity };
        let solved = solver.solve(problem, &update)?;
        self.family.check("the factor of the prior", &solved.natural)?;
        // The coordinator answers after the silos, alone: undamped, the posterior is its local optimum.
        let change: Vec<f64> = solved.natural.iter().zip(&self.natural).map(|(new, old)| new - old).collect();
        self.log_prior = Some(solved.log_likelihood);
        add(&mut self.prior, &change);
        self.natural = solved.natural;
        Ok(())
    }
}

/// The prior as the data of a local problem.
struct PriorProblem<'a> {
    coordinator: &'a Coordinator,
    natural: &'a NormalFamily,
    cavity: &'a [f64],
}

impl LocalProblem for PriorProblem<'_> {
    fn family(&self) -> &dyn Family {
        self.coordinator.family()
    }

    fn natural_family(&self) -> &NormalFamily {
        self.natural
    }

    fn initial(&self) -> Vec<f64> {
        self.coordinator.settings.family.start(self.coordinator.family(), &self.coordinator.table)
    }

    fn begin(&mut self, update: &LocalUpdate) -> Result<Vec<f64>> {
        let Coordinator { model, device, settings, table, .. } = self.coordinator;
        let family = self.coordinator.family();
        if !update.is_prior {
            return self.natural.member(family, &update.received);
        }
        let known = self.initial();
        let Some(climb) = climb(settings, device, table, (family, known.as_slice())) else { return Ok(known) };
        let density = LogDensity::new(model, device, table);
        let summit = summit(climb, |point| density.global(point))?;
        let footing = summit.and_then(|summit| summit.footing(family));
        Ok(footing.map_or(known, |footing| footing.parameters))
    }

    fn cavity(&self) -> &[f64] {
        self.cavity
    }

    fn noise(&self, step: u64) -> (Noise, Key) {
        (Noise::new(self.coordinator.settings.seed), Key::new(Purpose::Fit, step).silo(OWNER))
    }

    fn sample(&mut self, parameters: &[f64], step: u64, _: f64) -> Result<Sampled> {
        let (coordinator, estimator) = (self.coordinator, self.coordinator.settings.estimator);
        let weight = 1.0 / coordinator.settings.particles as f64;
        let mut sum = Sampled { free_energy: 0.0, log_likelihood: 0.0, gradient: vec![0.0; parameters.len()] };
        for particle in 0..u32::try_from(coordinator.settings.particles).unwrap_or(u32::MAX) {
            let key = global_key(Purpose::Fit, step, OWNER).particle(particle);
            let noise = noise_of(coordinator.family(), &coordinator.settings, key);
            let draw = coordinator.family().draw(parameters, &noise);
            let mut prior =
                LogDensity::new(&coordinator.model, &coordinator.device, &coordinator.table).global(&draw.latent)?;
            sum.log_likelihood += weight * prior.value;
            prior.value += dot(self.cavity, &self.natural.statistics(&draw.latent));
            add(&mut prior.globals, &self.natural.score(self.cavity, &draw.latent));
            let share = estimator.global_elbo_term(prior, coordinator.family(), parameters, &draw);
            let mut gradient = vec![0.0; parameters.len()];
            share.vjp(coordinator.family(), parameters, &noise, &mut gradient)?;
            if estimator.adds_entropy_gradient() {
                coordinator.family().add_entropy_gradient(parameters, &mut gradient);
            }
            sum.free_energy += weight * share.elbo;
            partita_core::kernel::add_scaled(&mut sum.gradient, -weight, &gradient);
        }
        finite("the coordinator", step, |index| describe_global(&coordinator.table, index), &sum.gradient)?;
        Ok(sum)
    }

    fn log_likelihood(&mut self, point: &[f64], _: u64) -> Result<(f64, Vec<f64>)> {
        let coordinator = self.coordinator;
        let prior = LogDensity::new(&coordinator.model, &coordinator.device, &coordinator.table).global(point)?;
        Ok((prior.value, prior.globals))
    }
}
