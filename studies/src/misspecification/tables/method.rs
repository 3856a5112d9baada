//! Fits the planar clutter model over silos until the posterior converges, or reports why the run ended.

use partita::inference::{
    Algorithm, Exchange, Expectation, InProcess, NaturalGradient, Outcome, Plug, Pvi, PviSilo, Renyi, Silo,
    SiloProgram, StartFrom,
};
use partita::{Device, FamilyPlan, Gaussian, PviOptions, Settings, SiloSchedule};

use super::Options;
use crate::harness::{Result, improper_cavities};
use crate::misspecification::PlanarClutter;

/// A normal posterior of the signal's mean.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moments {
    pub(crate) mean: Vec<f64>,
    /// Row by row.
    pub(crate) covariance: Vec<f64>,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// The posterior, or why there is none: an error, or no convergence by the last sweep.
    pub(crate) found: std::result::Result<Moments, String>,
    /// Local updates whose cavity was not a density.
    pub(crate) improper_cavities: u64,
    /// Local updates of all silos together.
    pub(crate) visits: u64,
    /// Exchanges, messages both ways, and natural-gradient steps of all silos together.
    pub(crate) counters: [u64; 3],
}

/// How a model is fitted.
#[derive(Debug, Clone)]
pub(crate) struct Method {
    options: PviOptions,
    most_sweeps: u64,
    seed: u64,
}

/// A posterior has converged when no natural parameter changes by more than this, relative to the largest.
const SETTLED: f64 = 1e-8;

impl Method {
    /// Sequential visits of a few natural-gradient steps. A fixed point of these solves every local problem exactly,
    /// however few they are.
    pub(crate) fn new(options: &Options, renyi: Option<f64>) -> Self {
        let expectation = Expectation::GaussHermite { points: options.points };
        // The gradient of Rényi's divergence is steeper where a posterior is much narrower than its cavity.
        let (share, divergence) = match renyi {
            None => (1.0, Plug::default()),
            Some(alpha) => (0.5, Renyi { alpha }.into()),
        };
        let solver = NaturalGradient { rate: share * options.rate, expectation }.into();
        let options_of_pvi = PviOptions { solver, divergence, ..PviOptions::new(options.local_steps) };
        Self { options: options_of_pvi, most_sweeps: options.sweeps, seed: options.shared.seed }
    }

    /// The same with another schedule and damping.
    pub(crate) fn scheduled(self, schedule: SiloSchedule, damping: Option<f64>) -> Self {
        Self { options: PviOptions { schedule, damping, ..self.options }, ..self }
    }

    /// Fits the model to points dealt to `silos` silos in their order, which is random.
    pub(crate) fn fit(&self, model: &PlanarClutter, points: &[[f64; 2]], silos: usize) -> Result<Run> {
        let device = Device::flex();
        let family = FamilyPlan::new().global(Gaussian::full_rank());
        let settings = Settings { seed: self.seed, family, start: StartFrom::Declared, ..Settings::default() };
        let bounds: Vec<usize> = (0..=silos).map(|silo| silo * points.len() / silos).collect();
        let (mut names, mut sizes, mut programs) = (Vec::new(), Vec::new(), Vec::<Box<dyn SiloProgram>>::new());
        for (pair, index) in bounds.windows(2).zip(0..) {
            let own = &points[pair[0]..pair[1]];
            let data = device.tensor(own.concat(), [own.len(), 2]);
            let name = format!("silo-{index}");
            let silo = Silo::new(&name, index, model, &data, &device, &settings)?;
            programs.push(Box::new(PviSilo::new(silo, index, self.options.clone())?));
            names.push(name);
            sizes.push(own.len());
        }
        let pvi = Pvi::new(model, &device, &settings, &names, sizes, self.options.clone())?;
        self.run(pvi, InProcess::new(programs, 1)?, silos as u64)
    }

    fn run(&self, mut pvi: Pvi, mut exchange: InProcess, silos: u64) -> Result<Run> {
        let (mut quiet, mut visits) = (0, 0);
        let [mut rounds, mut messages, mut steps] = [0; 3];
        // In an asynchronous run some silos answer twice before others answer once.
        let sweeps_to_see_all = if matches!(self.options.schedule, SiloSchedule::Asynchronous(_)) { 3 } else { 1 };
        let found = loop {
            let requests = pvi.outgoing()?;
            let visited = requests.len() as u64;
            let outcomes = exchange.exchange(requests, pvi.manifest(), None)?;
            visits += visited;
            rounds += 1;
            messages += visited + outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Reply(_))).count() as u64;
            // From here on an error is a result: a product or a local solution that is not a density.
            let info = match pvi.incoming(outcomes) {
                Ok(info) => info,
                Err(error) => break Err(error.to_string()),
            };
            steps += info.tally.silo_steps;
            let largest = pvi.natural().iter().fold(0.0_f64, |largest, eta| largest.max(eta.abs()));
            let is_still = info.movement.is_some_and(|movement| movement <= SETTLED * largest);
            quiet = if is_still { quiet + visited } else { 0 };
            if quiet >= sweeps_to_see_all * silos {
                let posterior = pvi.posterior();
                let mean = posterior.family.mean(posterior.parameters);
                break Ok(Moments {
                    mean,
                    covariance: posterior.family.covariance_matrix(posterior.parameters).dense(),
                });
            }
            if visits >= self.most_sweeps * silos {
                break Err(format!("it still moved after {} sweeps", self.most_sweeps));
            }
        };
        let improper_cavities = improper_cavities(&pvi);
        Ok(Run { found, improper_cavities, visits, counters: [rounds, messages, steps] })
    }
}
