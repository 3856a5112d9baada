//! Runs partitioned inference by the schedules of the framework thesis and keeps the report of every exchange.

use std::path::Path;

use clap::{Args, ValueEnum};
use partita::inference::{
    Conjugate, Counters, Delays, ExponentialFamily, GradientDescent, InProcess, NormalFamily, Order, Pvi, PviSilo,
    RunOptions, Silent, Silo, SiloProgram, Start, StartFrom, Threads, run, run_asynchronous,
};
use partita::{Device, FamilyPlan, Gaussian, Model, PviOptions, Schedule, Settings, SiloSchedule};
use serde::{Deserialize, Serialize};

use crate::harness::{Result, Session, Shared, Table, improper_cavities, real};
use crate::pictures;

/// How local problems are solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Solver {
    /// In closed form.
    Conjugate,
    /// By sampled gradients and Adam.
    Adam,
}

/// The schedules of silos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    Sequential,
    Synchronous,
    /// Asynchronous on a seeded virtual clock, the same run every time.
    Asynchronous,
    /// Asynchronous on threads, in the order of their answers.
    Threads,
}

const WAYS: [Way; 4] = [Way::Sequential, Way::Synchronous, Way::Asynchronous, Way::Threads];

impl Solver {
    /// Both.
    const ALL: [Self; 2] = [Self::Conjugate, Self::Adam];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Conjugate => "conjugate",
            Self::Adam => "adam",
        }
    }
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Synchronous => "synchronous",
            Self::Asynchronous => "asynchronous",
            Self::Threads => "on threads",
        }
    }

    fn schedule(self) -> SiloSchedule {
        match self {
            Self::Sequential => SiloSchedule::Sequential(Order::Fixed),
            Self::Synchronous => SiloSchedule::Synchronous,
            Self::Asynchronous | Self::Threads => SiloSchedule::Asynchronous(Delays::default()),
        }
    }
}

/// The factor on the number of answers for threads whose local updates take no time.
const THREADED: u64 = 50;

/// The options that both experiments have.
#[derive(Args, Debug, Clone)]
pub(crate) struct Runs {
    /// One local solver; both if it is not named.
    #[arg(long, value_enum)]
    solver: Option<Solver>,
    /// Local updates of each silo in damped runs; sequential runs take this number over the silos, plus one.
    #[arg(long)]
    visits: Option<u64>,
    /// Gradient steps of a local update.
    #[arg(long, default_value_t = 1_000)]
    local_steps: u64,
    /// Monte Carlo draws of a gradient.
    #[arg(long, default_value_t = 10)]
    samples: usize,
    /// The learning rate of Adam, from which it falls to zero in each local update.
    #[arg(long, default_value_t = 0.05)]
    rate: f64,
    /// Starts silos at their own last solution, with the state of Adam and a constant rate (the thesis's was 0.02).
    #[arg(long)]
    keep: bool,
}

impl Runs {
    /// The plan of an experiment with `visits` local updates by default; `small` for a quick run.
    pub(crate) fn plan(&self, shared: &Shared, visits: u64, small: Small) -> Plan {
        let Self { local_steps, samples, rate, keep, .. } = *self;
        let visits = self.visits.unwrap_or(visits);
        let plan = Plan { visits, local_steps, samples, rate, keep, seed: shared.seed, threads: shared.threads };
        match shared.quick {
            true => {
                Plan { visits: small.visits, local_steps: small.local_steps, samples: small.samples, rate: 0.1, ..plan }
            }
            false => plan,
        }
    }
}

/// The numbers of a quick run, at the rate 0.1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Small {
    pub(crate) visits: u64,
    pub(crate) local_steps: u64,
    pub(crate) samples: usize,
}

/// The settings that all runs of an experiment share.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Plan {
    /// Local updates of each silo, on average; sequential runs, which are undamped, take this over the silos, plus one.
    visits: u64,
    /// Gradient steps of a local update.
    local_steps: u64,
    /// Draws of a gradient.
    samples: usize,
    /// The rate of Adam.
    rate: f64,
    /// Whether silos start at their own last solution with the state of their optimiser, at a constant rate, as in the
    /// thesis. Otherwise each local update starts at the posterior received, with a rate that falls to zero.
    keep: bool,
    /// The seed of all randomness.
    seed: u64,
    /// Silos that run in parallel in a synchronous round; the result does not depend on it.
    threads: usize,
}

/// A model over silos with its exact posterior, and the plan of its fits.
pub(crate) struct Experiment<'a, M: Model> {
    pub(crate) model: &'a M,
    pub(crate) silos: &'a [(String, M::Data)],
    pub(crate) truth: &'a Truth,
    pub(crate) device: &'a Device,
    pub(crate) plan: Plan,
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

/// The result of a run and its costs.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    /// Answers of silos so far, and the loss that silos had reported by then, in nats; from the first point at which
    /// every silo had answered.
    pub(crate) losses: Vec<(f64, f64)>,
    pub(crate) counters: Counters,
    /// Local problems whose cavity was no density.
    pub(crate) improper_cavities: u64,
    pub(crate) seconds: f64,
}

impl<M: Model> Experiment<'_, M> {
    /// Every schedule with the solvers requested; finished runs are kept.
    pub(crate) fn run_all(&self, runs: &Runs, session: &Session) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        // The evidence identifies data and model.
        let settings = (&self.plan, self.truth.log_evidence);
        for solver in runs.solver.map_or(Solver::ALL.to_vec(), |only| vec![only]) {
            for way in WAYS {
                let name = format!("{}_{}", solver.name(), way.name().replace(' ', "_"));
                found.push(session.kept(&name, &settings, || self.run(solver, way))?);
            }
        }
        Ok(found)
    }

    fn run(&self, solver: Solver, way: Way) -> Result<Found> {
        let (plan, silos) = (self.plan, self.silos.len());
        let names: Vec<String> = self.silos.iter().map(|(name, _)| name.clone()).collect();
        let options = plan.options(solver, way, silos);
        let settings = plan.settings(plan.exchanges(solver, way, silos as u64) * options.local_steps);
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        for ((name, data), index) in self.silos.iter().zip(0..) {
            let silo = Silo::new(name, index, self.model, data, self.device, &settings)?;
            programs.push(Box::new(PviSilo::new(silo, index, options.clone())?));
        }
        let mut pvi = Pvi::new(self.model, self.device, &settings, &names, vec![1; silos], options.clone())?;
        let how = RunOptions { steps: settings.steps, ..RunOptions::default() };
        let record = match way {
            Way::Threads => run_asynchronous(&mut pvi, &mut Threads::start(programs)?, &how, &mut Silent)?,
            _ => run(&mut pvi, &mut InProcess::new(programs, plan.threads)?, &how, &mut Silent)?,
        };
        let (mean, spread) = pvi.natural_family().moments(pvi.natural());
        let variances: Vec<f64> = spread.deviations().iter().map(|deviation| deviation * deviation).collect();
        let divergence = self.truth.divergence(&mean, &variances);
        let together = if way == Way::Synchronous { silos as u64 } else { 1 };
        let point = |(step, elbo): &(u64, f64)| (real(step / options.local_steps * together), -elbo);
        let losses = record.trace.iter().filter(|point| point.1.is_finite()).map(point).collect();
        let natural = pvi.natural().to_vec();
        let loss = divergence - self.truth.log_evidence;
        let (counters, improper_cavities, seconds) = (record.counters, improper_cavities(&pvi), record.seconds);
        Ok(Found {
            solver,
            way,
            mean,
            variances,
            natural,
            loss,
            divergence,
            losses,
            counters,
            improper_cavities,
            seconds,
        })
    }
}

impl Plan {
    fn exchanges(self, solver: Solver, way: Way, silos: u64) -> u64 {
        match way {
            Way::Sequential => (self.visits / silos + 1) * silos,
            Way::Synchronous => self.visits,
            // With updates of microseconds the machine chooses the silos: the number is large enough for all to take
            // part.
            Way::Threads if solver == Solver::Conjugate => THREADED * self.visits * silos,
            Way::Asynchronous | Way::Threads => self.visits * silos,
        }
    }

    fn settings(self, steps: u64) -> Settings {
        Settings {
            steps,
            seed: self.seed,
            particles: self.samples,
            family: FamilyPlan::new().global(Gaussian::diagonal()),
            schedule: match self.keep {
                true => Schedule::Constant { rate: self.rate },
                false => Schedule::Cosine { initial: self.rate, last: 0.0 },
            },
            start: StartFrom::Declared,
            ..Settings::default()
        }
    }

    /// The damping of the thesis's server: half of 1/N at first, then 1/N, and none if one silo is updated at a time.
    #[expect(clippy::cast_precision_loss, reason = "silos are few")]
    fn options(self, solver: Solver, way: Way, silos: usize) -> PviOptions {
        let start = if self.keep { Start::Previous } else { Start::Received };
        let descent = GradientDescent { start, keep_optimiser: self.keep, stop: None, ..GradientDescent::default() };
        PviOptions {
            schedule: way.schedule(),
            first_damping: (way != Way::Sequential).then_some(0.5 / silos as f64),
            solver: match solver {
                Solver::Conjugate => Conjugate.into(),
                Solver::Adam => descent.into(),
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

/// Prints the three counters of each run and its other costs.
pub(crate) fn print_costs(found: &[Found]) {
    let head = ["solver, schedule", "rounds", "messages", "gradient steps", "improper", "loss, nats", "seconds"];
    let mut table = Table::new(head);
    for run in found {
        let counters = run.counters;
        let counts = [counters.rounds, counters.messages, counters.silo_steps, run.improper_cavities];
        let costs = [format!("{:.2}", run.loss), format!("{:.1}", run.seconds)];
        table.row([run.name()].into_iter().chain(counts.map(|count| count.to_string())).chain(costs));
    }
    println!(
        "\n{table}Gradient steps are those of all silos together. Improper: local problems whose cavity was no density."
    );
}

impl Found {
    /// Solver and schedule in words.
    pub(crate) fn name(&self) -> String {
        format!("{}, {}", self.solver.name(), self.way.name())
    }
}

/// The runs with the last solver, whose losses and posteriors are drawn.
pub(crate) fn shown(found: &[Found]) -> Vec<&Found> {
    let last = found.last().map(|run| run.solver);
    found.iter().filter(|run| Some(run.solver) == last).collect()
}

/// Draws the losses that silos reported.
pub(crate) fn draw_losses(path: &Path, found: &[&Found], title: &str) -> Result<()> {
    // A run so short that only its last exchange has a loss of all silos has no curve.
    let drawn = found.iter().filter(|run| run.losses.len() > 1);
    let curves: Vec<_> = drawn.map(|run| (run.way.name().to_owned(), run.losses.clone())).collect();
    Ok(pictures::lines(path, &curves, title, ["communications", "loss, nats"])?)
}
