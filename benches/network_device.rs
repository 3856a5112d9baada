//! Times a step of a fit that stays on its device: mean-field VI of a 784-200-10 Bayesian network.
//!
//! ```sh
//! cargo bench -p partita-benches --bench network_device --features cuda -- --device cuda --batch 8192 --particles 32
//! ```
//! prints `partita-bench network MILLISECONDS bound VALUE`, the median over intervals that each end with one read;
//! `peers/network_torch.py` is its peer. Pixels and classes are random numbers: the time does not depend on them.
//! Without arguments it runs a small problem on the CPU. `nsys profile --stats=true` before the command shows the share
//! of time in kernels.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

use std::collections::BTreeMap;
use std::time::Instant;

use clap::Parser;
use partita::core::{Key, Noise, Purpose};
use partita::gpu::device;
use partita::inference::{Algorithm, Central, Exchange, InProcess, OnDeviceSilo};
use partita::models::{Activation, BayesianNetwork, Head, LabelledRows, Mlp};
use partita::{FamilyPlan, Gaussian, Normal, Schedule, Settings};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The size of the problem, and where it is computed.
#[derive(Parser, Debug)]
struct Options {
    /// The device: flex, wgpu, vulkan, cuda, ...
    #[arg(long, default_value = "flex")]
    device: String,
    /// Rows of a minibatch.
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// Monte Carlo draws a step.
    #[arg(long, default_value_t = 1)]
    particles: usize,
    /// Rows of data.
    #[arg(long, default_value_t = 2_000)]
    rows: usize,
    /// Intervals that are timed.
    #[arg(long, default_value_t = 7)]
    blocks: u64,
    /// Steps of an interval.
    #[arg(long, default_value_t = 20)]
    steps: u64,
    /// Threads that make noise.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The flag that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    let device = device(Some(&options.device)).unwrap();
    let mut noise = Noise::new(3).stream(Key::new(Purpose::Prior, 0));
    let pixels = (0..options.rows * 784).map(|_| noise.uniform()).collect();
    let classes = (0..options.rows).map(|row| f64::from(u8::try_from(row % 10).unwrap())).collect();
    let data = LabelledRows::new(pixels, classes, options.rows, &device).unwrap();
    let network = Mlp::new(&[784, 200, 10], Activation::Relu, 1, &device);
    let model = BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 0.3));
    let settings = Settings {
        steps: options.steps * (options.blocks + 1),
        particles: options.particles,
        threads: Some(options.threads),
        minibatch: BTreeMap::from([("row".to_owned(), options.batch)]),
        schedule: Schedule::Constant { rate: 1e-3 },
        family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(0.01),
        ..Settings::default()
    };
    let mut algorithm = Central::new(&model, &device, &settings, "all").unwrap().every(options.steps).unwrap();
    let party = OnDeviceSilo::new("all", &model, &data, &device, &settings).unwrap();
    let mut exchange = InProcess::new(vec![Box::new(party)], 1).unwrap();
    let mut interval = || {
        let start = Instant::now();
        let outcomes = exchange.exchange(algorithm.outgoing().unwrap(), algorithm.manifest(), None).unwrap();
        let bound = algorithm.incoming(outcomes).unwrap().elbo;
        #[expect(clippy::cast_precision_loss, reason = "an interval has far fewer than 2^52 steps")]
        let milliseconds = 1e3 * start.elapsed().as_secs_f64() / options.steps as f64;
        (milliseconds, bound)
    };
    // The first interval compiles kernels.
    interval();
    let mut times = Vec::new();
    let mut bound = 0.0;
    for _ in 0..options.blocks {
        let (milliseconds, last) = interval();
        times.push(milliseconds);
        bound = last;
    }
    times.sort_by(f64::total_cmp);
    println!("partita-bench network {:.3} bound {bound:.1} on {}", times[times.len() / 2], options.device);
}
