//! Holds the command line that all studies share: names, help, a folder of data, and what is refused.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_partita-studies")).args(arguments).output().unwrap()
}

#[test]
fn every_study_has_the_same_options_under_its_own_name() {
    let names = [
        "bayesian_mnist",
        "clutter",
        "clutter_tables",
        "gaussian_mean",
        "mnist_regression",
        "private_adult",
        "private_six_cities",
        "pvi_mnist",
        "pvi_uci",
        "ruggedness",
        "six_cities",
        "topics",
        "vae",
        "vertical_heart",
        "vertical_logistic",
        "vertical_poisson",
    ];
    for name in names {
        let help = String::from_utf8(run(&[name, "--help"]).stdout).unwrap();
        for option in ["--quick", "--resume", "--output", "--seed", "--data", "--device", "--threads"] {
            assert!(help.contains(option), "{name} lacks {option}:\n{help}");
        }
    }
}

#[test]
fn a_study_that_there_is_not_is_refused_with_those_there_are() {
    let refused = run(&["abacus"]);
    assert!(!refused.status.success() && String::from_utf8(refused.stderr).unwrap().contains("abacus"));
}

#[test]
fn a_folder_of_data_is_looked_in_and_what_is_kept_there_for_another_seed_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().to_str().unwrap();
    let run = |seed: &str| {
        let done = run(&[
            "gaussian_mean",
            "--quick",
            "--resume",
            "--solver",
            "conjugate",
            "--seed",
            seed,
            "--data",
            output,
            "--output",
            output,
        ]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let json = std::fs::read_to_string(folder.path().join("result.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["runs"].clone()
    };
    let (first, again, other) = (run("1"), run("1"), run("2"));
    assert_eq!(first, again);
    // What was run again took its own time.
    assert_ne!(first[0]["seconds"], other[0]["seconds"]);
}
