//! Times one step of the augmented-variable algorithm: 100,000 rows, twenty columns at two parties, amortised z, in both precisions.
//!
//! `cargo bench -p partita-benches --bench vertical` measures with criterion; `-- --lines` prints `partita-bench CASE
//! MICROSECONDS`, the median over blocks, for `benches/peers/compare --case vertical`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

mod measure;

use std::hint::black_box;

use criterion::Criterion;
use partita::core::{Key, Noise, Purpose};
use partita::inference::{Algorithm, Exchange, InProcess, VerticalOptions, vertical};
use partita::vertical::{BernoulliHead, Labels, Linear, Party, WithIntercept, binary_labels};
use partita::{
    AlgorithmChoice, Design, Device, FamilyPlan, FitOptions, Gaussian, Normal, Precision, Schedule, Settings,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROWS: usize = 100_000;
const COLUMNS: usize = 20;
const PARTIES: usize = 2;
const RHO: f64 = 1.0;

/// A fit that is advanced step by step.
struct Run {
    algorithm: Box<dyn Algorithm>,
    exchange: InProcess,
}

impl Run {
    /// Standard normal columns and coefficients, labels of a logistic model.
    fn new(Case { threads, precision, .. }: Case) -> Self {
        let device = Device::flex().with_precision(precision);
        let each = COLUMNS / PARTIES;
        let mut stream = Noise::new(1).stream(Key::new(Purpose::Prior, 0));
        let mut predictor = vec![0.0; ROWS];
        let mut parties = Vec::new();
        for name in ["first", "second"] {
            let (mut beta, mut columns) = (vec![0.0; each], vec![0.0; ROWS * each]);
            stream.normal(&mut beta);
            stream.normal(&mut columns);
            for (sum, row) in predictor.iter_mut().zip(columns.chunks_exact(each)) {
                *sum += row.iter().zip(&beta).map(|(x, b)| x * b).sum::<f64>();
            }
            let design = Design::new(columns, [ROWS, 1, each]).unwrap();
            parties.push(Party::new(name, Linear::new(each), design));
        }
        let labels: Vec<bool> = predictor.iter().map(|eta| stream.uniform() < 1.0 / (1.0 + (-eta).exp())).collect();
        let labels =
            Labels::new(WithIntercept::new(BernoulliHead {}, Normal::new(0.0, 1.0)), binary_labels(&labels, &device));
        let family = FamilyPlan::new().global(Gaussian::full_rank());
        let schedule = Schedule::Cosine { initial: 0.02, last: 0.0 };
        let options = FitOptions {
            algorithm: AlgorithmChoice::Vertical(VerticalOptions::augmented(RHO)),
            settings: Settings { steps: 2_000, family, schedule, ..Settings::default() },
            threads,
            ..FitOptions::default()
        };
        let (algorithm, exchange) = vertical::parties(&parties, &labels, &device, &options).unwrap();
        Self { algorithm, exchange }
    }

    fn step(&mut self) -> f64 {
        let requests = self.algorithm.outgoing().unwrap();
        let outcomes = self.exchange.exchange(requests, self.algorithm.manifest(), None).unwrap();
        self.algorithm.incoming(outcomes).unwrap().elbo
    }
}

/// A name, the threads that may be used, and the precision of the device.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    threads: usize,
    precision: Precision,
}

const CASES: [Case; 4] = [
    Case { name: "augmented_two_threads", threads: 2, precision: Precision::Double },
    Case { name: "augmented_one_thread", threads: 1, precision: Precision::Double },
    Case { name: "augmented_two_threads_single", threads: 2, precision: Precision::Single },
    Case { name: "augmented_one_thread_single", threads: 1, precision: Precision::Single },
];

fn main() {
    if std::env::args().any(|argument| argument == "--lines") {
        for case in CASES {
            measure::line(case.name, case.threads, [20, 20, 20], || {
                let mut run = Run::new(case);
                move || {
                    black_box(run.step());
                }
            });
        }
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    for case in CASES {
        let mut run = Run::new(case);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(case.threads).build().unwrap();
        criterion.bench_function(&format!("vertical_step/{}", case.name), |bencher| {
            pool.install(|| bencher.iter(|| run.step()));
        });
    }
    criterion.final_summary();
}
