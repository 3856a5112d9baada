//! Declares a model with one latent for each patient and one for all, and fits it over two silos that share no data.
//!
//! ```sh
//! cargo run --release --example level
//! ```
//!
//! What you should see: `level` with mean 1.78 and sd 0.42 (exactly 1.7825 and 0.4222; held to 0.03 and 0.02), and an
//! ELBO of -12.01 nats, which is the log evidence (held to 0.01): the default family contains this posterior. A second
//! on a laptop. The README has this model; `output/level/result.json` has the report.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use partita::burn::{self, module::Module, tensor::Tensor};
use partita::{FitOptions, Model, Normal, Result, Scope, Settings, check, fit};

/// Patients' values vary around one level, and measurements around the patients' values.
#[derive(Module, Debug)]
struct Level {}

impl Model for Level {
    type Globals = Tensor<1>; // what all silos share
    type Data = Tensor<1>; // what one silo has measured; it never leaves it

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("level", Normal::new(0.0, 10.0))
    }

    fn local(&self, scope: &mut Scope<'_>, level: &Tensor<1>, measured: &Tensor<1>) -> Result<()> {
        scope.plate("patient", measured.dims()[0], |scope, rows| {
            let value = scope.sample("value", Normal::new(level.clone(), 1.0))?;
            scope.observe("y", Normal::new(value, 0.5), rows.take(measured)?)
        })
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = partita::gpu::device(None)?; // the CPU, unless the variable BURN_DEVICE names another
    let silos = [
        ("north".to_owned(), device.tensor(vec![1.2, 0.4, 2.1, 1.7], [4])),
        ("south".to_owned(), device.tensor(vec![3.0, 2.2, 1.9], [3])),
    ];
    // The gradient over silos equals that of pooled data, and plates scale to minibatches.
    assert!(check(&Level {}, &silos, &device)?.passed());

    let settings = Settings { steps: 1_500, ..Settings::default() };
    let fit = fit(&Level {}, &silos, &device, &FitOptions { settings, ..FitOptions::default() }, None)?;
    println!("{}", fit.report);

    // With the patients' values integrated out, y ~ N(level, 1.25): the posterior is N(10 / 5.61, 1 / 5.61).
    let level = fit.report.site("level").ok_or("the model has no such site")?;
    assert!((level.mean - 1.7825).abs() < 0.03 && (level.sd - 0.4222).abs() < 0.02);
    assert!((fit.report.elbo + 12.006).abs() < 0.01);
    Ok(fit.report.write_json(Path::new("output/level/result.json"))?)
}
