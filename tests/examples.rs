//! Runs every example small, as a user would, and holds what it writes to the contract of all examples.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

#[path = "examples/bayesian_mnist.rs"]
mod bayesian_mnist;
#[path = "examples/clutter.rs"]
mod clutter;
#[path = "examples/clutter_tables.rs"]
mod clutter_tables;
#[path = "examples/gaussian_mean.rs"]
mod gaussian_mean;
#[path = "examples/mnist_regression.rs"]
mod mnist_regression;
#[path = "examples/pvi_mnist.rs"]
mod pvi_mnist;
#[path = "examples/pvi_uci.rs"]
mod pvi_uci;
#[path = "examples/ruggedness.rs"]
mod ruggedness;
#[path = "examples/topics.rs"]
mod topics;
#[path = "examples/vae.rs"]
mod vae;
#[path = "examples/vertical_heart.rs"]
mod vertical_heart;
#[path = "examples/vertical_logistic.rs"]
mod vertical_logistic;
#[path = "examples/vertical_poisson.rs"]
mod vertical_poisson;

use std::process::Command;

use fixtures::example;

#[test]
fn six_cities_writes_its_report_and_plots() {
    let folder = tempfile::tempdir().unwrap();
    let run = Command::new(example("six_cities")).args(["--quick", "--output"]).arg(folder.path()).output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    for words in ["federated", "NUTS pooled", "silo 1 alone", "silo 2 alone", "bytes", "left silos"] {
        assert!(text.contains(words), "the output lacks `{words}`:\n{text}");
    }
    let json = std::fs::read_to_string(folder.path().join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    for key in [
        "elbo",
        "elbo_se",
        "rounds",
        "messages",
        "bytes",
        "gradient_steps",
        "seconds",
        "seed",
        "device",
        "algorithm",
        "options",
    ] {
        assert!(!result[key].is_null(), "result.json lacks `{key}`");
    }
    let sites = result["sites"].as_array().unwrap();
    assert_eq!(sites.len(), 5);
    for site in sites {
        assert!(site["mean"].is_f64() && site["sd"].is_f64() && site["quantiles"]["p97_5"].is_f64(), "{site}");
    }
    for plot in ["elbo.svg", "marginals.svg"] {
        let svg = std::fs::read_to_string(folder.path().join(plot)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{plot}");
    }
    let metrics = std::fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap();
    assert_eq!(metrics.lines().count(), 20);
    metrics.lines().for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).unwrap()));
}

#[test]
fn an_unknown_device_is_refused_with_the_names_there_are() {
    let run = Command::new(example("six_cities")).args(["--quick", "--device", "abacus"]).output().unwrap();
    let text = String::from_utf8(run.stderr).unwrap();
    assert!(!run.status.success() && text.contains("abacus") && text.contains("flex"), "{text}");
}
