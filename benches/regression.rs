//! Times one step of SFVI on multinomial regression with 10,000 images of MNIST, and its two sparse products.
//!
//! `cargo bench -p partita-benches --bench regression` measures with criterion; `-- --lines` prints `partita-bench CASE
//! MICROSECONDS`, the median over blocks, for `benches/peers/compare --case regression`. Needs MNIST (`PARTITA_DATA` or
//! the cache).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

mod measure;

use std::hint::black_box;

use criterion::Criterion;
use partita::datasets::{Images, mnist};
use partita::inference::{Algorithm, Exchange, InProcess, Sfvi, Silo, SiloProgram};
use partita::models::{ClassifiedRows, MultinomialRegression};
use partita::{Device, FamilyPlan, Gaussian, Schedule, Settings};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROWS: usize = 10_000;
const SHAPE: [usize; 2] = [784, 10];

/// One run of SFVI, advanced step by step.
struct Run {
    algorithm: Sfvi,
    exchange: InProcess,
}

impl Run {
    /// The images in silos of `rows` each.
    fn new(images: &Images, rows: usize, threads: usize) -> Self {
        let device = Device::flex();
        let family = FamilyPlan::new().global(Gaussian::diagonal());
        let schedule = Schedule::Cosine { initial: 0.05, last: 0.0 };
        let settings = Settings { steps: 2_000, family, schedule, ..Settings::default() };
        let model = MultinomialRegression::new(SHAPE, &device);
        let indices: Vec<usize> = (0..ROWS).collect();
        let names: Vec<String> = (0..ROWS.div_ceil(rows)).map(|index| format!("silo-{index}")).collect();
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        for ((name, own), index) in names.iter().zip(indices.chunks(rows)).zip(0..) {
            let own = images.select(own).unwrap();
            let data = ClassifiedRows::new(own.sparse().unwrap(), own.labels(), &device).unwrap();
            programs.push(Box::new(Silo::new(name, index, &model, &data, &device, &settings).unwrap()));
        }
        let algorithm = Sfvi::new(&model, &device, &settings, &names).unwrap();
        Self { algorithm, exchange: InProcess::new(programs, threads).unwrap() }
    }

    fn step(&mut self) -> f64 {
        let requests = self.algorithm.outgoing().unwrap();
        let outcomes = self.exchange.exchange(requests, self.algorithm.manifest(), None).unwrap();
        self.algorithm.incoming(outcomes).unwrap().elbo
    }
}

/// The cases: a name, the rows of a silo, and the threads it may use.
const CASES: [(&str, usize, usize); 4] = [
    ("pooled_k1", ROWS, 2),
    ("pooled_k1_one_thread", ROWS, 1),
    ("two_silos_k1", ROWS / 2, 2),
    ("fifty_silos_k1_one_thread", ROWS / 50, 1),
];

/// Prints the median over 20 blocks of 20 steps, in microseconds a step.
fn lines(images: &Images) {
    for (name, rows, threads) in CASES {
        measure::line(name, threads, [20, 20, 20], || {
            let mut run = Run::new(images, rows, threads);
            move || {
                black_box(run.step());
            }
        });
    }
}

fn products(criterion: &mut Criterion, images: &Images) {
    let device = Device::flex();
    let indices: Vec<usize> = (0..ROWS).collect();
    let own = images.select(&indices).unwrap();
    let data = ClassifiedRows::new(own.sparse().unwrap(), own.labels(), &device).unwrap();
    let weights = device.tensor(vec![0.1; SHAPE[0] * SHAPE[1]], SHAPE);
    criterion.bench_function("sparse_rows/product_10000_x_784_x_10", |bencher| {
        bencher.iter(|| data.covariates().multiply(black_box(weights.clone())).unwrap());
    });
    let tracked = weights.autodiff().require_grad();
    criterion.bench_function("sparse_rows/product_and_gradient_10000_x_784_x_10", |bencher| {
        bencher.iter(|| data.covariates().multiply(black_box(tracked.clone())).unwrap().sum().backward());
    });
}

fn main() {
    let images = mnist().unwrap().train;
    if std::env::args().any(|argument| argument == "--lines") {
        return lines(&images);
    }
    let mut criterion = Criterion::default().configure_from_args();
    for (name, rows, _) in CASES.into_iter().filter(|(_, _, threads)| *threads == 1) {
        let mut run = Run::new(&images, rows, 1);
        criterion.bench_function(&format!("regression_step/{name}"), |bencher| bencher.iter(|| run.step()));
    }
    products(&mut criterion, &images);
    criterion.final_summary();
}
