//! Gives every silo a factor of the posterior: one local update each, in closed form, gives the exact posterior.
//!
//! ```sh
//! cargo run --release --example partitioned
//! ```
//!
//! What you should see: partitioned variational inference over three silos has the mean 1.53 of the exact posterior
//! (held to 1e-9) after six messages, as many as one gradient step over the silos takes; the other 96 of the report are
//! those of the bound. Half a second on a laptop.
//! Ashman and others (2022), Partitioned variational inference, section 3; `output/partitioned/result.json` has the
//! report.

#![allow(clippy::print_stdout, reason = "an example prints")]

use partita::inference::Conjugate;
use std::path::Path;

use partita::inference::Order;
use partita::models::GaussianMean;
use partita::{AlgorithmChoice, FitOptions, PviOptions, Settings, SiloSchedule, fit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = partita::gpu::device(None)?;
    // mu ~ N(0, 1), y ~ N(mu, 1): three hospitals with different numbers of patients, and different patients.
    let numbers = [vec![1.2, 0.4, 2.1], vec![3.0, 2.2], vec![1.9, 0.8, 1.1, 2.6]];
    let silo = |(name, own): (&str, &Vec<f64>)| (name.to_owned(), GaussianMean::data(own, &device));
    let silos: Vec<_> = ["north", "south", "west"].into_iter().zip(&numbers).map(silo).collect();

    let pvi = PviOptions {
        // One silo after the other; `Synchronous` updates all at once, `Asynchronous` waits for none.
        schedule: SiloSchedule::Sequential(Order::Fixed),
        // The likelihood is quadratic: a silo solves its local problem in closed form. Else `GradientDescent`.
        solver: Conjugate.into(),
        ..PviOptions::new(1)
    };
    let options = FitOptions {
        algorithm: AlgorithmChoice::Pvi(pvi),
        settings: Settings { steps: 3, ..Settings::default() }, // three local updates of one step: each silo once
        ..FitOptions::default()
    };
    let fit = fit(&GaussianMean {}, &silos, &device, &options, None)?;
    println!("{}", fit.report);
    println!("What may leave a silo:\n{}", fit.algorithm.manifest());

    let exact = GaussianMean::posterior(&numbers);
    let posterior = fit.posterior();
    let mean = posterior.family.mean(posterior.parameters)[0];
    println!("mean {mean:.6}, exactly {:.6}; log evidence {:.4}", exact.mean, exact.log_evidence);
    assert!((mean - exact.mean).abs() < 1e-9 && (fit.report.elbo - exact.log_evidence).abs() < 0.01);
    Ok(fit.report.write_json(Path::new("output/partitioned/result.json"))?)
}
