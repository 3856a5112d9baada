//! Holds the models of the book's cookbook to posteriors by NumPyro, and their pages to the code that is tested.
#![allow(clippy::print_stderr, reason = "the tables of the pages are what this prints")]
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]
#![allow(clippy::float_cmp, reason = "columns of zeros and ones are exact")]

mod missing;
mod mixture;
mod ordinal;
mod own_density;
mod own_operation;
mod pages;
mod robust;
mod survival;
mod unequal_groups;
mod zeros;

use std::time::Instant;

use partita::inference::SiteSummary;
use partita::inference::metrics::bulk_effective_sample_size;
use partita::{Device, FitOptions, Model, Nuts, NutsFit, Settings, fit};
use serde_json::Value;

/// Pages that show code of this folder.
const PAGES: usize = 9;

const GOLDEN: &str = include_str!("../golden/cookbook.json");

/// Standard errors that chains may be off by beyond their bounds.
const ERRORS: f64 = 3.0;

/// The columns of one silo.
struct Columns<'a>(&'a Value);

impl Columns<'_> {
    fn numbers(&self, name: &str) -> Vec<f64> {
        serde_json::from_value(self.0[name].clone()).unwrap()
    }
}

/// How chains and the fit are run, and how far from the reference the fit may be.
struct Bounds {
    nuts: Nuts,
    settings: Settings,
    /// Of a mean, in reference standard deviations.
    mean: f64,
    /// Of a standard deviation, as a part of the reference's.
    sd: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        // Some 1,500 effective draws: a mean to 0.026 sd, a standard deviation to 1.8 %.
        let nuts = Nuts { warmup: 400, draws: 500, chains: 4, threads: 2, target_accept: 0.9, ..Nuts::default() };
        Self { nuts, settings: Settings::default(), mean: 0.1, sd: 0.1 }
    }
}

/// One number of the reference.
struct Reference {
    label: String,
    mean: f64,
    sd: f64,
    /// The standard error of the mean.
    error: f64,
}

fn references(golden: &Value) -> Vec<Reference> {
    let sites = golden["reference"].as_object().unwrap().iter();
    let numbers = sites.flat_map(|(site, stats)| {
        let of = |what: &str| serde_json::from_value::<Vec<f64>>(stats[what].clone()).unwrap();
        let (means, sds, sizes) = (of("mean"), of("sd"), of("ess"));
        let is_one = means.len() == 1;
        let number = |k: usize| Reference {
            label: if is_one { site.clone() } else { format!("{site}[{k}]") },
            mean: means[k],
            sd: sds[k],
            error: sds[k] / sizes[k].sqrt(),
        };
        (0..means.len()).map(number).collect::<Vec<_>>()
    });
    numbers.collect()
}

/// How far a summary is from a reference: its mean in reference standard deviations, its sd as a part of that.
fn distance(found: &SiteSummary, reference: &Reference) -> (f64, f64) {
    ((found.mean - reference.mean) / reference.sd, found.sd / reference.sd - 1.0)
}

/// Standard errors of the difference of two means, in reference standard deviations, and of two standard deviations, as
/// a part of it: of squares, whose draws have a spread and a sample size of their own.
fn errors(chains: &NutsFit, reference: &Reference) -> [f64; 2] {
    let draws = &chains.draws.iter().find(|(_, label, _)| *label == reference.label).unwrap().2;
    let squares: Vec<f64> = draws.iter().map(|draw| (draw - reference.mean).powi(2)).collect();
    let size = |draws: &[f64]| {
        let chains: Vec<&[f64]> = draws.chunks_exact(chains.options.draws).collect();
        bulk_effective_sample_size(&chains).unwrap()
    };
    let count = squares.len() as f64;
    let variance = squares.iter().sum::<f64>() / count;
    let spread = squares.iter().map(|square| (square - variance).powi(2)).sum::<f64>() / count;
    let of_squares = spread * (1.0 / size(&squares) + (reference.error / reference.sd).powi(2));
    [(1.0 / size(draws)).sqrt().hypot(reference.error / reference.sd), of_squares.sqrt() / (2.0 * variance)]
}

/// Holds chains over all silos to the reference, and the fit over the silos to the bounds; prints the table of the page.
fn holds<M: Model + 'static>(name: &str, model: &M, data: fn(&Columns, &Device) -> M::Data, bounds: &Bounds) {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let (golden, device) = (&golden[name], Device::flex());
    let columns = golden["silos"].as_array().unwrap().iter().enumerate();
    let silos: Vec<(String, M::Data)> =
        columns.map(|(j, own)| (format!("silo-{j}"), data(&Columns(own), &device))).collect();
    assert!(partita::check(model, &silos, &device).unwrap().passed());
    let chains = bounds.nuts.sample(model, &silos, &device).unwrap();
    let options = FitOptions { settings: bounds.settings.clone(), elbo_draws: 100, ..FitOptions::default() };
    let started = Instant::now();
    let report = fit(model, &silos, &device, &options, None).unwrap().report;
    eprintln!("{chains}\n{name}: {:.1} s sampled, {:.1} s fitted", chains.seconds, started.elapsed().as_secs_f64());
    eprintln!("| | NumPyro | sampler | fit | fit is off by |\n|---|---:|---:|---:|---:|");
    let mut failures = Vec::new();
    for reference in references(golden) {
        let label = &reference.label;
        let (sampled, fitted) = (chains.site(label).unwrap(), report.site(label).unwrap());
        let ((mean, sd), (fit_mean, fit_sd)) = (distance(sampled, &reference), distance(fitted, &reference));
        let both = [(reference.mean, reference.sd), (sampled.mean, sampled.sd), (fitted.mean, fitted.sd)];
        let both = both.map(|(mean, sd)| format!("{mean:.3} ± {sd:.3}")).join(" | ");
        eprintln!("| `{label}` | {both} | {fit_mean:+.2} sd, {:+.0} % |", 100.0 * fit_sd);
        let [mean_error, sd_error] = errors(&chains, &reference);
        if mean.abs() > 0.15 + ERRORS * mean_error || sd.abs() > 0.1 + ERRORS * sd_error {
            failures.push(format!("chains, {label}: {mean} ± {mean_error} sd, {sd} ± {sd_error}"));
        }
        if fit_mean.abs() > bounds.mean || fit_sd.abs() > bounds.sd {
            failures.push(format!("fit, {label}: {fit_mean} sd, {fit_sd}"));
        }
    }
    assert!(failures.is_empty(), "{name}: {failures:#?}");
}
