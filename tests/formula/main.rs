//! Claims that a formula over files is the model that users of R know, and that silos give what their pooled file gives.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod answers;
mod arviz;
mod command;
mod commands;
mod contrasts;
mod crossed;
mod deployment;
mod exploding;
mod families;
mod hostile;
mod mistakes;
mod names;
mod near_zero;
mod offsets;
mod packages;
mod priors;
mod private;
mod questions;
mod raw_columns;
mod responses;
mod said;
mod shelf;
mod sparse_groups;

use std::path::{Path, PathBuf};

use fixtures::numbers;
use partita::formula::{Contrasted, Prepared, SiloTable, Study};
use partita::{Device, Fit, FitOptions, Settings, fit};

/// A fit with default options.
fn fitted(formula: &str, family: &str, files: &[PathBuf]) -> (Prepared, Fit) {
    fitted_with(formula, family, &[], files)
}

/// The same with formulas of other parameters.
fn fitted_with(formula: &str, family: &str, parameters: &[&str], files: &[PathBuf]) -> (Prepared, Fit) {
    let silo = |(place, path): (usize, &PathBuf)| SiloTable { name: format!("silo {place}"), path: path.clone() };
    let silos: Vec<SiloTable> = files.iter().enumerate().map(silo).collect();
    let mut study = Study::new(formula, family.parse().unwrap()).unwrap();
    for parameter in parameters {
        study = study.with_parameter(parameter).unwrap();
    }
    let prepared = study.prepare(&silos, &Device::flex()).unwrap_or_else(|error| panic!("{formula}: {error}"));
    let fit = fit_by(&prepared, Settings::default());
    (prepared, fit)
}

/// The fit of a prepared study by these settings.
fn fit_by(prepared: &Prepared, settings: Settings) -> Fit {
    let options = FitOptions { threads: 2, settings, ..FitOptions::default() };
    fit(&prepared.plan.model, &prepared.silos, &Device::flex(), &options, None).unwrap()
}

/// The same from a seed.
fn fit_from(prepared: &Prepared, seed: u64) -> Fit {
    fit_by(prepared, Settings { seed, ..Settings::default() })
}

/// A silo with a file of this text.
fn silo(folder: &Path, name: &str, text: &str) -> SiloTable {
    let path = folder.join(format!("{name}.csv"));
    std::fs::write(&path, text).unwrap();
    SiloTable { name: name.into(), path }
}

/// Silos with files of these texts.
fn silos(folder: &Path, all: &[(&str, &str)]) -> Vec<SiloTable> {
    all.iter().map(|(name, text)| silo(folder, name, text)).collect()
}

/// The corrected mean and standard deviation of a number.
fn answer(fit: &Fit, label: &str) -> [f64; 2] {
    let all = fit.report.answer();
    let own = all.iter().find(|own| own.label == label).unwrap_or_else(|| panic!("{label}: {}", fit.report));
    [own.mean, own.sd]
}

/// The one difference of a contrast.
fn only(mut all: Vec<Contrasted>) -> Contrasted {
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// The folder of the mixed models' data; `None` after a word where it is not at hand.
fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("PARTITA_DATA").map(|folder| Path::new(&folder).join("mixed_models"));
    let folder = folder.filter(|folder| folder.is_dir());
    if folder.is_none() {
        fixtures::skip("data", "PARTITA_DATA has no folder mixed_models");
    }
    folder
}
