//! Lists the runs of each part of the study, with the settings of the papers or smaller ones.

use clap::ValueEnum;
use partita::inference::{
    Adam, EarlyStop, Factors, FedOptOptions, GradientDescent, LocalSolver, Monitor, Plug, PriorShare, Renyi, Start,
};
use partita::{AlgorithmChoice, Loss, PviOptions, Schedule, SiloSchedule};
use serde::Serialize;

use super::study::{Run, Split};
use crate::harness::Result;

/// A part of the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
pub(crate) enum Part {
    /// Ten identical silos: PVI beside global inference (Figure 6).
    Alike,
    /// Committees, streaming, and the damping of sequential updates (Figures 6 and 13).
    Others,
    /// The damping of synchronous updates (Figure 14).
    Damping,
    /// Local problems that stop early (Figure 7).
    Stopping,
    /// Silos of two digits (Figures 8 and 11).
    Digits,
    /// Rényi divergences (the thesis, section 5.2).
    Divergence,
    /// Wrong training labels, with robust losses and divergences.
    Flipped,
    /// Point estimates of the same network: federated averaging and its variants (the thesis, section 5.3).
    Points,
}

impl Part {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Alike => "silos alike",
            Self::Others => "committees, streaming and damped sequential visits",
            Self::Damping => "damping of synchronous visits",
            Self::Stopping => "early stopping on the expected log likelihood",
            Self::Digits => "two digits a silo",
            Self::Divergence => "divergences of Rényi",
            Self::Flipped => "one training label of five is wrong",
            Self::Points => "point estimates of the same network",
        }
    }
}

/// The size of every part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Size {
    pub(crate) name: &'static str,
    /// Training and test digits; all if there are fewer.
    pub(crate) digits: [usize; 2],
    /// Identical silos, and silos of two digits.
    pub(crate) silos: [usize; 2],
    pub(crate) batch: usize,
    /// The learning rate, within each local update.
    pub(crate) schedule: Schedule,
    pub(crate) particles: usize,
    pub(crate) draws: [u64; 2],
    /// Steps of global inference.
    pub(crate) global: u64,
    /// Sweeps of sequential updates, and the most steps of one.
    pub(crate) sequential: [u64; 2],
    /// Rounds of synchronous updates, and the most steps of one.
    pub(crate) synchronous: [u64; 2],
    /// Rounds of the sweep over damping factors: an improper product shows in the first ones.
    pub(crate) damped: u64,
    /// The standard deviation at which posteriors of synchronous updates start: a few steps cannot undo a precision
    /// without support in the data.
    pub(crate) wide: f64,
    /// Sweeps over silos of two digits and the steps of an update, then the same for rounds.
    pub(crate) shards: [u64; 4],
    /// The most steps of a local update that stops early, and rounds of synchronous ones.
    pub(crate) stopped: [u64; 2],
    /// Windows without a better expected log likelihood before a local update stops early.
    pub(crate) patience: u64,
    /// Whether factors hold components to which a local update would give a negative precision.
    pub(crate) hold: bool,
    /// With wrong labels: sweeps of sequential updates, rounds of federated averaging, and the steps of each.
    pub(crate) flipped: [u64; 3],
    /// Rounds of point estimation, and the steps of each.
    pub(crate) points: [u64; 2],
}

/// To test that it runs.
pub(crate) const QUICK: Size = Size {
    name: "quick",
    digits: [4_000, 1_000],
    silos: [4, 10],
    batch: 64,
    schedule: Schedule::Constant { rate: 5e-3 },
    particles: 1,
    draws: [4, 8],
    global: 160,
    sequential: [1, 40],
    synchronous: [4, 10],
    damped: 4,
    wide: TIGHT,
    shards: [1, 16, 4, 4],
    stopped: [60, 2],
    patience: 2,
    hold: false,
    flipped: [1, 2, 20],
    points: [4, 10],
};

/// All digits, and far fewer steps than the papers took.
pub(crate) const REDUCED: Size = Size {
    name: "reduced",
    digits: [60_000, 10_000],
    silos: [10, 100],
    batch: 128,
    schedule: Schedule::Cosine { initial: 1e-2, last: 0.0 },
    particles: 1,
    draws: [5, 30],
    global: 3_000,
    sequential: [2, 150],
    synchronous: [12, 50],
    damped: 12,
    wide: 0.1,
    shards: [1, 30, 8, 5],
    stopped: [138, 3],
    patience: 1,
    hold: false,
    flipped: [1, 3, 50],
    points: [30, 5],
};

/// All digits, and local updates long enough for weights without support in the data to return to the prior; one draw
/// where the papers take ten.
pub(crate) const LONG: Size = Size {
    name: "long",
    digits: [60_000, 10_000],
    silos: [10, 100],
    batch: 256,
    schedule: Schedule::Cosine { initial: 5e-3, last: 0.0 },
    particles: 1,
    draws: [10, 100],
    global: 20_000,
    sequential: [4, 1_000],
    synchronous: [16, 1_000],
    damped: 4,
    wide: TIGHT,
    shards: [3, 200, 40, 100],
    stopped: [2_300, 8],
    patience: 3,
    hold: true,
    flipped: [2, 20, 100],
    points: [100, 20],
};

/// Learning rate, batch, draws, silos and stopping as in the papers and their authors' code, and local updates that may
/// run to convergence; fewer sweeps and rounds than the papers' hundred.
pub(crate) const PAPER: Size = Size {
    name: "paper",
    digits: [60_000, 10_000],
    silos: [10, 100],
    batch: 512,
    schedule: Schedule::Constant { rate: 2e-3 },
    particles: 10,
    draws: [10, 100],
    global: 20_000,
    sequential: [3, 2_000],
    synchronous: [5, 2_000],
    damped: 5,
    wide: TIGHT,
    shards: [20, 100, 40, 100],
    stopped: [24_000, 40],
    patience: 5,
    hold: true,
    flipped: [3, 50, 120],
    points: [300, 20],
};

/// The share of wrong training labels, and the index of the generalised cross-entropy, as in Zhang and Sabuncu (2018).
const FLIPPED: f64 = 0.2;
const ROBUSTNESS: f64 = 0.7;
/// The index of Rényi's divergence used with it.
const NARROW: f64 = 2.5;

/// The damping of the paper's synchronous updates, with identical silos and with two digits each, and of its sequential
/// updates of silos with two digits.
const SYNCHRONOUS: f64 = 0.2;
const SHARDS: [f64; 2] = [0.3, 0.025];

/// The prefix of the files of the sweep over damping factors, whose rounds and held components differ from those of the
/// synchronous updates beside global inference.
pub(crate) const DAMPED: &str = "damping";

/// The standard deviation at which posteriors start, and at which local updates that stop early start again: the square
/// root of the authors' 1e-3.
pub(crate) const TIGHT: f64 = 0.031_622_776_601_683_79;

impl Size {
    /// The same with `times` times as many sweeps, rounds and steps of global inference; local updates stay as they
    /// are.
    pub(crate) fn longer(self, times: u64) -> Self {
        let first = |[count, steps]: [u64; 2]| [times * count, steps];
        let [sweeps, visit, rounds, steps] = self.shards;
        let [own, average, each] = self.flipped;
        Self {
            global: times * self.global,
            sequential: first(self.sequential),
            synchronous: first(self.synchronous),
            damped: times * self.damped,
            shards: [times * sweeps, visit, times * rounds, steps],
            stopped: [self.stopped[0], times * self.stopped[1]],
            flipped: [times * own, times * average, each],
            points: first(self.points),
            ..self
        }
    }

    fn run(&self, [slug, label]: [&str; 2], split: Split, algorithm: AlgorithmChoice, exchanges: u64) -> Run {
        let steps = match &algorithm {
            AlgorithmChoice::Pvi(options) => options.local_steps,
            AlgorithmChoice::FedOpt(options) => options.local_steps,
            _ => 1,
        };
        Run {
            slug: slug.into(),
            label: label.into(),
            split,
            algorithm,
            exchanges: [exchanges, steps],
            loss: Loss::NegativeLogLikelihood,
            flipped: 0.0,
            schedule: self.schedule,
            batch: self.batch,
            particles: self.particles,
            initial_scale: TIGHT,
            every: exchanges.div_ceil(10),
            draws: self.draws,
            seed: 1,
            uniform: None,
        }
    }

    fn global(&self, slug: &str) -> Run {
        self.run([slug, "global VI"], Split::Pooled, AlgorithmChoice::Central, self.global)
    }

    /// Sequential updates of identical silos, measured every half sweep.
    fn sequential(&self, names: [&str; 2], options: PviOptions, sweeps: u64) -> Run {
        let silos = self.silos[0] as u64;
        let run = self.run(names, self.alike_silos(), AlgorithmChoice::Pvi(options), sweeps * silos);
        Run { every: silos.div_ceil(2), ..run }
    }

    /// Synchronous updates of identical silos, measured after every round, in a file named after `part` and the
    /// damping.
    fn synchronous(&self, part: &str, damping: f64) -> Run {
        let [rounds, steps] = self.synchronous;
        let names = [format!("{part}_{damping}"), format!("synchronous PVI, rho {damping}")];
        let options = self.held(together(PviOptions::new(steps), damping));
        let names = [names[0].as_str(), names[1].as_str()];
        Run {
            every: rounds.div_ceil(20),
            initial_scale: self.wide,
            ..self.run(names, self.alike_silos(), AlgorithmChoice::Pvi(options), rounds)
        }
    }

    fn alike_silos(&self) -> Split {
        Split::Alike(self.silos[0])
    }

    /// Stops a visit when the expected log likelihood of an epoch no longer rises, and starts every visit tight.
    fn early(&self, split: Split, start: Start) -> Plug<dyn LocalSolver> {
        let rows = self.digits[0] / split.silos();
        let window = (rows / self.batch).max(1) as u64;
        let stop = EarlyStop { monitor: Monitor::LogLikelihood, window, patience: self.patience };
        GradientDescent { start, stop: Some(stop), ..GradientDescent::default() }.into()
    }

    /// The runs of a part.
    pub(crate) fn runs(&self, part: Part) -> Vec<Run> {
        match part {
            Part::Alike => self.alike(),
            Part::Others => self.others(),
            Part::Damping => self.dampings(),
            Part::Stopping => self.stopping(),
            Part::Digits => self.digits(),
            Part::Divergence => self.divergences(),
            Part::Flipped => self.flipped(),
            Part::Points => self.points(),
        }
    }

    /// Noisy local updates can remove more precision from a weight than it has: its next local problem then has no
    /// maximum.
    fn held(&self, options: PviOptions) -> PviOptions {
        PviOptions { hold_improper: self.hold, ..options }
    }

    /// Sequential updates without damping, with the Kullback-Leibler divergence.
    fn plain(&self) -> Run {
        let options = self.held(PviOptions::new(self.sequential[1]));
        self.sequential(["sequential", "sequential PVI"], options, self.sequential[0])
    }

    fn alike(&self) -> Vec<Run> {
        let pool = 1.0 / self.silos[0] as f64;
        let together = |damping| self.synchronous("synchronous", damping);
        vec![self.global("global"), self.plain(), together(SYNCHRONOUS), together(pool)]
    }

    /// The methods compared with PVI, all configurations of PVI: committees are one undamped synchronous round, and
    /// streaming removes nothing, so that its first sweep is continual learning.
    fn others(&self) -> Vec<Run> {
        let [sweeps, steps] = self.sequential;
        let visits = PviOptions::new(steps);
        let committee = |names: [&str; 2], prior| {
            let options = PviOptions { prior, ..together(visits.clone(), 1.0) };
            self.run(names, self.alike_silos(), AlgorithmChoice::Pvi(options), 1)
        };
        let forgotten = PviOptions { factors: Factors::Forgotten, ..visits.clone() };
        let damped = |damping: f64| {
            let names = [format!("sequential_{damping}"), format!("sequential PVI, rho {damping}")];
            let options = self.held(PviOptions { damping: Some(damping), ..visits.clone() });
            self.sequential([&names[0], &names[1]], options, sweeps.div_ceil(2))
        };
        vec![
            self.plain(),
            committee(["committee_same", "BCM, same prior"], PriorShare::Whole),
            committee(["committee_split", "BCM, split prior"], PriorShare::BySize),
            self.sequential(["streaming", "streaming VB"], forgotten, sweeps),
            damped(0.25),
            damped(0.5),
        ]
    }

    fn dampings(&self) -> Vec<Run> {
        let is_quick = self.name == QUICK.name;
        let factors: &[f64] = if is_quick { &[0.2, 1.0] } else { &[0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 1.0] };
        // Nothing is held, to show where the product is improper.
        let few = Self { synchronous: [self.damped, self.synchronous[1]], hold: false, ..*self };
        factors.iter().map(|damping| few.synchronous(DAMPED, *damping)).collect()
    }

    fn stopping(&self) -> Vec<Run> {
        let all = AlgorithmChoice::Pvi(together(self.tight(), SYNCHRONOUS));
        // Global inference with early stopping is partitioned inference of one silo and one local update.
        let one = PviOptions { solver: self.early(Split::Pooled, Start::Received), ..PviOptions::new(self.global) };
        let global = ["global_stopped", "global VI, stopped"];
        let synchronous = ["synchronous_stopped", "synchronous PVI, stopped, tight"];
        // Streaming removes nothing, so that no cavity can have a negative precision.
        let forgotten = PviOptions { factors: Factors::Forgotten, hold_improper: false, ..self.tight() };
        vec![
            self.run(global, Split::Pooled, AlgorithmChoice::Pvi(one), 1),
            self.stopped(),
            self.run(synchronous, self.alike_silos(), all, self.stopped[1]),
            self.sequential(["streaming_stopped", "streaming VB, stopped, tight"], forgotten, self.sequential[0]),
        ]
    }

    fn stopped(&self) -> Run {
        self.sequential(["sequential_stopped", "sequential PVI, stopped, tight"], self.tight(), self.sequential[0])
    }

    /// Local updates that start tight and stop early.
    fn tight(&self) -> PviOptions {
        let solver = self.early(self.alike_silos(), Start::Tight { deviation: TIGHT });
        self.held(PviOptions { solver, ..PviOptions::new(self.stopped[0]) })
    }

    fn digits(&self) -> Vec<Run> {
        let split = Split::Shards(self.silos[1]);
        let [sweeps, visit, rounds, steps] = self.shards;
        let one = self.held(PviOptions { damping: Some(SHARDS[0]), ..PviOptions::new(visit) });
        let all = self.held(together(PviOptions::new(steps), SHARDS[1]));
        let sequential = ["shards_sequential", "sequential PVI, rho 0.3"];
        let synchronous = ["shards_synchronous", "synchronous PVI, rho 0.025"];
        let global = ["shards_global", "global VI, a step of all silos"];
        let stochastic = ["shards_stochastic", "global VI, a step of one silo"];
        let visits = sweeps * self.silos[1] as u64;
        // Their optimisers continue from step to step; messages are as many as those of sequential updates.
        let schedule = Schedule::Constant { rate: self.schedule.rate(0, 1) };
        let solver = GradientDescent { keep_optimiser: true, ..GradientDescent::default() }.into();
        let biased = PviOptions { solver, factors: Factors::Shared, ..PviOptions::new(1) };
        vec![
            self.run(sequential, split, AlgorithmChoice::Pvi(one), visits),
            Run { initial_scale: self.wide, ..self.run(synchronous, split, AlgorithmChoice::Pvi(all), rounds) },
            Run { schedule, ..self.run(global, split, AlgorithmChoice::Sfvi, sweeps) },
            Run { schedule, ..self.run(stochastic, split, AlgorithmChoice::Pvi(biased), visits) },
        ]
    }

    /// The sequential updates of identical silos, with Rényi divergences from the cavity; index 1 is the
    /// Kullback-Leibler divergence. No update starts tight: above 1 the divergence is infinite for a posterior wider
    /// than its cavity.
    fn divergences(&self) -> Vec<Run> {
        let indices: &[f64] = if self.name == QUICK.name { &[2.5] } else { &[0.5, 0.75, 2.5, 5.0] };
        let run = |index: &f64| {
            let names = [format!("renyi_{index}"), format!("sequential PGVI, Rényi {index}")];
            self.sequential([&names[0], &names[1]], self.generalised(*index), self.sequential[0])
        };
        indices.iter().map(run).chain([self.plain()]).collect()
    }

    fn generalised(&self, index: f64) -> PviOptions {
        self.held(PviOptions { divergence: Renyi { alpha: index }.into(), ..PviOptions::new(self.sequential[1]) })
    }

    fn flipped(&self) -> Vec<Run> {
        let [sweeps, rounds, steps] = self.flipped;
        let average = FedOptOptions { optimiser: Adam::default().into(), ..FedOptOptions::fed_avg(steps) };
        let robust = Loss::GeneralisedCrossEntropy(ROBUSTNESS);
        let (plain, renyi) = (self.held(PviOptions::new(self.sequential[1])), self.generalised(NARROW));
        let both = ["flipped_both", "sequential PGVI, cross-entropy 0.7, Rényi 2.5"];
        let runs = vec![
            self.run(["flipped_fedavg", "FedAvg"], self.alike_silos(), AlgorithmChoice::FedOpt(average), rounds),
            self.sequential(["flipped_pvi", "sequential PVI"], plain.clone(), sweeps),
            Run {
                loss: robust,
                ..self.sequential(["flipped_loss", "sequential PGVI, cross-entropy 0.7"], plain, sweeps)
            },
            Run { loss: robust, ..self.sequential(both, renyi, sweeps) },
        ];
        runs.into_iter().map(|run| Run { flipped: FLIPPED, ..run }).collect()
    }

    /// Posterior modes by every server rule, with the local steps of federated averaging by Adam; FedSGD has one plain
    /// step a round, and the same number of rounds.
    fn points(&self) -> Vec<Run> {
        let [rounds, steps] = self.points;
        let run = |names: [&str; 2], options: FedOptOptions| {
            let options = FedOptOptions { optimiser: Adam::default().into(), ..options };
            self.run(names, self.alike_silos(), AlgorithmChoice::FedOpt(options), rounds)
        };
        let plain = AlgorithmChoice::FedOpt(FedOptOptions::fed_sgd());
        let plain = self.run(["points_fedsgd", "FedSGD"], self.alike_silos(), plain, rounds * steps);
        vec![
            run(["points_fedavg", "FedAvg"], FedOptOptions::fed_avg(steps)),
            run(["points_fedprox", "FedProx, mu 0.01"], FedOptOptions::fed_prox(steps, 0.01)),
            Run { schedule: Schedule::Constant { rate: 0.3 }, ..plain },
            run(["points_fedadagrad", "FedAdagrad, rate 0.03"], FedOptOptions::fed_adagrad(steps, 0.03)),
            run(["points_fedadam", "FedAdam, rate 0.01"], FedOptOptions::fed_adam(steps, 0.01)),
            run(["points_fedyogi", "FedYogi, rate 0.01"], FedOptOptions::fed_yogi(steps, 0.01)),
            run(["points_masked", "masked averaging, threshold 0.4"], FedOptOptions::masked(steps, 0.4)),
        ]
    }
}

/// The runs of each of these parts.
///
/// # Errors
/// For two runs of different settings with one name in files, since each would delete the other's results.
pub(crate) fn of_parts(parts: &[Part], runs: impl Fn(Part) -> Vec<Run>) -> Result<Vec<(Part, Vec<Run>)>> {
    let planned: Vec<(Part, Vec<Run>)> = parts.iter().map(|part| (*part, runs(*part))).collect();
    let all: Vec<&Run> = planned.iter().flat_map(|(_, runs)| runs).collect();
    for (place, run) in all.iter().enumerate() {
        if all[..place].iter().any(|other| other.slug == run.slug && other != run) {
            return Err(format!("two runs of different settings are both called `{}`: name one anew", run.slug).into());
        }
    }
    Ok(planned)
}

fn together(options: PviOptions, damping: f64) -> PviOptions {
    PviOptions { schedule: SiloSchedule::Synchronous, damping: Some(damping), ..options }
}
