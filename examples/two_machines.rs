//! Makes the coordinator and the silos of a fit separately, as two machines would, and passes messages between them.
//!
//! ```sh
//! cargo run --release --example two_machines
//! ```
//!
//! What you should see: the posterior of six cities over two hospitals, each made from its own children alone, with the
//! bits of `fit` with all in one call (the difference printed is 0). Two seconds on a laptop. No engine is needed: the
//! exchange is in this process. Over machines the silos' programs run beside their data and the coordinator has
//! `partita::flower::Flower::connect` in place of `InProcess`: see `docs/src/how-to-flower.md` (flwr 1.41).

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use partita::inference::{InProcess, SiloProgram, coordinator, fit_parties, silo_program};
use partita::models::{Child, MixedLogistic, RepeatedBinary, six_cities_silos};
use partita::{FamilyPlan, FitOptions, Gaussian, Result, Schedule, Settings, fit};

/// The agreement of the machines: the model, the names of the silos, and the settings with the seed.
fn agreed() -> (MixedLogistic, [String; 2], FitOptions) {
    let locals = Gaussian::diagonal().given_globals().scale_given_globals();
    let settings = Settings {
        steps: 2_000,
        family: FamilyPlan::new().global(Gaussian::full_rank()).local(locals),
        schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
        ..Settings::default()
    };
    (MixedLogistic::new(4), ["north", "south"].map(str::to_owned), FitOptions { settings, ..FitOptions::default() })
}

/// The program of one hospital: it reads its own children and the messages that it answers.
fn hospital(
    place: u32,
    children: &[Child],
) -> std::result::Result<(Box<dyn SiloProgram>, usize), partita::inference::Error> {
    let (device, (model, names, options)) = (partita::Device::flex(), agreed());
    silo_program(&model, &names, place, &RepeatedBinary::six_cities(children, &device)?, &device, &options)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let [north, south] = six_cities_silos();
    let ((first, own), (second, other)) = (hospital(0, &north)?, hospital(1, &south)?);

    // The program of the coordinator: it knows names and numbers of rows, and reads messages. `Flower` is an exchange
    // as well.
    let (device, (model, names, options)) = (partita::Device::flex(), agreed());
    let mut exchange = InProcess::new(vec![first, second], 2)?;
    let mut algorithm = coordinator(&model, &names, &[own, other], &device, &options)?;
    let report = fit_parties(&model, &device, &options, &mut *algorithm, &mut exchange, None)?.report;
    println!("{report}");
    println!("What may leave a silo:\n{}", algorithm.manifest());

    let data = [&north, &south].map(|children| RepeatedBinary::six_cities(children, &device));
    let silos = names.into_iter().zip(data).map(|(name, data)| Ok((name, data?))).collect::<Result<Vec<_>>>()?;
    let together = fit(&model, &silos, &device, &options, None)?;
    let found = algorithm.posterior().parameters.iter().zip(together.posterior().parameters);
    let difference = found.map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
    println!("largest difference from the fit in one call: {difference}");
    println!("To run silos on other machines, install flwr 1.41 and follow docs/src/how-to-flower.md.");
    assert!(difference <= 0.0);
    Ok(report.write_json(Path::new("output/two_machines/result.json"))?)
}
