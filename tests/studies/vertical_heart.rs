//! Runs the heart-failure study small and checks its columns against values known without a fit.

use partita::datasets::heart_failure;
use serde_json::Value;

use crate::quick;

#[test]
fn vertical_heart_writes_its_table_reach_and_pictures_and_resumes_to_the_same_bits() {
    if heart_failure().is_err() {
        fixtures::skip("data", "heart failure is neither in PARTITA_DATA nor in the cache, and cannot be downloaded");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| quick("vertical_heart", folder.path(), more);
    let (text, result) = run(&[]);
    let rows = result["rows"].as_array().unwrap();
    let methods: Vec<&str> = rows.iter().map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!(methods.len(), 5);
    for row in rows {
        let mean = |column: &str| row[column]["mean"].as_f64().unwrap();
        // 92 test rows in each of two folds; accuracy is what is not wrong.
        let wrong = row["wrong"].as_f64().unwrap();
        assert_eq!(row["rows"].as_u64(), Some(184));
        assert!((mean("accuracy") - 100.0 * (1.0 - wrong / 184.0)).abs() < 1e-9, "{row}");
        // Always saying yes is right for 508 of 918 patients, at 0.687 nats a row.
        assert!(mean("accuracy") > 75.0 && mean("log_likelihood") > -0.6, "{row}");
        // Wrong predictions have a probability below one half.
        assert!(mean("log_likelihood_of_wrong") < 0.5_f64.ln(), "{row}");
        // One exchange a step, one to estimate the bound; predictions of 200 draws ask four times, point estimates
        // once.
        let predictions = if row["method"].as_str().unwrap().starts_with("split") { 1 } else { 4 };
        assert_eq!(row["exchanges"].as_u64(), Some(2 * (300 + 1 + predictions)), "{row}");
    }
    // Noise of standard deviation 5 and 10 makes predictions less sure than noise of 1.
    let wrong = |place: usize| rows[place]["log_likelihood_of_wrong"]["mean"].as_f64().unwrap();
    assert!(wrong(2) < wrong(3) && wrong(3) < wrong(4));
    // One of the two candidates in each fold; noise of 5 and 10 takes the choice for noise of 1.
    let weights = |place: usize| rows[place]["weights"].as_array().unwrap().clone();
    assert!([1, 2].iter().all(|place| weights(*place).len() == 2), "{rows:?}");
    assert!(weights(0).is_empty() && weights(2) == weights(3) && weights(3) == weights(4));
    assert_eq!(result["reach"].as_array().unwrap().len(), 8);
    assert_eq!(text.matches("  paper ").count(), 4, "{text}");
    for picture in ["folds.svg", "bounds.svg", "reliability.svg"] {
        assert!(std::fs::read_to_string(folder.path().join(picture)).unwrap().starts_with("<svg"), "{picture}");
    }
    // A fit that exists is reused, a missing one is made again, to the same bits.
    std::fs::remove_file(folder.path().join("hierarchical_rho_1_2.json")).unwrap();
    let (_, again) = run(&["--resume"]);
    let numbers = |result: &Value| -> Vec<Value> {
        let columns = ["accuracy", "log_likelihood", "log_likelihood_of_wrong", "bytes"];
        result["rows"].as_array().unwrap().iter().flat_map(|row| columns.map(|column| row[column].clone())).collect()
    };
    assert_eq!(numbers(&again), numbers(&result));
}
