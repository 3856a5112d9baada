//! Runs the MNIST study small and checks its table against known properties of every split.

use crate::quick;

#[test]
fn mnist_regression_writes_its_table_and_pictures() {
    if partita::datasets::mnist().is_err() {
        fixtures::skip("data", "MNIST is neither in PARTITA_DATA nor in the cache, and cannot be downloaded");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| quick("mnist_regression", folder.path(), more).1;
    let result = run(&[]);
    let table = result["table"].as_array().unwrap();
    assert_eq!(table.len(), 9);
    for row in table {
        for key in ["case", "silos", "rows_per_silo", "method", "rounds", "steps", "train", "test", "seconds"] {
            assert!(!row[key].is_null(), "a row lacks `{key}`: {row}");
        }
    }
    let test = |slug: &str| {
        let row = table.iter().find(|row| row["slug"] == slug).unwrap();
        row["test"]["mean"].as_f64().unwrap()
    };
    // Measured 85.7 and 73.3; a hundred steps more or less move them by a point.
    assert!(test("sfvi") > 82.0 && test("independent") < test("sfvi") - 5.0, "{table:?}");
    for picture in ["templates_quick.png", "uncertainty_quick.png", "calibration_quick.svg"] {
        assert!(folder.path().join(picture).exists(), "{picture}");
    }
    // Finished rows are not fitted again: their times are those of the first run.
    assert_eq!(run(&["--resume"])["rows"], result["rows"]);
}
