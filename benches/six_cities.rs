//! Times one step of SFVI on six cities, pooled and over two silos, beside the hand-written limit of the same step.
//!
//! `cargo bench -p partita-benches --bench six_cities` measures with criterion; `-- --lines` prints `partita-bench CASE
//! MICROSECONDS`, the median over blocks, for `benches/peers/compare`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

#[path = "limit/data.rs"]
mod data;
mod measure;
#[path = "limit/step.rs"]
mod step;

use std::hint::black_box;

use criterion::Criterion;
use partita::inference::{
    Algorithm, Exchange, Family, FullRankGaussian, InProcess, RowGaussian, RowGradient, RowInputs, RowOptions, Sfvi,
    Silo, SiloProgram,
};
use partita::models::{Child, MixedLogistic, RepeatedBinary, six_cities, six_cities_silos};
use partita::{Device, FamilyPlan, Gaussian, Schedule, Settings};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One run of SFVI, advanced step by step.
struct Run {
    algorithm: Sfvi,
    exchange: InProcess,
}

impl Run {
    fn new(silos: &[Vec<Child>], particles: usize, threads: usize) -> Self {
        let device = Device::flex();
        let rows = Gaussian::diagonal().given_globals().scale_given_globals();
        let family = FamilyPlan::new().global(Gaussian::full_rank()).local(rows);
        // Threads are divided as `fit` divides them: silos first, then particles.
        let own = (threads / silos.len()).max(1);
        let schedule = Schedule::cosine();
        let settings =
            Settings { steps: 20_000, particles, threads: Some(own), family, schedule, ..Settings::default() };
        let model = MixedLogistic::new(4);
        let names: Vec<String> = (0..silos.len()).map(|index| format!("silo-{index}")).collect();
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        for ((name, children), index) in names.iter().zip(silos).zip(0..) {
            let data = RepeatedBinary::six_cities(children, &device).unwrap();
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

/// The cases: a name, the threads it may use, and how to make the step.
type Case = (&'static str, usize, fn() -> Box<dyn FnMut() -> f64 + Send>);

fn sfvi(silos: Vec<Vec<Child>>, particles: usize, threads: usize) -> Box<dyn FnMut() -> f64 + Send> {
    let mut run = Run::new(&silos, particles, threads);
    Box::new(move || run.step())
}

fn hand(particles: u32) -> Box<dyn FnMut() -> f64 + Send> {
    let mut limit = step::Limit::new(&data::children(), 7);
    Box::new(move || limit.step(particles))
}

/// Every child ten times: silos large enough that threads matter more than waking them.
fn tenfold() -> Vec<Vec<Child>> {
    let children = six_cities();
    let half = children.len() / 2;
    [&children[..half], &children[half..]].iter().map(|silo| silo.repeat(10)).collect()
}

const CASES: [Case; 10] = [
    ("pooled_k1", 1, || sfvi(vec![six_cities()], 1, 1)),
    ("pooled_k10", 2, || sfvi(vec![six_cities()], 10, 2)),
    ("pooled_k10_one_thread", 1, || sfvi(vec![six_cities()], 10, 1)),
    ("two_silos_k1", 2, || sfvi(six_cities_silos().into(), 1, 2)),
    ("two_silos_k1_one_thread", 1, || sfvi(six_cities_silos().into(), 1, 1)),
    ("two_silos_k10", 2, || sfvi(six_cities_silos().into(), 10, 2)),
    ("tenfold_silos_k1", 2, || sfvi(tenfold(), 1, 2)),
    ("tenfold_silos_k1_one_thread", 1, || sfvi(tenfold(), 1, 1)),
    ("hand_k1", 1, || hand(1)),
    ("hand_k10", 1, || hand(10)),
];

/// Prints the median over 30 blocks of 100 steps, in microseconds a step.
fn lines() {
    for (name, threads, make) in CASES {
        measure::line(name, threads, [300, 30, 100], || {
            let mut step = make();
            move || {
                black_box(step());
            }
        });
    }
}

fn vjps(criterion: &mut Criterion) {
    let family = FullRankGaussian::new(5);
    let (parameters, noise) = (family.initial(0.1), [0.3, -0.1, 0.7, 0.2, -0.5]);
    let mut out = vec![0.0; family.parameter_len()];
    criterion.bench_function("gaussian_vjp/full_rank_5", |bencher| {
        bencher.iter(|| family.vjp(&parameters, &noise, black_box(&noise), &noise, &mut out));
    });
    let on = vec![true];
    let options = RowOptions { given_globals: on.clone(), scale_given_globals: on, ..RowOptions::independent(1) };
    let rows = RowGaussian::new(537, 1, 5, options);
    let parameters = rows.initial(0.1);
    let (deviation, local_noise) = (noise, vec![0.3; 537]);
    let mut out = vec![0.0; rows.parameter_len()];
    criterion.bench_function("gaussian_vjp/rows_537_draw_and_vjp", |bencher| {
        bencher.iter(|| {
            let noise = black_box(&local_noise);
            let inputs = RowInputs { parameters: &parameters, deviation: &deviation, outer: &[], noise };
            let gradient = RowGradient { grad_mean: noise, grad_offset: noise };
            rows.vjp(inputs, &rows.draw(inputs), gradient, &mut out)
        });
    });
}

fn main() {
    if std::env::args().any(|argument| argument == "--lines") {
        return lines();
    }
    let mut criterion = Criterion::default().configure_from_args();
    // Criterion cannot be moved into a thread pool: it measures the cases of one thread, `--lines` measures all.
    for (name, _, make) in CASES.into_iter().filter(|(_, threads, _)| *threads == 1) {
        let mut step = make();
        criterion.bench_function(&format!("six_cities_step/{name}"), |bencher| bencher.iter(&mut step));
    }
    vjps(&mut criterion);
    criterion.final_summary();
}
