//! Times the no-U-turn sampler on six cities: 8,000 draws as in the reference, from the declared model to diagnostics.
//!
//! `cargo bench -p partita-benches --bench nuts -- --lines` prints `partita-bench CASE MICROSECONDS` for
//! `benches/peers/compare --case nuts`. `-- --check` takes 80,000 draws, so that the remaining Monte Carlo error is the
//! reference's, and compares the two: means within 0.05 sd, sds within 3 %.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

use std::process::ExitCode;

use partita::models::{MixedLogistic, RepeatedBinary, six_cities, six_cities_reference};
use partita::{Device, Nuts, NutsFit};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The reference's chains, draws, warm-up and target acceptance probability.
fn sample([chains, draws, threads]: [usize; 3], target_accept: f64) -> NutsFit {
    let device = Device::flex();
    let silos = [("all".to_owned(), RepeatedBinary::six_cities(&six_cities(), &device).unwrap())];
    let nuts = Nuts { warmup: 1_500, draws, chains, seed: 1, threads, target_accept, ..Nuts::default() };
    nuts.sample(&MixedLogistic::new(4), &silos, &device).unwrap()
}

/// A case: its name, the threads it may use and its target acceptance probability.
const CASES: [(&str, usize, f64); 3] =
    [("nuts", 2, 0.8), ("nuts_accept_0.9", 2, 0.9), ("nuts_accept_0.9_one_thread", 1, 0.9)];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if words.iter().any(|word| word == "--check") {
        let fit = sample([4, 20_000, 2], 0.9);
        println!("{fit}");
        let reference = six_cities_reference().unwrap();
        let pooled = reference.pooled();
        let mut met = true;
        for (site, (mean, sd)) in fit.sites.iter().zip(pooled.mean.into_iter().zip(pooled.sd)) {
            let (away, ratio) = ((site.mean - mean) / sd, site.sd / sd - 1.0);
            let own = away.abs() < 0.05 && ratio.abs() < 0.03;
            let word = if own { "met" } else { "NOT MET" };
            println!("{:<8} mean {away:+.3} sd, sd {:+.1} %: {word}", site.label, 100.0 * ratio);
            met &= own;
        }
        return if met { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    for (name, threads, target_accept) in CASES {
        let fit = sample([2, 4_000, threads], target_accept);
        println!("partita-bench {name} {:.0}", fit.seconds * 1e6);
        let least = fit.diagnostics.convergence.iter().map(|one| one.bulk).fold(f64::INFINITY, f64::min);
        let gradients: u64 = fit.diagnostics.chains.iter().map(|chain| chain.gradients + chain.warmup_gradients).sum();
        println!("# {name}: least bulk sample size {least:.0}, {gradients} gradients");
    }
    ExitCode::SUCCESS
}
