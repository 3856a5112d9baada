//! Runs the topics study small, on real documents, and checks its memory, its files and its checkpoints.

use std::path::Path;

use crate::gaussian_mean::assert_drawn;
use crate::quick;

/// The limit of the study's memory in megabytes, for any settings.
const MEMORY: f64 = 400.0;

fn staged() -> bool {
    let folder = std::env::var_os("PARTITA_DATA");
    let staged = folder.is_some_and(|folder| Path::new(&folder).join("newsgroups20/docs.txt.gz").is_file());
    if !staged {
        fixtures::skip("data", "PARTITA_DATA does not name a folder with newsgroups20/docs.txt.gz");
    }
    staged
}

#[test]
fn topics_writes_its_tables_and_pictures_within_its_memory() {
    if !staged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (text, result) = quick("topics", folder.path(), &[]);
    fixtures::says(
        &text,
        &["SFVI-Avg", "amortised", "silo 3 alone", "per token", "coherence", "rounds", "met", "Peak memory"],
    );
    let fits = result["fits"].as_array().unwrap();
    assert_eq!(fits.len(), 7);
    for fit in fits {
        let name = &fit["name"];
        assert!(fit["held_out_per_token"].as_f64().unwrap() < 0.0 && fit["elbo_per_token"].as_f64().unwrap() < 0.0);
        assert_eq!(fit["topics"].as_array().unwrap().len(), 21, "{name}");
        assert_eq!(fit["stages"].as_array().unwrap().len(), 2, "{name}");
        assert!(fit["coherence"].as_array().unwrap().iter().all(|c| c.as_f64().unwrap() <= 0.01), "{name}");
    }
    assert_eq!(fits.iter().filter(|fit| !fit["encoder_held_out_per_token"].is_null()).count(), 1);
    assert!(result["claims"].as_array().unwrap().len() >= 3);
    let peak = result["peak_megabytes"].as_f64().unwrap();
    assert!(peak <= MEMORY, "{peak} MB");
    assert_drawn(folder.path(), &["elbo.svg", "topics.svg"]);
}

#[test]
fn topics_resumed_after_its_first_stage_ends_with_the_same_numbers() {
    if !staged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ways = ["--ways", "sfvi,avg,amortised"];
    let (_, expected) = quick("topics", folder.path(), &ways);
    // As if the run had been interrupted after its first stage: the list of stages is shorter.
    for way in ["sfvi", "avg", "amortised"] {
        let file = folder.path().join("state").join(way).join("stages.json");
        let mut stages: Vec<serde_json::Value> =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        stages.truncate(1);
        std::fs::write(&file, serde_json::to_string(&stages).unwrap()).unwrap();
    }
    let (_, found) = quick("topics", folder.path(), &[ways.as_slice(), &["--resume"]].concat());
    for (found, expected) in found["fits"].as_array().unwrap().iter().zip(expected["fits"].as_array().unwrap()) {
        for key in ["elbo_per_token", "held_out_per_token", "mean_coherence", "alpha", "beta", "topics"] {
            assert_eq!(found[key], expected[key], "{key} of {}", found["name"]);
        }
        assert_eq!(found["stages"][1]["rounds"], expected["stages"][1]["rounds"]);
    }
}
