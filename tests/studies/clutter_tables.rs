//! Runs the tables of the planar clutter problem small: partitioned inference is pooled inference under any schedule.

use crate::{quick, study};

/// The tables of one run with the divergence of this table's kind.
fn result(table: &str) -> (String, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    quick("clutter_tables", folder.path(), &["--table", table])
}

#[test]
fn in_the_plane_partitioned_inference_is_pooled_inference_for_every_number_of_silos_and_schedule() {
    for (table, rows) in [("3.1", 2), ("3.2", 2)] {
        let (text, result) = result(table);
        let claims = result["claims"].as_array().unwrap();
        assert_eq!(claims.len(), 2 * rows + 1, "{text}");
        for claim in claims {
            assert_eq!(claim["met"], true, "{}", claim["claim"]);
        }
        assert!(text.contains("rounds, messages, gradient steps"), "{text}");
        let found = result["tables"][0]["rows"].as_array().unwrap();
        assert_eq!(found.len(), rows);
        for (row, run) in found.iter().map(|row| (row, &row["runs"][0])) {
            let count = |key: &str| run[key].as_u64().unwrap();
            // A request and an answer a local update, and eight steps; ten silos at once are all updated in a round.
            let together = if row["name"] == "synchronous" { 10 } else { 1 };
            assert_eq!(
                (count("messages"), count("visits")),
                (2 * count("visits"), together * count("rounds")),
                "{run}"
            );
            assert_eq!(count("gradient_steps"), 8 * count("visits"), "{run}");
        }
    }
}

#[test]
fn with_another_divergence_it_is_not_and_runs_that_fail_say_why() {
    let (text, result) = result("4.1");
    assert!(text.contains("runs failed"), "{text}");
    for row in result["tables"][0]["rows"].as_array().unwrap() {
        for run in row["runs"].as_array().unwrap() {
            let far = run["from_pooled"][2].as_f64().is_some_and(|difference| difference > 0.01);
            let problem = run["problem"].as_str().is_some_and(|problem| problem.contains("density"));
            assert!(far || problem, "{run}");
        }
    }
}

#[test]
fn a_table_that_there_is_not_is_refused_with_those_there_are() {
    let run = study("clutter_tables").args(["--table", "9.9"]).output().unwrap();
    let text = String::from_utf8(run.stderr).unwrap();
    assert!(!run.status.success() && text.contains("9.9") && text.contains("3.1, 3.2, 4.1 or 4.2"), "{text}");
}
