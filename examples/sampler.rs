//! Draws from the posterior of a declared model with the no-U-turn sampler: the reference if data can be pooled.
//!
//! ```sh
//! cargo run --release --features sampler --example sampler
//! ```
//!
//! What you should see: eight schools by four chains, `mu` with mean 4.4 (held to 0.4) and `tau` with 3.6 (held to
//! 0.5), as in long chains of other programs. The diagnostics are an R-hat of at most 1.01 and no warning. A few
//! seconds on a laptop. Rubin (1981), Estimation in parallel randomized experiments; Hoffman and Gelman (2014) for the
//! sampler.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use partita::inference::write_atomically;
use partita::models::{EIGHT_SCHOOLS, EightSchools, Schools};
use partita::{FitOptions, Nuts, Settings, fit};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = partita::gpu::device(None)?;
    // The model as in every other method, with its data in one place: no message is exchanged.
    let silos = [("all".to_owned(), Schools::new(&EIGHT_SCHOOLS, &device))];
    let nuts = Nuts { warmup: 1_000, draws: 2_000, chains: 4, seed: 1, target_accept: 0.95, ..Nuts::default() };
    let sampled = nuts.sample(&EightSchools {}, &silos, &device)?;
    println!("{sampled}");

    // The variational answer for comparison: where the two differ, trust the chains if they have no warnings.
    let settings = Settings { steps: 2_000, ..Settings::default() };
    let fitted = fit(&EightSchools {}, &silos, &device, &FitOptions { settings, ..FitOptions::default() }, None)?;
    for site in &fitted.report.sites {
        println!("variational {:<5} {:.2} ± {:.2}", site.label, site.mean, site.sd);
    }
    let mean = |label: &str| sampled.site(label).map_or(f64::NAN, |site| site.mean);
    let r_hat = sampled.diagnostics.worst_r_hat();
    assert!((mean("mu") - 4.4).abs() < 0.4 && (mean("tau") - 3.6).abs() < 0.5, "{} {}", mean("mu"), mean("tau"));
    assert!(r_hat <= 1.01, "{r_hat}");
    let result = json!({
        "sites": sampled.sites,
        "r_hat": r_hat,
        "divergences": sampled.diagnostics.divergences(),
        "seconds": sampled.seconds,
        "seed": nuts.seed,
    });
    Ok(write_atomically(Path::new("output/sampler/result.json"), result.to_string().as_bytes())?)
}
