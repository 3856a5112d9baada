//! Runs ten of the programs that teach, each in a folder of its own; their own assertions hold the numbers they state.

use std::path::Path;
use std::process::{Command, Output};

use crate::example;
use crate::gaussian_mean::assert_drawn;

fn run(name: &str, folder: &Path, arguments: &[&str]) -> Output {
    Command::new(example(name)).args(arguments).current_dir(folder).output().unwrap()
}

/// The result and the printed output of a program.
fn result(name: &str) -> (serde_json::Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let run = run(name, folder.path(), &[]);
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
    let file = folder.path().join("output").join(name).join("result.json");
    (serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap(), text)
}

/// The mean of the report's site with this label.
fn mean(result: &serde_json::Value, label: &str) -> f64 {
    let site = result["sites"].as_array().unwrap().iter().find(|site| site["label"] == label);
    site.unwrap_or_else(|| panic!("no site `{label}`"))["mean"].as_f64().unwrap()
}

#[test]
fn level_meets_its_exact_posterior_and_evidence() {
    let (result, text) = result("level");
    assert!((mean(&result, "level") - 1.7825).abs() < 0.03 && text.contains("left silos"), "{text}");
    assert!((result["elbo"].as_f64().unwrap() + 12.006).abs() < 0.01);
}

#[test]
fn own_network_is_sure_where_it_saw_rows_and_unsure_elsewhere() {
    let (result, _) = result("own_network");
    let of = |key: &str| result[key].as_f64().unwrap();
    assert!(of("error").abs() < 0.1 && of("sd") < 0.1 && of("sd_outside") > 3.0 * of("sd"), "{result}");
}

#[test]
fn network_over_silos_knows_parts_that_one_silo_has_not_seen() {
    let (result, _) = result("network_over_silos");
    let of = |key: &str| result[key].as_f64().unwrap();
    assert!(of("together") > 0.9 && of("together") > of("alone"), "{result}");
}

#[test]
fn own_plugs_has_the_median_of_its_silos_in_a_family_of_its_own() {
    let (result, text) = result("own_plugs");
    assert!((mean(&result, "mu") - 1.98).abs() < 0.03 && text.contains("Softplus over 1 number"), "{text}");
    assert_eq!(result["algorithm"]["SfviAvg"]["averaging"], "Median");
}

#[test]
fn encoder_serves_a_silo_that_did_not_train() {
    let (result, text) = result("encoder");
    assert!(result["elbo"].is_f64() && text.contains("the third silo"), "{text}");
}

#[test]
fn partitioned_finds_the_exact_posterior_in_one_sweep() {
    let (result, text) = result("partitioned");
    // Nine numbers of sum 15.3 and a prior precision of 1; the summary has 4,000 draws of sd 0.32.
    assert!((mean(&result, "mu") - 1.53).abs() < 0.03 && text.contains("exactly 1.53"), "{text}");
}

#[test]
fn columns_finds_coefficients_of_columns_that_were_not_shown() {
    let (result, text) = result("columns");
    assert!(result["elbo"].is_f64() && text.contains("clinic: 1.") && text.contains("registry: -"), "{text}");
}

#[test]
fn sampler_has_the_means_of_long_chains_of_other_programs() {
    let (result, _) = result("sampler");
    assert!((mean(&result, "mu") - 4.4).abs() < 0.4 && (mean(&result, "tau") - 3.6).abs() < 0.5);
    assert!(result["r_hat"].as_f64().unwrap() <= 1.01);
}

#[test]
fn two_machines_has_the_bits_of_one_and_needs_no_engine() {
    let (result, text) = result("two_machines");
    assert!(result["elbo"].is_f64() && text.contains("largest difference from the fit in one call: 0"), "{text}");
}

#[test]
fn six_cities_writes_its_report_and_plots() {
    let folder = tempfile::tempdir().unwrap();
    let run = run("six_cities", folder.path(), &["--output", "here"]);
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    fixtures::says(&text, &["federated", "NUTS pooled", "silo 1 alone", "silo 2 alone", "bytes", "left silos"]);
    let output = folder.path().join("here");
    let json = std::fs::read_to_string(output.join("result.json")).unwrap();
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
        "choice",
        "options",
    ] {
        assert!(!result[key].is_null(), "result.json lacks `{key}`");
    }
    let sites = result["sites"].as_array().unwrap();
    assert_eq!(sites.len(), 5);
    for site in sites {
        assert!(site["mean"].is_f64() && site["sd"].is_f64() && site["quantiles"]["p97_5"].is_f64(), "{site}");
    }
    // Those of long chains, as the README's table has them: -0.788 / 0.086.
    let omega = &sites[4];
    assert!(
        (omega["mean"].as_f64().unwrap() + 0.788).abs() < 0.01 && (omega["sd"].as_f64().unwrap() - 0.086).abs() < 0.002
    );
    assert_drawn(&output, &["elbo.svg", "marginals.svg"]);
    let metrics = std::fs::read_to_string(output.join("metrics.jsonl")).unwrap();
    assert_eq!(metrics.lines().count(), 3);
    metrics.lines().for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).unwrap()));
}

#[test]
fn an_unknown_device_is_refused_with_the_names_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let run = run("six_cities", folder.path(), &["--device", "abacus"]);
    let text = String::from_utf8(run.stderr).unwrap();
    assert!(!run.status.success() && text.contains("abacus") && text.contains("flex"), "{text}");
}
