//! Trains an encoder over two silos in place of a posterior for every row, and applies it to a third silo.
//!
//! ```sh
//! cargo run --release --example encoder
//! ```
//!
//! What you should see: the encoder finds the exact rule, mean 0.8 y and sd 0.447 (held to 0.01), so that the ELBO is
//! the log evidence (held to 0.05 nats). The rows of a silo that never trained get their exact posteriors. Rows and
//! latents stay; the encoder's four weights travel. Two seconds. Kingma and Welling (2014), Auto-encoding variational
//! Bayes.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use partita::burn::module::{Module, Param};
use partita::burn::{self, tensor::Tensor};
use partita::core::{Key, Noise, Purpose};
use partita::inference::encoded_posterior;
use partita::{Amortised, Encoder, Encoding, FitOptions, Model, Normal, Result, Rows, Schedule, Scope, Settings, fit};

/// Latent values vary around zero, and measurements around the latent values.
#[derive(Module, Debug)]
struct Values {}

impl Model for Values {
    type Globals = ();
    type Data = Tensor<1>;

    fn global(&self, _: &mut Scope<'_>) -> Result<()> {
        Ok(())
    }

    fn local(&self, scope: &mut Scope<'_>, (): &(), measured: &Tensor<1>) -> Result<()> {
        scope.plate("row", measured.dims()[0], |scope, rows| {
            let value = scope.sample("value", Normal::new(0.0, 1.0).over(rows))?;
            scope.observe("y", Normal::new(value, 0.5), rows.take(measured)?)
        })
    }
}

/// Mean and log scale of a row's latent as lines in its measurement; any Burn module can be an encoder.
#[derive(Module, Debug)]
struct Lines {
    slopes: Param<Tensor<2>>,
    intercepts: Param<Tensor<2>>,
}

impl Encoder<Tensor<1>> for Lines {
    fn encode(&self, measured: &Tensor<1>, rows: &Rows<'_>) -> Result<Encoding> {
        let y = rows.take(measured)?.reshape([rows.len(), 1]);
        let lines = y.matmul(self.slopes.val()) + self.intercepts.val();
        Ok(Encoding { mean: lines.clone().narrow(1, 0, 1), log_scale: lines.narrow(1, 1, 1) })
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = partita::gpu::device(None)?;
    let mut noise = Noise::new(4).stream(Key::new(Purpose::Prior, 0));
    let mut draw = |_| noise.standard_normal() + 0.5 * noise.standard_normal();
    let numbers: [Vec<f64>; 3] = [(0..60).map(&mut draw).collect(), (0..40).map(&mut draw).collect(), vec![1.5, -0.7]];
    let [north, south, third] = numbers.clone().map(|own| device.tensor(own.clone(), [own.len()]));
    let zeros = || Param::from_tensor(device.tensor(vec![0.0; 2], [1, 2]));
    let model = Amortised::new(Values {}, "row", Lines { slopes: zeros(), intercepts: zeros() });
    let schedule = Schedule::Cosine { initial: 0.02, last: 0.0 };
    let settings = Settings { steps: 2_000, schedule, ..Settings::default() };
    let options = FitOptions { settings, ..FitOptions::default() };
    let fit = fit(&model, &[("north".to_owned(), north), ("south".to_owned(), south)], &device, &options, None)?;
    println!("{}", fit.report);

    let trained = fit.model(&model, &device)?;
    let served = encoded_posterior(&trained, &device, &third)?;
    println!("the third silo: mean {:.3?} of {:?}, sd {:.3?}", served[0].mean, numbers[2], served[0].sd);
    let exact = |(mean, y): (&f64, &f64)| (mean - 0.8 * y).abs() < 0.01;
    assert!(served[0].mean.iter().zip(&numbers[2]).all(exact) && (served[0].sd[0] - 0.2_f64.sqrt()).abs() < 0.01);
    let log_density = |y: &f64| -0.5 * (y * y / 1.25 + (2.0 * std::f64::consts::PI * 1.25).ln());
    let evidence: f64 = numbers[..2].iter().flatten().map(log_density).sum();
    assert!((fit.report.elbo - evidence).abs() < 0.05, "{} is not {evidence}", fit.report.elbo);
    Ok(fit.report.write_json(Path::new("output/encoder/result.json"))?)
}
