//! Runs partitioned inference by the schedules of the framework thesis and keeps what every communication reported.

use std::path::Path;

use clap::ValueEnum;
use partita::inference::{
    Counters, Delays, ExponentialFamily, GradientDescent, InProcess, NormalFamily, Order, Pvi, PviSilo, RunOptions,
    Silent, Silo, SiloProgram, Start, Threads, plot, run, run_by_arrival,
};
use partita::{Device, FamilyPlan, Gaussian, Model, PviOptions, Schedule, Settings, SolverChoice, VisitSchedule};
use serde::Serialize;

pub(crate) type Failure = Box<dyn std::error::Error>;

/// How local problems are solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Solver {
    /// In closed form.
    Conjugate,
    /// By sampled gradients and Adam.
    Adam,
}

/// Which silos are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    Sequential,
    Synchronous,
    /// Asynchronous on a seeded virtual clock, the same run every time.
    Asynchronous,
    /// Asynchronous on threads, in whatever order they answer.
    Threads,
}

pub(crate) const WAYS: [Way; 4] = [Way::Sequential, Way::Synchronous, Way::Asynchronous, Way::Threads];

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Synchronous => "synchronous",
            Self::Asynchronous => "asynchronous",
            Self::Threads => "on threads",
        }
    }

    fn schedule(self) -> VisitSchedule {
        match self {
            Self::Sequential => VisitSchedule::Sequential(Order::Fixed),
            Self::Synchronous => VisitSchedule::Synchronous,
            Self::Asynchronous | Self::Threads => VisitSchedule::Asynchronous(Delays::default()),
        }
    }
}

/// How many times more answers threads give whose visits take no time.
const THREADED: u64 = 50;

/// What all runs of a study have in common.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Plan {
    /// Visits of each silo, on average; sequential runs, which are not damped, take one more than that over the silos.
    pub(crate) visits: u64,
    /// Gradient steps of a visit.
    pub(crate) local_steps: u64,
    /// Draws of a gradient.
    pub(crate) samples: usize,
    /// The rate of Adam.
    pub(crate) rate: f64,
    /// Whether silos go on from their own last solution with the state of their optimiser, at a constant rate, as those of the
    /// thesis did; else each visit starts at the posterior received, with a rate that falls to zero.
    pub(crate) keep: bool,
    /// The seed of all randomness.
    pub(crate) seed: u64,
    /// Silos that work side by side in a synchronous round; the result does not depend on it.
    pub(crate) threads: usize,
}

/// An exact posterior.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    pub(crate) mean: Vec<f64>,
    /// The variances of the nearest Gaussian without correlation.
    pub(crate) variances: Vec<f64>,
    /// The precision matrix, row by row.
    pub(crate) precision: Vec<f64>,
    /// In nats.
    pub(crate) log_evidence: f64,
}

/// What a run found and took.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Found {
    pub(crate) solver: Solver,
    pub(crate) way: Way,
    pub(crate) mean: Vec<f64>,
    pub(crate) variances: Vec<f64>,
    /// Final natural parameters.
    pub(crate) natural: Vec<f64>,
    /// Minus the bound of the final posterior in nats, in closed form.
    pub(crate) loss: f64,
    /// Its divergence from the exact posterior, in nats.
    pub(crate) divergence: f64,
    /// Communications, counted in answers of silos, and the loss that silos had reported by then, in nats; from the first
    /// by which every silo had answered.
    pub(crate) losses: Vec<(f64, f64)>,
    pub(crate) counters: Counters,
    pub(crate) seconds: f64,
}

impl Plan {
    /// One run.
    pub(crate) fn run<M: Model + 'static>(
        self,
        (model, silos): (&M, &[(String, M::Data)]),
        truth: &Truth,
        device: &Device,
        (solver, way): (Solver, Way),
    ) -> Result<Found, Failure> {
        let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
        let together = if way == Way::Synchronous { names.len() } else { 1 };
        let silos_here = names.len() as u64;
        let exchanges = match way {
            Way::Sequential => (self.visits / silos_here + 1) * silos_here,
            Way::Synchronous => self.visits,
            // Visits of microseconds leave it to the machine who is visited: so many that everyone is.
            Way::Threads if solver == Solver::Conjugate => THREADED * self.visits * silos_here,
            Way::Asynchronous | Way::Threads => self.visits * silos_here,
        };
        let options = self.options(solver, way, names.len());
        let settings = Settings {
            steps: exchanges * options.local_steps,
            seed: self.seed,
            particles: self.samples,
            family: FamilyPlan::new().global(Gaussian::diagonal()),
            schedule: match self.keep {
                true => Schedule::Constant { rate: self.rate },
                false => Schedule::Cosine { initial: self.rate, last: 0.0 },
            },
            ..Settings::default()
        };
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        for ((name, data), index) in silos.iter().zip(0..) {
            let silo = Silo::new(name, index, model, data, device, &settings)?;
            programs.push(Box::new(PviSilo::new(silo, index, options)?));
        }
        let sizes = vec![1; names.len()];
        let mut pvi = Pvi::new(model, device, &settings, (&names, sizes), options)?;
        let how = RunOptions { steps: settings.steps, ..RunOptions::default() };
        let record = match way {
            Way::Threads => run_by_arrival(&mut pvi, &mut Threads::start(programs)?, &how, &mut Silent)?,
            _ => run(&mut pvi, &mut InProcess::new(programs, self.threads)?, &how, &mut Silent)?,
        };
        let (mean, spread) = pvi.natural_family().moments(pvi.natural());
        let variances: Vec<f64> = spread.deviations().iter().map(|deviation| deviation * deviation).collect();
        let divergence = truth.divergence(&mean, &variances);
        #[expect(clippy::cast_precision_loss, reason = "communications are far fewer than 2^52")]
        let point = |(step, elbo): &(u64, f64)| ((step / options.local_steps * together as u64) as f64, -elbo);
        let losses = record.trace.iter().filter(|point| point.1.is_finite()).map(point).collect();
        let natural = pvi.natural().to_vec();
        let loss = divergence - truth.log_evidence;
        let (counters, seconds) = (record.counters, record.seconds);
        Ok(Found { solver, way, mean, variances, natural, loss, divergence, losses, counters, seconds })
    }

    /// The damping of the thesis's server: half of 1/N at first, then 1/N, and none where one silo is visited at a time.
    #[expect(clippy::cast_precision_loss, reason = "silos are few")]
    fn options(self, solver: Solver, way: Way, silos: usize) -> PviOptions {
        let start = if self.keep { Start::Previous } else { Start::Received };
        let descent = GradientDescent { start, keep_optimiser: self.keep, stop: None, ..GradientDescent::default() };
        PviOptions {
            schedule: way.schedule(),
            first_damping: (way != Way::Sequential).then_some(0.5 / silos as f64),
            solver: match solver {
                Solver::Conjugate => SolverChoice::Conjugate,
                Solver::Adam => SolverChoice::Gradient(descent),
            },
            ..PviOptions::new(if solver == Solver::Adam { self.local_steps } else { 1 })
        }
    }
}

impl Truth {
    /// The divergence of independent normals from the exact posterior in nats.
    pub(crate) fn divergence(&self, mean: &[f64], variances: &[f64]) -> f64 {
        let size = mean.len();
        let diagonal: Vec<f64> = (0..size * size)
            .map(|cell| if cell % (size + 1) == 0 { 1.0 / variances[cell / (size + 1)] } else { 0.0 })
            .collect();
        let natural = |mean: &[f64], precision: &[f64]| {
            let first = precision.chunks_exact(size).map(|row| row.iter().zip(mean).map(|(a, b)| a * b).sum());
            let pairs = (0..size).flat_map(|i| (0..=i).map(move |j| (i, j)));
            let second = pairs.map(|(i, j)| if i == j { -0.5 } else { -1.0 } * precision[i * size + j]);
            first.chain(second).collect::<Vec<f64>>()
        };
        NormalFamily::full(size).kl_divergence(&natural(mean, &diagonal), &natural(&self.mean, &self.precision))
    }
}

/// Prints the three counters of each run and what else it took.
pub(crate) fn print_costs(found: &[Found]) {
    println!(
        "\n{:<10} {:<13} {:>7} {:>9} {:>15} {:>9} {:>14} {:>8}",
        "solver", "schedule", "rounds", "messages", "gradient steps", "improper", "loss, nats", "seconds"
    );
    for run in found {
        let counters = run.counters;
        println!(
            "{:<10} {:<13} {:>7} {:>9} {:>15} {:>9} {:>14.2} {:>8.1}",
            format!("{:?}", run.solver).to_lowercase(),
            run.way.name(),
            counters.rounds,
            counters.messages,
            counters.silo_steps,
            counters.improper_cavities,
            run.loss,
            run.seconds
        );
    }
    println!("Gradient steps are those of all silos together. Improper: local problems whose cavity was no density.");
}

/// Draws the losses that silos reported.
pub(crate) fn draw_losses(path: &Path, found: &[&Found], title: &str) -> Result<(), Failure> {
    // A run cut so short that only its last communication has a loss of all silos is no curve.
    let drawn = found.iter().filter(|run| run.losses.len() > 1);
    let curves: Vec<_> = drawn.map(|run| (run.way.name().to_owned(), run.losses.clone())).collect();
    Ok(plot::lines(path, &curves, title, ["communications", "loss, nats"])?)
}
