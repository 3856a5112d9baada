//! Runs the Gaussian mean of the framework thesis small and checks its output.

use std::path::Path;

use crate::quick;

/// Runs an experiment of the framework thesis; returns its printed and written output.
pub(crate) fn experiment(name: &str, folder: &Path, arguments: &[&str]) -> (String, serde_json::Value) {
    let (text, result) = quick(name, folder, arguments);
    fixtures::says(&text, &["published", "they are no target", "rounds", "messages", "gradient steps", "on threads"]);
    for run in result["runs"].as_array().unwrap() {
        for key in ["solver", "way", "mean", "variances", "natural", "loss", "divergence", "losses", "seconds"] {
            assert!(!run[key].is_null(), "a run lacks `{key}`: {run}");
        }
        for key in ["rounds", "messages", "silo_steps", "gradient_steps"] {
            assert!(run["counters"][key].is_u64(), "the counters lack `{key}`: {run}");
        }
        assert!(run["improper_cavities"].is_u64(), "{run}");
        // A loss for every communication, from the first by which all silos had answered.
        assert!(run["losses"].as_array().unwrap().iter().all(|point| point[1].as_f64().unwrap().is_finite()));
        // Up to rounding the loss is minus a bound.
        let over = run["loss"].as_f64().unwrap() + result["exact"]["log_evidence"].as_f64().unwrap();
        assert!(over > -1e-8, "{over}");
    }
    (text, result)
}

pub(crate) fn assert_drawn(folder: &Path, pictures: &[&str]) {
    for picture in pictures {
        let svg = std::fs::read_to_string(folder.join(picture)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{picture}");
    }
}

#[test]
fn gaussian_mean_writes_its_table_beside_the_exact_posterior() {
    let folder = tempfile::tempdir().unwrap();
    let (text, result) = experiment("gaussian_mean", folder.path(), &[]);
    assert!(text.contains("5.010508") && text.contains("9.9990e-5"), "{text}");
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8);
    let exact = &runs[0];
    assert_eq!((exact["solver"].as_str(), exact["way"].as_str()), (Some("conjugate"), Some("sequential")));
    assert!(exact["divergence"].as_f64().unwrap().abs() < 1e-9, "{exact}");
    // Five rounds, damped by 1/20 and then by 1/10, have their closed form.
    let precision = 1.0 + 10_000.0 * (1.0 - 0.95 * 0.9_f64.powi(4));
    let found = runs[1]["variances"][0].as_f64().unwrap();
    assert!((found * precision - 1.0).abs() < 1e-9, "{found}");
    assert_drawn(folder.path(), &["losses.svg", "posterior.svg"]);
}
