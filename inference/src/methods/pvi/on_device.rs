//! Solves the local problems of a silo on its device, of which nothing is read before a visit's end.

use super::options::PviOptions;
use super::solver::{GradientDescent, GradientSolver, LocalProblem, LocalUpdate, Solved, SolverState};
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::{Error, Result};
use crate::engine::on_device::{Before, Begin, DeviceSteps, Interval, Weights};
use crate::engine::terms::Silo;

/// What solves the local problems of a silo.
#[derive(Debug)]
pub(super) enum Solving {
    /// The solver of the options, step by step.
    OnHost(Box<dyn SolverState>),
    /// Gradient descent on the silo's device.
    OnDevice(Box<DeviceVisits>),
}

/// A running [`GradientDescent`] whose steps stay on a device.
#[derive(Debug)]
pub(super) struct DeviceVisits {
    pub(super) steps: DeviceSteps,
    solver: GradientSolver,
}

/// Where visits on a device stood.
pub(super) struct BeforeVisit {
    steps: Before,
    /// The last solution of the solver.
    previous: Vec<f64>,
}

impl Solving {
    /// What the options choose for a silo, the `index`-th of the run.
    ///
    /// # Errors
    /// [`Error::Setting`] for what has no device form.
    pub(super) fn start(options: &PviOptions, silo: &Silo, index: u32) -> Result<Self> {
        match options.solver.get::<GradientDescent>() {
            Some(solver) if options.on_device => {
                check_theta(options, silo)?;
                let steps = DeviceSteps::new(silo, index)?;
                let solver = GradientSolver::new(*solver, &silo.settings, &silo.device);
                Ok(Self::OnDevice(Box::new(DeviceVisits { steps, solver })))
            }
            _ => Ok(Self::OnHost(options.solver.start(&silo.settings, &silo.device))),
        }
    }

    /// Solves the problem of a visit, with this shared θ.
    pub(super) fn solve(
        &mut self,
        problem: &mut dyn LocalProblem,
        update: &LocalUpdate,
        theta: &[f64],
    ) -> Result<Solved> {
        match self {
            Self::OnHost(solver) => solver.solve(problem, update),
            Self::OnDevice(visits) => visits.solve(problem, update, theta),
        }
    }

    /// Where visits on a device stand, to go back to.
    pub(super) fn before(&self) -> Option<BeforeVisit> {
        let Self::OnDevice(visits) = self else { return None };
        Some(BeforeVisit { steps: visits.steps.before(), previous: visits.solver.previous().to_vec() })
    }

    /// Goes back to where it stood.
    pub(super) fn go_back(&mut self, before: Option<BeforeVisit>) {
        if let (Self::OnDevice(visits), Some(BeforeVisit { steps, previous })) = (self, before) {
            visits.steps.go_back(steps);
            visits.solver.keep(&previous);
        }
    }

    /// The steps that stay on a device.
    pub(super) fn steps(&self) -> Option<&DeviceSteps> {
        if let Self::OnDevice(visits) = self { Some(&visits.steps) } else { None }
    }

    /// Reads the local posterior to the host, where it has moved on a device.
    pub(super) fn read_rows(&mut self, silo: &mut Silo) -> Result<()> {
        if let Self::OnDevice(visits) = self { visits.steps.read_rows(silo) } else { Ok(()) }
    }

    /// What the solver keeps between visits.
    pub(super) fn save_solver(&self) -> NamedVectors {
        match self {
            Self::OnHost(solver) => solver.save(),
            Self::OnDevice(visits) => visits.solver.save(),
        }
    }

    /// Starts again from what was saved of the solver, and of its steps among `all`; false if it is of another one.
    pub(super) fn load(&mut self, solver: NamedVectors, all: &[(String, Vec<f64>)]) -> bool {
        match self {
            Self::OnHost(own) => own.load(solver),
            Self::OnDevice(visits) => visits.solver.load(solver) && visits.steps.load(all),
        }
    }
}

impl DeviceVisits {
    fn solve(&mut self, problem: &mut dyn LocalProblem, update: &LocalUpdate, theta: &[f64]) -> Result<Solved> {
        let Self { steps, solver } = self;
        let global = solver.start(problem, update)?;
        let begin = Begin { global: &global, theta, keep_optimiser: solver.keeps_optimiser() };
        let rate = |step: u64| solver.rate(update, step - update.first);
        let interval = Interval {
            first: update.first,
            count: update.steps,
            heard: update.steps.div_ceil(10),
            weights: Weights::ONE,
            cavity: Some((problem.natural_family(), problem.cavity())),
            proximal: 0.0,
            rate: &rate,
            units: None,
        };
        let read = steps.take(&begin, &interval)?;
        let natural = problem.natural_family().natural_of_member(problem.family(), &read.global)?;
        solver.keep(&read.global);
        Ok(Solved { natural, log_likelihood: read.bound, steps: update.steps, clipped: 0, shortened: 0 })
    }
}

/// Refuses steps of θ between visits, which move the local posterior on the host.
fn check_theta(options: &PviOptions, silo: &Silo) -> Result<()> {
    let has_latent_rows = silo.table.has_local_latents();
    let is_served = options.theta_every == 0 || silo.theta_len == 0 || !has_latent_rows;
    let found = format_args!("true for a model with {} parameters θ and latents of rows", silo.theta_len);
    let expected = "false, or theta_every: 0, since a step of θ moves the latents of rows on the host; SfviAvg trains both on a device";
    Error::unless(is_served, "on_device", found, expected)
}
