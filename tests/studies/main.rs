//! Runs every example and every study small, as a user would, and checks their output.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod bayesian_mnist;
mod clutter;
mod clutter_tables;
mod gaussian_mean;
mod mnist_regression;
mod packages;
mod programs;
mod pvi_mnist;
mod pvi_uci;
mod ruggedness;
mod topics;
mod vae;
mod verdicts;
mod vertical_heart;
mod vertical_logistic;
mod vertical_poisson;

use std::path::Path;
use std::process::Command;

use fixtures::{example, executable};
use serde_json::Value;

/// The command of the study of this name, built by the same `cargo test` that runs this test.
fn study(name: &str) -> Command {
    let mut command = Command::new(executable("partita-studies"));
    command.arg(name);
    command
}

/// What a quick run of a study prints, and the result that it writes into the folder.
#[track_caller]
fn quick(name: &str, folder: &Path, more: &[&str]) -> (String, Value) {
    let run = study(name).args(["--quick", "--output"]).arg(folder).args(more).output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
    let json = std::fs::read_to_string(folder.join("result.json")).unwrap();
    (text, serde_json::from_str(&json).unwrap())
}

/// What a quick run of a study with a page of the book gives.
struct QuickRun {
    text: String,
    rows: Vec<Value>,
    claims: Vec<Value>,
    page: String,
}

fn quick_run(name: &str) -> QuickRun {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    let (text, result) = quick(name, folder.path(), &["--page", page.to_str().unwrap()]);
    let [rows, claims]: [Vec<Value>; 2] = serde_json::from_value(result).unwrap();
    QuickRun { text, rows, claims, page: std::fs::read_to_string(page).unwrap() }
}
