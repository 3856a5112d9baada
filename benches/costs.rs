//! Times what a model is made of: nodes of the tape, loops over time, products with a design, and covariates as they come.
//!
//! `cargo bench -p partita-benches --bench costs` prints `partita-bench CASE MICROSECONDS`, the median over blocks, and
//! effective draws a second of a regression; `docs/src/explanation-what-costs-what.md` has the numbers.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

mod measure;

use std::hint::black_box;

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{Handle, Key, Latents, LogDensity, Noise, Purpose, elementwise, host_reads};
use partita::inference::metrics::bulk_effective_sample_size;
use partita::{Design, Device, HalfNormal, Model, Normal, Nuts, Result, Scope, SiteTable};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn normals(count: usize, seed: u64) -> Vec<f64> {
    let mut numbers = vec![0.0; count];
    Noise::new(seed).stream(Key::new(Purpose::Prior, 0)).normal(&mut numbers);
    numbers
}

fn leaf(values: Vec<f64>) -> Tensor<1> {
    let length = values.len();
    Device::flex().leaf::<1>(values, [length])
}

fn gradient_of(sum: Tensor<1>, leaf: &Tensor<1>) {
    black_box(leaf.grad(&sum.backward()).unwrap());
}

/// A chain of operations on `length` numbers, forth and back.
fn chain(nodes: usize, length: usize, step: fn(Tensor<1>) -> Tensor<1>) -> impl FnMut() + Send {
    let x = leaf(vec![0.5; length]);
    move || {
        let y = (0..nodes).fold(x.clone(), |y, _| step(y));
        gradient_of(y.sum(), &x);
    }
}

/// GARCH(1,1) over 200 steps, step by step in tensor operations: the loop that `scan` replaces.
fn garch_by_loop() -> impl FnMut() + Send {
    let y: Vec<f64> = (0..200).map(|step| (f64::from(step) * 0.7).sin() * 1.5).collect();
    let [mu, omega, alpha, beta] = [0.1, 0.3, 0.2, 0.6].map(|value| leaf(vec![value]));
    move || {
        let mut variance = Device::flex().tensor::<1>(vec![1.0], [1]);
        let mut sum: Option<Tensor<1>> = None;
        for y in &y {
            let deviation = -mu.clone() + *y;
            let square = deviation.clone() * deviation;
            let log_density = (variance.clone().log() + square.clone() / variance.clone()) * -0.5;
            sum = Some(sum.map_or_else(|| log_density.clone(), |sum| sum + log_density.clone()));
            variance = omega.clone() + alpha.clone() * square + beta.clone() * variance;
        }
        gradient_of(sum.unwrap(), &mu);
    }
}

const ROWS: usize = 2_000;
const COLUMNS: usize = 20;

fn design() -> Vec<f64> {
    normals(ROWS * COLUMNS, 3)
}

fn by_predictor() -> impl FnMut() + Send {
    let (design, beta) = (Design::new(design(), [ROWS, COLUMNS]).unwrap(), leaf(normals(COLUMNS, 4)));
    move || gradient_of(design.predictor(beta.clone(), None).unwrap().sum(), &beta)
}

fn by_product() -> impl FnMut() + Send {
    let (design, beta) = (Device::flex().tensor::<2>(design(), [ROWS, COLUMNS]), leaf(normals(COLUMNS, 4)));
    move || {
        let eta: Tensor<1> = design.clone().matmul(beta.clone().reshape([COLUMNS, 1])).reshape([ROWS]);
        gradient_of(eta.sum(), &beta);
    }
}

/// A regression with an intercept.
#[derive(Module, Debug)]
struct Regression {
    #[module(skip)]
    columns: usize,
}

#[derive(Clone)]
struct Measured {
    design: Design<2>,
    y: Tensor<1>,
}

impl Model for Regression {
    type Globals = (Tensor<1>, Tensor<1>);
    type Data = Measured;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        let beta = scope.sample("beta", Normal::new(0.0, 100.0).iid([self.columns]))?;
        Ok((beta, scope.sample("sigma", HalfNormal::new(10.0))?))
    }

    fn local(&self, scope: &mut Scope<'_>, (beta, sigma): &Self::Globals, data: &Measured) -> Result<()> {
        scope.plate("row", data.y.dims()[0], |scope, rows| {
            let mean = data.design.take(rows)?.predictor(beta.clone(), None)?;
            scope.observe("y", Normal::new(mean, sigma.clone()), rows.take(&data.y)?)
        })
    }
}

/// Columns: one, age in years, and its square.
fn ages() -> [Vec<f64>; 3] {
    let age: Vec<f64> = normals(500, 7).into_iter().map(|z| 50.0 + 10.0 * z).collect();
    [vec![1.0; 500], age.clone(), age.iter().map(|age| age * age).collect()]
}

/// The columns made orthogonal, each of length √n: the Q of a QR decomposition, times √n.
fn orthogonal(mut columns: [Vec<f64>; 3]) -> [Vec<f64>; 3] {
    for last in 0..3 {
        let (before, rest) = columns.split_at_mut(last);
        let own = &mut rest[0];
        let length = own.len() as f64;
        for other in before {
            let along: f64 = own.iter().zip(&*other).map(|(a, b)| a * b).sum::<f64>() / length;
            own.iter_mut().zip(&*other).for_each(|(own, other)| *own -= along * other);
        }
        let size = (own.iter().map(|x| x * x).sum::<f64>() / length).sqrt();
        own.iter_mut().for_each(|x| *x /= size);
    }
    columns
}

fn centred(columns: [Vec<f64>; 3]) -> [Vec<f64>; 3] {
    let [one, age, square] = columns;
    let standard = |column: Vec<f64>| {
        let n = column.len() as f64;
        let mean = column.iter().sum::<f64>() / n;
        let sd = (column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        column.into_iter().map(|x| (x - mean) / sd).collect()
    };
    [one, standard(age), standard(square)]
}

/// Seconds, the smallest effective sample size, and gradients' worth of work of chains on a design.
fn sample(name: &str, columns: &[Vec<f64>; 3]) {
    let (device, noise) = (Device::flex(), normals(500, 8));
    let truth = ages();
    let mean = |row: usize| 0.1 * truth[1][row] - 0.001 * (truth[1][row] - 50.0).powi(2);
    let y = (0..500).map(|row| mean(row) + noise[row]).collect();
    let cells = (0..500).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
    let data = Measured { design: Design::new(cells, [500, 3]).unwrap(), y: device.tensor(y, [500]) };
    let nuts = Nuts { warmup: 1_000, draws: 1_000, chains: 2, threads: 1, ..Nuts::default() };
    let fit = nuts.sample(&Regression { columns: 3 }, &[("all".to_owned(), data)], &device).unwrap();
    let sizes = fit.draws.iter().map(|(_, _, draws)| {
        let chains: Vec<&[f64]> = draws.chunks_exact(1_000).collect();
        bulk_effective_sample_size(&chains).unwrap()
    });
    let least = sizes.fold(f64::INFINITY, f64::min);
    println!(
        "partita-sampler {name} {:.2} s, {least:.0} effective draws, {:.0} a second",
        fit.seconds,
        least / fit.seconds
    );
}

/// Host reads of one gradient on the host.
fn reads() {
    let device = Device::flex();
    let [one, age, _] = orthogonal(ages());
    let cells = one.iter().zip(&age).flat_map(|(one, age)| [*one, *age]).collect();
    let data = Measured { design: Design::new(cells, [500, 2]).unwrap(), y: device.tensor(vec![0.5; 500], [500]) };
    let model = Regression { columns: 2 };
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let density = LogDensity::new(&model, &device, &table);
    let before = host_reads();
    black_box(density.joint(Latents { globals: &[0.1, 0.2, 0.3], locals: &[vec![]] }, &data).unwrap());
    println!("partita-reads regression {} a gradient", host_reads() - before);
    black_box(Handle::from(data.y));
}

fn main() {
    let blocks = [50, 20, 100];
    let word = |y: Tensor<1>| y * 0.999;
    let ours = |y: Tensor<1>| elementwise(y, |y| 0.999 * y, |_| 0.999);
    measure::line("node_tensor_word_1000_of_1", 1, blocks, || chain(1_000, 1, word));
    measure::line("node_elementwise_1000_of_1", 1, blocks, || chain(1_000, 1, ours));
    measure::line("node_tensor_word_10_of_10000", 1, blocks, || chain(10, 10_000, word));
    measure::line("node_elementwise_10_of_10000", 1, blocks, || chain(10, 10_000, ours));
    measure::line("garch_200_by_loop", 1, blocks, garch_by_loop);
    measure::line("design_2000x20_predictor", 1, blocks, by_predictor);
    measure::line("design_2000x20_product", 1, blocks, by_product);
    sample("raw", &ages());
    sample("centred", &centred(ages()));
    sample("orthogonal", &orthogonal(ages()));
    reads();
}
