//! Runs the ruggedness regression of the framework thesis small and checks the signs of the published figure.

use std::path::Path;

use crate::gaussian_mean::{assert_drawn, experiment};

#[test]
fn ruggedness_turns_the_slope_around_in_africa_and_draws_it() {
    let staged = partita::datasets::dataset("rugged").unwrap().staged;
    if !std::env::var_os("PARTITA_DATA").is_some_and(|folder| Path::new(&folder).join(staged).is_file()) {
        fixtures::skip("data", "PARTITA_DATA does not name a folder with the file of rugged");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, result) = experiment("ruggedness", folder.path(), &[]);
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8);
    // With closed-form local solutions twenty rounds suffice; so few steps of Adam need more.
    for run in runs.iter().filter(|run| run["solver"] == "conjugate") {
        let mean = |index: usize| run["mean"][index].as_f64().unwrap();
        assert!(mean(1) < 0.0 && mean(2) < 0.0 && mean(2) + mean(3) > 0.0, "{run}");
    }
    assert_drawn(folder.path(), &["losses.svg", "lines.svg"]);
}
