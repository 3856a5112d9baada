//! Times one step of a 784-200-10 Bayesian network on 256 rows: mean-field, one draw of the weights, single precision.
//!
//! `cargo bench -p partita-benches --bench network` measures with criterion; `-- --lines` prints `partita-bench CASE
//! MICROSECONDS`, the median over blocks, for `benches/peers/compare`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

mod measure;

use std::hint::black_box;

use criterion::Criterion;
use partita::core::{Key, Noise, Purpose};
use partita::inference::{Algorithm, Central, CentralSilo, Exchange, InProcess};
use partita::models::{Activation, BayesianNetwork, Head, LabelledRows, Mlp};
use partita::{Device, Estimator, FamilyPlan, Gaussian, Normal, Precision, Schedule, Settings};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rows to draw minibatches from: enough that they are not in the cache.
const ROWS: usize = 10_000;

/// A pooled fit, advanced step by step.
struct Run {
    algorithm: Central,
    exchange: InProcess,
}

impl Run {
    fn new(estimator: Estimator) -> Self {
        let device = Device::flex().with_precision(Precision::Single);
        let network = Mlp::new(&[784, 200, 10], Activation::Relu, 1, &device);
        let model = BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 0.3));
        let mut noise = Noise::new(2).stream(Key::new(Purpose::Check, 0));
        let features = (0..ROWS * 784).map(|_| noise.uniform()).collect();
        let labels = (0..ROWS).map(|row| f64::from(u8::try_from(row % 10).unwrap())).collect();
        let data = LabelledRows::new(features, labels, ROWS, &device).unwrap();
        let settings = Settings {
            steps: 100_000,
            estimator,
            family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(0.02),
            schedule: Schedule::Constant { rate: 1e-3 },
            minibatch: [("row".to_owned(), 256)].into(),
            ..Settings::default()
        };
        let algorithm = Central::new(&model, &device, &settings, "pooled").unwrap();
        let party = CentralSilo::new("pooled", &model, &data, &device, &settings).unwrap();
        Self { algorithm, exchange: InProcess::new(vec![Box::new(party)], 1).unwrap() }
    }

    fn step(&mut self) -> f64 {
        let requests = self.algorithm.outgoing().unwrap();
        let outcomes = self.exchange.exchange(requests, self.algorithm.manifest(), None).unwrap();
        self.algorithm.incoming(outcomes).unwrap().elbo
    }
}

/// The cases: a name, the threads it may use, and the estimator.
const CASES: [(&str, usize, Estimator); 4] = [
    ("network_k1", 2, Estimator::ClosedFormEntropy),
    ("network_k1_one_thread", 1, Estimator::ClosedFormEntropy),
    ("network_k1_sticking", 2, Estimator::StickingTheLanding),
    ("network_k1_local", 2, Estimator::LocalReparameterisation),
];

/// Prints the median over 15 blocks of 20 steps, in microseconds a step.
fn lines() {
    for (name, threads, estimator) in CASES {
        measure::line(name, threads, [20, 15, 20], || {
            let mut run = Run::new(estimator);
            move || {
                black_box(run.step());
            }
        });
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--lines") {
        return lines();
    }
    let mut criterion = Criterion::default().configure_from_args();
    // Criterion cannot be moved into a thread pool: it measures on the global one, `--lines` in pools of known size.
    for (name, _, estimator) in CASES.into_iter().filter(|(_, threads, _)| *threads == 2) {
        let mut run = Run::new(estimator);
        criterion.bench_function(&format!("network_step/{name}"), |bencher| bencher.iter(|| run.step()));
    }
    criterion.final_summary();
}
