//! Times a round of PVI for logistic regression on adult and an epoch of a silo of the MNIST network, and counts silos.
//!
//! `cargo bench -p partita-benches --bench pvi` measures with criterion. `-- --lines` prints `partita-bench CASE
//! MICROSECONDS`, the median over rounds, for `benches/peers/compare --case pvi_adult` and `--case pvi_network`. `--
//! --check` prints the bound in nats after a round, which the peer prints too. `-- --growth` prints time and memory of
//! a round over 10, 100 and 1,000 silos of 40 rows of adult, each in a process of its own. Needs adult and MNIST
//! (`PARTITA_DATA` or the cache).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

mod measure;

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use criterion::Criterion;
use partita::datasets::{CovariateRows, adult, mnist};
use partita::inference::{Algorithm, Exchange, InProcess, Pvi, PviSilo, Silo, SiloProgram};
use partita::models::{Activation, BayesianNetwork, BinaryRows, Head, LabelledRows, LogisticRegression, Mlp};
use partita::{
    Device, Estimator, FamilyPlan, Gaussian, Model, Normal, Precision, PviOptions, Schedule, Settings, SiloSchedule,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rows of a silo, as four fifths of adult are split over ten.
const ADULT_ROWS: usize = 3_907;
/// Gradient steps of one local update of a silo of adult.
const ADULT_STEPS: u64 = 100;
/// Digits of a silo and rows of a minibatch, and the steps of an epoch over them.
const DIGITS: usize = 6_000;
const DIGITS_BATCH: usize = 512;
const EPOCH: u64 = 12;

/// One run of PVI, advanced round by round.
struct Run {
    algorithm: Pvi,
    exchange: InProcess,
    /// Exchanges in which every silo makes one local update.
    exchanges: usize,
}

impl Run {
    fn new<M: Model>(
        model: &M,
        silos: Vec<(usize, M::Data)>,
        device: &Device,
        settings: &Settings,
        options: PviOptions,
    ) -> Self {
        let names: Vec<String> = (0..silos.len()).map(|index| format!("silo-{index}")).collect();
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        let mut sizes = Vec::new();
        for ((name, (rows, data)), index) in names.iter().zip(silos).zip(0..) {
            let silo = Silo::new(name, index, model, &data, device, settings).unwrap();
            programs.push(Box::new(PviSilo::new(silo, index, options.clone()).unwrap()));
            sizes.push(rows);
        }
        let exchanges = if options.schedule == SiloSchedule::Synchronous { 1 } else { names.len() };
        let algorithm = Pvi::new(model, device, settings, &names, sizes, options).unwrap();
        Self { algorithm, exchange: InProcess::new(programs, settings.silo_threads()).unwrap(), exchanges }
    }

    /// Updates every silo once; returns the bound after it.
    fn round(&mut self) -> f64 {
        let mut bound = f64::NAN;
        for _ in 0..self.exchanges {
            let requests = self.algorithm.outgoing().unwrap();
            let outcomes = self.exchange.exchange(requests, self.algorithm.manifest(), None).unwrap();
            bound = self.algorithm.incoming(outcomes).unwrap().elbo;
        }
        bound
    }
}

/// Settings of both models: the peers' estimator, with the entropy and the cavity in closed form.
fn settings(threads: usize, particles: usize, rate: f64, scale: f64, minibatch: Option<usize>) -> Settings {
    Settings {
        steps: 10_000_000,
        threads: Some(threads),
        particles,
        estimator: Estimator::ClosedFormEntropy,
        family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(scale),
        schedule: Schedule::Constant { rate },
        minibatch: minibatch.map(|rows| ("row".to_owned(), rows)).into_iter().collect(),
        ..Settings::default()
    }
}

/// Logistic regression over `silos` silos of adult with `rows` rows each.
fn regression((silos, rows): (usize, usize), settings: &Settings, local_steps: u64, schedule: SiloSchedule) -> Run {
    let (table, device) = (adult().unwrap(), Device::flex());
    // All rows are standardised by the same reference rows, and encoded silo by silo, so that memory grows per silo.
    let reference: Vec<usize> = (0..ADULT_ROWS).collect();
    let encoded = |own: &[usize]| table.encode(own, &reference).unwrap();
    let model = LogisticRegression::new(encoded(&[0]).columns());
    let indices: Vec<usize> = (0..silos * rows).collect();
    let read = |own: &CovariateRows| BinaryRows::new(own.inputs(), own.columns(), own.labels(), &device).unwrap();
    let data = indices.chunks(rows).map(|own| (rows, read(&encoded(own))));
    Run::new(&model, data.collect(), &device, settings, PviOptions { schedule, ..PviOptions::new(local_steps) })
}

fn on_adult(threads: usize, schedule: SiloSchedule) -> Run {
    regression((10, ADULT_ROWS), &settings(threads, 10, 1e-2, 1.0, Some(128)), ADULT_STEPS, schedule)
}

/// The silo of 6,000 digits: its cavity is the prior, independent of the other nine silos.
fn on_digits(threads: usize) -> Run {
    let device = Device::flex().with_precision(Precision::Single);
    let digits: Vec<usize> = (0..DIGITS).collect();
    let images = mnist().unwrap().train.select(&digits).unwrap();
    let labels = images.labels().iter().map(|label| f64::from(*label)).collect();
    let data = LabelledRows::new(images.scaled(), labels, DIGITS, &device).unwrap();
    let network = Mlp::new(&[784, 200, 10], Activation::Relu, 1, &device);
    let model = BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 1.0));
    let estimator = Estimator::LocalReparameterisation;
    let settings = Settings { estimator, ..settings(threads, 10, 2e-3, 0.03, Some(DIGITS_BATCH)) };
    Run::new(&model, vec![(DIGITS, data)], &device, &settings, PviOptions::new(EPOCH))
}

const SEQUENTIAL: SiloSchedule = SiloSchedule::Sequential(partita::inference::Order::Fixed);

/// Prints the median over seven rounds or epochs, in microseconds.
fn lines() {
    let adult = [
        ("adult_sequential", 2, SEQUENTIAL),
        ("adult_sequential_one_thread", 1, SEQUENTIAL),
        ("adult_synchronous", 2, SiloSchedule::Synchronous),
    ];
    for (name, threads, schedule) in adult {
        measure::line(name, threads, [1, 7, 1], || {
            let mut run = on_adult(threads, schedule);
            move || {
                black_box(run.round());
            }
        });
    }
    for (name, threads) in [("network_epoch", 2), ("network_epoch_one_thread", 1)] {
        measure::line(name, threads, [1, 7, 1], || {
            let mut run = on_digits(threads);
            move || {
                black_box(run.round());
            }
        });
    }
}

/// Prints `partita-growth SILOS SCHEDULE MILLISECONDS MEGABYTES`: the median round of five, and the resident memory of
/// the process after it, which may still include part of the table read.
fn growth() {
    let words: Vec<String> = std::env::args().skip_while(|word| word != "--growth").skip(1).collect();
    let [silos, schedule] = words.as_slice() else {
        for schedule in ["sequential", "synchronous"] {
            for silos in ["10", "100", "1000"] {
                let own = std::env::current_exe().unwrap();
                assert!(Command::new(own).args(["--growth", silos, schedule]).status().unwrap().success());
            }
        }
        return;
    };
    let count = silos.parse().unwrap();
    let how = if schedule == "synchronous" { SiloSchedule::Synchronous } else { SEQUENTIAL };
    let mut run = regression((count, 40), &settings(1, 1, 1e-2, 1.0, None), 10, how);
    let mut times: Vec<f64> = (0..6)
        .map(|_| {
            let start = Instant::now();
            black_box(run.round());
            start.elapsed().as_secs_f64() * 1e3
        })
        .skip(1)
        .collect();
    times.sort_by(f64::total_cmp);
    println!("partita-growth {silos} {schedule} {:.2} {:.1}", times[2], resident());
}

/// The resident memory of this process in megabytes; NaN where there is no `/proc`.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).map_or(f64::NAN, |kilo| kilo / 1024.0)
}

fn main() {
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    if has("--lines") {
        return lines();
    }
    if has("--growth") {
        return growth();
    }
    if has("--check") {
        println!("partita-check adult {:.1}", on_adult(2, SEQUENTIAL).round());
        println!("partita-check network {:.1}", on_digits(2).round());
        return;
    }
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut run = on_adult(2, SEQUENTIAL);
    criterion.bench_function("pvi_round/adult", |bencher| bencher.iter(|| run.round()));
    let mut run = on_digits(2);
    criterion.bench_function("pvi_epoch/network", |bencher| bencher.iter(|| run.round()));
    criterion.final_summary();
}
