//! Runs the study of partitioned inference on MNIST small, and checks its output.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::{quick, study};

#[test]
fn pvi_mnist_writes_every_part_does_not_repeat_finished_runs_and_goes_on_with_one_that_was_killed() {
    if partita::datasets::mnist().is_err() {
        fixtures::skip("data", "MNIST is neither in PARTITA_DATA nor in the cache, and cannot be downloaded");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| quick("pvi_mnist", folder.path(), more).1;
    let result = run(&[]);
    let curve = |slug: &str| {
        let parts = result["parts"].as_array().unwrap();
        let mut runs = parts.iter().flat_map(|part| part["runs"].as_array().unwrap());
        runs.find(|curve| curve["run"]["slug"] == slug).unwrap_or_else(|| panic!("no run `{slug}`")).clone()
    };
    let last = |slug: &str, key: &str| {
        let curve = curve(slug);
        curve["points"].as_array().unwrap().last().unwrap()[key].as_f64().unwrap()
    };
    // Measured 9.6 and 13.6 % of 1,000 digits; guessing gives 90 %.
    assert!(last("global", "error") < 0.2 && last("sequential", "error") < 0.25);
    // Every exchange is a request and an answer for each silo asked; a silo takes its steps one after another.
    assert!((last("synchronous_0.2", "messages") - 2.0 * 4.0 * last("synchronous_0.2", "rounds")).abs() < 0.5);
    assert!((last("synchronous_0.2", "steps") - 4.0 * last("synchronous_0.2", "parallel_steps")).abs() < 0.5);
    assert!((last("sequential", "messages") - 2.0 * last("sequential", "rounds")).abs() < 0.5);
    assert!((last("sequential", "steps") - last("sequential", "parallel_steps")).abs() < 0.5);
    // With one label in five wrong, predictions are worse than with right labels, however well they are learnt.
    for slug in ["global", "sequential", "streaming_stopped", "damping_0.2"] {
        let found = last(slug, "train_log_likelihood");
        assert!(found < 0.0 && found > last("flipped_pvi", "train_log_likelihood"), "{slug}: {found}");
    }
    for picture in ["alike_accuracy.svg", "alike_pruned.svg", "digits_accuracy.svg", "flipped_accuracy.svg"] {
        assert!(std::fs::read_to_string(folder.path().join(picture)).unwrap().starts_with("<svg"), "{picture}");
    }
    // Finished runs keep their times: they were not run again.
    assert_eq!(run(&["--resume"])["parts"], result["parts"]);

    // A run that is killed after its first measurement resumes with the same bits.
    let own = ["--part", "digits", "--only", "shards_sequential"];
    let runs = folder.path().join("runs");
    let mut killed = study("pvi_mnist");
    let mut killed = killed.args(["--quick", "--output"]).arg(folder.path()).args(own).spawn().unwrap();
    while !runs.join("shards_sequential/latest").exists() && killed.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let gone_on = run(&[own.as_slice(), &["--resume"]].concat());
    assert_eq!(gone_on["parts"][0]["runs"][0]["points"], curve("shards_sequential")["points"]);
    assert!(!runs.join("shards_sequential").exists());
}

#[test]
fn pvi_mnist_runs_without_any_file_on_digits_of_a_display() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    let mut command = study("pvi_mnist");
    let command = command.args(["--quick", "--stand-in", "--part", "alike", "--only", "global", "--output"]);
    let run = command.arg(folder.path()).env("PARTITA_DATA", &nowhere).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let json = std::fs::read_to_string(folder.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(result["digits"], "seven-segment stand-in");
    let error = result["parts"][0]["runs"][0]["points"].as_array().unwrap().last().unwrap()["error"].as_f64().unwrap();
    // Guessing gives 90 %.
    assert!(error < 0.2, "{error}");
    // Its runs are not mistaken for those of MNIST.
    assert!(folder.path().join("runs_stand_in").exists() && !folder.path().join("runs").exists());
}

/// The printed output of the study with these options, line by line.
fn printed(options: &[&str]) -> Vec<String> {
    let run = study("pvi_mnist").args(options).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The settings of every run by name in files.
fn listed(setting: &str) -> BTreeMap<String, Value> {
    let mut runs = BTreeMap::<String, Value>::new();
    for line in printed(&[setting, "--list"]) {
        let run: Value = serde_json::from_str::<Value>(&line).unwrap()["run"].clone();
        let slug = run["slug"].as_str().unwrap().to_owned();
        // Two runs with one name would delete each other's results.
        let other = runs.insert(slug.clone(), run.clone());
        assert!(other.is_none_or(|other| other == run), "{slug}");
    }
    runs
}

#[test]
fn no_two_runs_of_pvi_mnist_share_a_name_in_any_setting() {
    for setting in ["--quick", "--long", "--paper", "--times=1"] {
        let runs = listed(setting);
        assert!(runs.contains_key("synchronous_0.2") && runs.contains_key("damping_0.2"), "{setting}");
    }
}

/// A point of a kept curve: rounds, messages, parallel steps, steps and pruned weights; error, log likelihood of test
/// digits.
type Kept = ([u64; 5], [f64; 2]);

/// Keeps a curve as the study does, with this log likelihood of training digits.
fn keep(folder: &Path, run: &Value, points: &[Kept], training: Option<f64>) -> Value {
    let point = |([rounds, messages, parallel_steps, steps, pruned], [error, log_likelihood]): &Kept| {
        let mut point = json!({
            "rounds": rounds, "messages": messages, "parallel_steps": parallel_steps, "steps": steps,
            "error": error, "log_likelihood": log_likelihood, "pruned": pruned,
        });
        if let Some(training) = training {
            point["train_log_likelihood"] = training.into();
        }
        point
    };
    let curve = json!({
        "run": run, "label": run["label"], "points": points.iter().map(point).collect::<Value>(), "over": true,
        "refused": null, "bytes_from_silos": 0, "improper_cavities": 0, "seconds": 1.0,
    });
    write(folder, &curve);
    curve
}

fn write(folder: &Path, curve: &Value) {
    let file = folder.join(format!("runs/{}.json", curve["run"]["slug"].as_str().unwrap()));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, curve.to_string()).unwrap();
}

/// Claims with their verdicts and numbers, from kept curves.
fn judged(folder: &Path, options: &[&str]) -> BTreeMap<String, (Value, String)> {
    let own = ["--long", "--kept", "--output", folder.to_str().unwrap()];
    printed(&[own.as_slice(), options].concat());
    let result = std::fs::read_to_string(folder.join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    let claim = |claim: &Value| {
        let words = |key: &str| claim[key].as_str().unwrap().to_owned();
        (words("claim"), (claim["met"].clone(), words("found")))
    };
    result["claims"].as_array().unwrap().iter().map(claim).collect()
}

/// Curves that meet every claim, except for the damping factors, which are refused.
fn ideal() -> Vec<(&'static str, Vec<Kept>, f64)> {
    let end = |error: f64, log_likelihood: f64| vec![([10, 20, 9, 9, 0], [error, log_likelihood])];
    let pooled = |steps: u64, pruned: u64| [1, 2, steps, steps, pruned];
    vec![
        ("global", vec![(pooled(10_000, 100), [0.025, -0.08]), (pooled(20_000, 140), [0.022, -0.09])], -0.05),
        (
            "sequential",
            vec![
                ([10, 20, 10_000, 10_000, 0], [0.026, -0.095]),
                ([20, 40, 20_000, 20_000, 10], [0.025, -0.085]),
                ([40, 80, 40_000, 40_000, 20], [0.025, -0.1]),
            ],
            -0.05,
        ),
        (
            "synchronous_0.2",
            vec![
                ([5, 100, 5_000, 50_000, 0], [0.03, -0.12]),
                ([10, 200, 10_000, 100_000, 5], [0.025, -0.07]),
                ([16, 320, 16_000, 160_000, 9], [0.024, -0.09]),
            ],
            -0.05,
        ),
        ("committee_same", end(0.05, -0.2), -0.2),
        ("committee_split", end(0.05, -0.2), -0.2),
        ("streaming", vec![([10, 20, 9, 9, 0], [0.03, -0.1]), ([40, 80, 36, 36, 0], [0.026, -0.12])], -0.05),
        ("sequential_0.25", vec![([20, 40, 9, 9, 0], [0.04, -0.2])], -0.2),
        ("sequential_0.5", vec![([20, 40, 9, 9, 0], [0.03, -0.15])], -0.2),
        ("global_stopped", end(0.025, -0.082), -0.05),
        ("sequential_stopped", end(0.02, -0.06), -0.01),
        ("synchronous_stopped", end(0.02, -0.06), -0.01),
        ("streaming_stopped", end(0.02, -0.06), -0.01),
        ("shards_sequential", vec![([10, 20, 9, 9, 0], [0.5, -2.0]), ([900, 1_800, 99, 99, 0], [0.03, -0.1])], -0.1),
        ("shards_synchronous", vec![([4, 800, 9, 9, 0], [0.4, -1.1]), ([40, 8_000, 99, 99, 0], [0.03, -0.1])], -0.1),
        ("shards_global", vec![([2, 400, 2, 200, 0], [0.9, -1.0]), ([4, 800, 4, 400, 0], [0.8, -2.2])], -2.2),
        ("shards_stochastic", vec![([10, 20, 9, 9, 0], [0.5, -1.5])], -1.5),
        ("renyi_0.5", end(0.03, -0.1), -0.1),
        ("renyi_5", end(0.02, -0.1), -0.1),
        ("flipped_fedavg", end(0.04, -0.1), -0.1),
        ("flipped_pvi", end(0.05, -0.1), -0.1),
        ("flipped_both", end(0.03, -0.1), -0.1),
    ]
}

#[test]
fn claims_of_pvi_mnist_are_about_the_runs_of_their_names_and_are_left_out_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let runs = listed("--long");
    let curves: BTreeMap<&str, Value> = ideal()
        .into_iter()
        .map(|(slug, points, training)| (slug, keep(folder, &runs[slug], &points, Some(training))))
        .collect();
    for (slug, factor) in runs.keys().filter_map(|slug| Some((slug, slug.strip_prefix("damping_")?))) {
        let mut curve = keep(folder, &runs[slug], &[([1, 20, 9, 9, 0], [0.05, -0.2])], None);
        if factor.parse::<f64>().unwrap() >= 0.25 {
            curve["refused"] = "no density".into();
            write(folder, &curve);
        }
    }
    let all = judged(folder, &[]);
    assert_eq!(all.len(), 24, "{all:?}");
    for (claim, (met, found)) in &all {
        assert_eq!(*met, true, "{claim}: {found}");
    }
    for start in ["F6.1", "F6.5", "F7.1", "F7.2, streaming", "F7.3", "F7.4, sequential", "F8.3", "F12", "F14"] {
        assert!(all.keys().any(|claim| claim.starts_with(start)), "{start}");
    }
    // By position these three would be global inference and both schedules.
    assert!(judged(folder, &["--part", "alike", "--only", "s"]).is_empty());

    // A claim that fails is not met: stopped streaming that ends below global inference, fewer messages, and less
    // pruning.
    let mut worse = curves["streaming_stopped"].clone();
    worse["points"][0]["log_likelihood"] = (-0.085).into();
    write(folder, &worse);
    let mut quick = curves["shards_sequential"].clone();
    quick["points"][0]["error"] = 0.02.into();
    quick["points"][1]["error"] = 0.02.into();
    write(folder, &quick);
    let mut unpruned = curves["global"].clone();
    unpruned["points"][1]["pruned"] = 90.into();
    write(folder, &unpruned);
    let failing = judged(folder, &[]);
    let of = |all: &BTreeMap<String, (Value, String)>, start: &str| {
        all.iter().find(|(claim, _)| claim.starts_with(start)).unwrap_or_else(|| panic!("no claim {start}")).1.clone()
    };
    for start in ["F7.3", "F8.3", "F6.5"] {
        assert_eq!(of(&failing, start).0, false, "{start}");
    }
    assert_eq!(of(&failing, "F7.1").0, true);

    // Kept before training digits were evaluated: that claim cannot be judged, others can. A likelihood of zero is kept
    // as null.
    for slug in ["synchronous_0.2", "flipped_fedavg"] {
        let mut older = curves[slug].clone();
        for point in older["points"].as_array_mut().unwrap() {
            point.as_object_mut().unwrap().remove("train_log_likelihood");
            if slug == "flipped_fedavg" {
                point["log_likelihood"] = Value::Null;
            }
        }
        write(folder, &older);
    }
    // Kept before the end of a run was recorded: a run with all its measurements is finished.
    let mut counted = curves["flipped_pvi"].clone();
    counted.as_object_mut().unwrap().remove("over");
    let all = runs["flipped_pvi"]["exchanges"][0].as_u64().unwrap();
    let measured = all.div_ceil(runs["flipped_pvi"]["every"].as_u64().unwrap());
    counted["points"] = (1..=measured)
        .map(|steps| {
            let mut point = counted["points"][0].clone();
            point["steps"] = steps.into();
            point
        })
        .collect();
    write(folder, &counted);
    // A run that was refused, and one that is not finished.
    let mut refused = curves["sequential"].clone();
    refused["refused"] = "silo `silo-3` has no density".into();
    write(folder, &refused);
    let mut open = curves["renyi_5"].clone();
    open["over"] = false.into();
    write(folder, &open);
    let other = judged(folder, &[]);
    assert_eq!(other.len(), 24, "{other:?}");
    for start in ["F6.1: PVI within", "F6.2", "F7.2, sequential", "F12", "F13"] {
        let (met, found) = of(&other, start);
        assert!(met == false && found.contains("sequential PVI was refused: silo `silo-3`"), "{start}: {found}");
    }
    assert_eq!(of(&other, "F7.4, synchronous").0, Value::Null);
    assert_eq!(of(&other, "F7.2, synchronous").0, true);
    assert_eq!(of(&other, "F5.4").0, Value::Null);
    assert_eq!(of(&other, "wrong labels").0, true);
}
