//! Fits one regression over two parties that hold different columns of the same 400 people.
//!
//! ```sh
//! cargo run --release --example columns
//! ```
//!
//! What you should see: the coefficients 1.5 of the clinic's column and -1.0 of the registry's, from which 400 rows
//! were drawn, within 0.35 each. No party sends its column: messages hold one number a row and step. Five seconds on a
//! laptop. Hassan, Sutton, Mira and Mengersen (2024), Scalable vertical federated learning, section 3.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use partita::core::{Key, Noise, Purpose};
use partita::vertical::{self, BernoulliHead, Labels, Linear, Party, VerticalOptions, WithIntercept, binary_labels};
use partita::{AlgorithmChoice, Design, FitOptions, Normal, Schedule, Settings};

const ROWS: usize = 400;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = partita::gpu::device(None)?;
    let mut noise = Noise::new(1).stream(Key::new(Purpose::Prior, 0));
    let mut column = || (0..ROWS).map(|_| noise.standard_normal()).collect::<Vec<f64>>();
    let (ages, incomes) = (column(), column());
    let mut yes = |(age, income): (&f64, &f64)| noise.uniform() < 1.0 / (1.0 + (income - 1.5 * age).exp());
    let labels: Vec<bool> = ages.iter().zip(&incomes).map(&mut yes).collect();

    // Both parties have the same people in the same order: align rows by a shared key first (`partita::core::data`).
    let design = |values: Vec<f64>| Design::new(values, [ROWS, 1, 1]);
    let parties =
        [Party::new("clinic", Linear::new(1), design(ages)?), Party::new("registry", Linear::new(1), design(incomes)?)];
    let labels =
        Labels::new(WithIntercept::new(BernoulliHead {}, Normal::new(0.0, 1.0)), binary_labels(&labels, &device));
    let options = FitOptions {
        // Each party has an auxiliary variable a row; the labels stay with their holder.
        algorithm: AlgorithmChoice::Vertical(VerticalOptions::augmented(0.5)),
        settings: Settings {
            steps: 3_000,
            schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
            ..Settings::default()
        },
        ..FitOptions::default()
    };
    let fit = vertical::fit(&parties, &labels, &device, &options, None)?;
    println!("{}", fit.report); // the label holder's report: the intercept, the bound, exchanges and bytes
    for (party, truth) in [("clinic", 1.5), ("registry", -1.0)] {
        let slope = &fit.summary_of(party)?[0]; // for that party only
        println!("{party}: {:.3} ± {:.3}, drawn with {truth}", slope.mean, slope.sd);
        assert!((slope.mean - truth).abs() < 0.35, "{party}: {}", slope.mean);
    }
    Ok(fit.report.write_json(Path::new("output/columns/result.json"))?)
}
