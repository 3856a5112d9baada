//! Runs the ruggedness regression of the framework thesis small and checks the signs of the published figure.

use crate::gaussian_mean::{assert_drawn, experiment};

#[test]
fn ruggedness_turns_the_slope_around_in_africa_and_draws_it() {
    if !fixtures::is_staged(&["rugged"]) {
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
