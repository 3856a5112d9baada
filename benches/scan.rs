//! Times the gradient of recurrences: GARCH(1,1) over 200 steps, and a hidden Markov model of 2 states over 400.
//!
//! `cargo bench -p partita-benches --bench scan` measures with criterion; `-- --lines` prints `partita-bench CASE
//! MICROSECONDS`, the median over blocks.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

mod measure;

use std::hint::black_box;

use criterion::Criterion;
use partita::Device;
use partita::burn::tensor::Tensor;
use partita::core::{Handle, Real, Recurrence, Scan, hidden_markov, scan};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The log density of y_t = μ + σ_t ε_t with σ²_{t+1} = ω + α (y_t − μ)² + β σ²_t.
struct Garch;

impl Recurrence for Garch {
    fn step<T: Real>(&self, state: &mut [T], y: &[T], p: &[T]) -> [T; 1] {
        let [mu, omega, alpha, beta] = [p[0], p[1], p[2], p[3]];
        let deviation = y[0] - mu;
        let square = deviation * deviation;
        let log_density = (state[0].ln() + square / state[0]) * -0.5;
        state[0] = omega + alpha * square + beta * state[0];
        [log_density]
    }
}

/// The forward algorithm for two states with normal observations: means, log standard deviations, log transitions.
struct TwoStates;

impl Recurrence<2> for TwoStates {
    fn step<T: Real>(&self, state: &mut [T], y: &[T], p: &[T]) -> [T; 2] {
        let next = [0, 1].map(|to: usize| {
            let reached = (state[0] + p[4 + to]).log_add_exp(state[1] + p[6 + to]);
            let standard = (y[0] - p[to]) * (-p[2 + to]).exp();
            reached - standard * standard * 0.5 - p[2 + to]
        });
        state.copy_from_slice(&next);
        next
    }
}

fn series(steps: usize) -> Tensor<1> {
    let value = |step: u32| (f64::from(step) * 0.7).sin() * 1.5;
    Device::flex().tensor((0..u32::try_from(steps).unwrap()).map(value).collect(), [steps])
}

fn leaves(values: &[f64]) -> Vec<Tensor<1>> {
    values.iter().map(|value| Device::flex().leaf::<1>(vec![*value], [1])).collect()
}

fn gradient_of(sum: Tensor<1>, leaf: &Tensor<1>) {
    let gradients = sum.backward();
    black_box(leaf.grad(&gradients).unwrap());
}

fn from(initial: &[f64], y: &Tensor<1>, parameters: &[Tensor<1>]) -> Scan {
    Scan {
        initial: Device::flex().tensor::<1>(initial.to_vec(), [initial.len()]).into(),
        inputs: y.clone().into(),
        parameters: parameters.iter().cloned().map(Handle::from).collect(),
    }
}

fn garch() -> impl FnMut() + Send {
    let (y, parameters) = (series(200), leaves(&[0.1, 0.3, 0.2, 0.6]));
    move || {
        let densities = scan("garch", Garch, from(&[1.0], &y, &parameters)).unwrap();
        gradient_of(densities.sum(), &parameters[0]);
    }
}

fn hidden_markov_by_scan() -> impl FnMut() + Send {
    let (y, parameters) = (series(400), leaves(&[-1.0, 1.0, 0.0, 0.1, -0.1, -2.3, -1.6, -0.22]));
    let half = 0.5_f64.ln();
    move || {
        let forward = scan("hidden Markov model", TwoStates, from(&[half, half], &y, &parameters)).unwrap();
        gradient_of(forward.narrow(0, 399, 1).sum(), &parameters[0]);
    }
}

fn hidden_markov_ready_made() -> impl FnMut() + Send {
    let device = Device::flex();
    let observation = device.leaf::<1>((0..800).map(|cell| -f64::from(cell * 7 % 11)).collect::<Vec<_>>(), [800]);
    let transition = device.tensor::<2>(vec![-0.1, -2.3, -1.6, -0.22], [2, 2]);
    let initial = device.tensor::<1>(vec![0.5_f64.ln(); 2], [2]);
    move || {
        let by_time = observation.clone().reshape([400, 2]);
        gradient_of(hidden_markov(initial.clone(), transition.clone(), by_time).unwrap(), &observation);
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--lines") {
        measure::line("scan_garch_200", 1, [200, 20, 200], garch);
        measure::line("scan_hidden_markov_2_400", 1, [200, 20, 200], hidden_markov_by_scan);
        measure::line("hidden_markov_2_400", 1, [200, 20, 200], hidden_markov_ready_made);
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    let mut one = |name: &str, step: &mut dyn FnMut()| {
        criterion.bench_function(&format!("scan/{name}"), |bencher| bencher.iter(&mut *step));
    };
    one("garch_200", &mut garch());
    one("hidden_markov_2_400_by_scan", &mut hidden_markov_by_scan());
    one("hidden_markov_2_400", &mut hidden_markov_ready_made());
    criterion.final_summary();
}
