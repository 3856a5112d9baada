//! Times the fused kernels at the size of the six-cities data, beside one plain loop over libm.
//!
//! `cargo bench -p partita-benches --bench kernels` prints the time of a call and elements a second. A machine with
//! AVX-512 takes about a nanosecond an element for the Bernoulli value and derivative, some eight times less than libm.

use std::hint::black_box;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use partita_core::kernel::{
    AdamUpdate, BetaTerms, BinomialTerms, NormalTerms, adam, add_scaled, bernoulli_logit, beta, binomial_logit,
    categorical_logit, dot, exponential, normal, poisson_log,
};

/// 537 children at four visits.
const OBSERVATIONS: usize = 2148;
/// Rows and columns of the categorical case.
const ROWS: usize = 215;
const CATEGORIES: usize = 10;

/// Numbers in `low..high` in no particular order, the same on every run.
fn scattered(length: usize, low: f64, high: f64) -> Vec<f64> {
    (1..=length).map(|index| low + (high - low) * (index as f64 * 0.618_033_988_749_894_9).fract()).collect()
}

/// Whole numbers in `0..below`.
fn counts(length: usize, below: f64) -> Vec<f64> {
    scattered(length, 0.0, below).into_iter().map(f64::floor).collect()
}

fn likelihoods(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (logits, answers) = (scattered(OBSERVATIONS, -6.0, 4.0), counts(OBSERVATIONS, 2.0));
    let (log_rates, numbers) = (scattered(OBSERVATIONS, -2.0, 4.0), counts(OBSERVATIONS, 50.0));
    let (location, scale) = (scattered(OBSERVATIONS, -1.0, 1.0), scattered(OBSERVATIONS, 0.1, 3.0));
    let mut out = [vec![0.0; OBSERVATIONS], vec![0.0; OBSERVATIONS], vec![0.0; OBSERVATIONS]];
    let [a, b, c] = &mut out;
    group.bench_function("bernoulli_logit", |bencher| {
        bencher.iter(|| bernoulli_logit(black_box(&logits), &answers, 1.0, a, &mut []));
    });
    group.bench_function("bernoulli_logit, value alone", |bencher| {
        bencher.iter(|| bernoulli_logit(black_box(&logits), &answers, 1.0, &mut [], &mut []));
    });
    group.bench_function("bernoulli_logit, libm", |bencher| {
        bencher.iter(|| bernoulli_libm(black_box(&logits), &answers, a));
    });
    group.bench_function("poisson_log", |bencher| {
        bencher.iter(|| poisson_log(black_box(&log_rates), &numbers, 1.0, a, &mut []));
    });
    group.bench_function("binomial_logit, one number of failures", |bencher| {
        bencher.iter(|| {
            let (by_logits, by_failures, terms) = (&mut a[..], &mut b[..], &mut [][..]);
            let (logits, successes, failures, scale) = (black_box(&logits[..]), &numbers[..], &[2.5][..], 1.0);
            binomial_logit(&mut BinomialTerms { logits, successes, failures, scale, by_logits, by_failures, terms })
        });
    });
    let shares: Vec<f64> = numbers.iter().map(|own| (own + 0.5) / 100.0).collect();
    group.bench_function("beta, concentrations differ", |bencher| {
        bencher.iter(|| {
            let (by_ones, by_zeros, terms) = (&mut a[..], &mut b[..], &mut [][..]);
            let (values, ones, zeros) = (black_box(&shares[..]), &shares[..], &scale[..]);
            beta(&mut BetaTerms { values, ones, zeros, scale: 1.0, by_ones, by_zeros, terms })
        });
    });
    let x = &logits;
    group.bench_function("normal, all derivatives", |bencher| {
        bencher.iter(|| {
            let (by_x, by_location, by_scale, terms) = (&mut a[..], &mut b[..], &mut c[..], &mut [][..]);
            let (x, location, scale, factor) = (black_box(&x[..]), &location[..], &scale[..], 1.0);
            normal(&mut NormalTerms { x, location, scale, factor, by_x, by_location, by_scale, terms })
        });
    });
    group.bench_function("normal, one location and scale", |bencher| {
        bencher.iter(|| {
            let (by_x, by_location, by_scale, terms) = (&mut a[..], &mut [][..], &mut [][..], &mut [][..]);
            let (x, location, scale, factor) = (black_box(&x[..]), &[0.5][..], &[2.0][..], 1.0);
            normal(&mut NormalTerms { x, location, scale, factor, by_x, by_location, by_scale, terms })
        });
    });
    let (table, classes) = (scattered(ROWS * CATEGORIES, -5.0, 5.0), counts(ROWS, CATEGORIES as f64));
    let mut gradient = vec![0.0; ROWS * CATEGORIES];
    group.bench_function("categorical_logit, ten categories", |bencher| {
        bencher.iter(|| categorical_logit(black_box(&table), &classes, 1.0, &mut gradient, &mut []));
    });
}

fn vectors(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (source, other) = (scattered(OBSERVATIONS, -3.0, 3.0), scattered(OBSERVATIONS, -1.0, 2.0));
    let mut x = source.clone();
    group.bench_function("exponential", |bencher| {
        bencher.iter(|| {
            x.copy_from_slice(black_box(&source));
            exponential(&mut x);
        });
    });
    group.bench_function("dot", |bencher| bencher.iter(|| dot(black_box(&source), &other)));
    group.bench_function("add_scaled", |bencher| bencher.iter(|| add_scaled(&mut x, black_box(1e-9), &other)));
    let (mut first, mut second) = (vec![0.0; OBSERVATIONS], vec![0.0; OBSERVATIONS]);
    let update = AdamUpdate::at(10, 1e-3, [0.9, 0.999], 1e-8);
    group.bench_function("adam", |bencher| {
        bencher.iter(|| adam(&mut x, black_box(&other), &mut first, &mut second, &update));
    });
}

/// The Bernoulli value and derivative, written with the standard library.
fn bernoulli_libm(logits: &[f64], answers: &[f64], residual: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    for ((slot, logit), answer) in residual.iter_mut().zip(logits).zip(answers) {
        let small = (-logit.abs()).exp();
        let far = 1.0 / (1.0 + small);
        sum += answer * logit - logit.max(0.0) - small.ln_1p();
        *slot = answer - if *logit > 0.0 { far } else { small * far };
    }
    sum
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("kernels");
    group.throughput(Throughput::Elements(OBSERVATIONS as u64));
    likelihoods(&mut group);
    vectors(&mut group);
    group.finish();
    criterion.final_summary();
}
