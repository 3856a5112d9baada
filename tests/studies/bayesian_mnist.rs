//! Runs the Bayesian network on some MNIST digits and checks its output.

use crate::quick;

#[test]
fn bayesian_mnist_writes_its_measures_and_pictures() {
    if !fixtures::is_staged(&["mnist_train_images"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (text, result) = quick("bayesian_mnist", folder.path(), &[]);
    assert!(text.contains("average over the posterior") && text.contains("calibration"), "{text}");
    for key in
        ["elbo", "elbo_se", "rounds", "messages", "bytes", "gradient_steps", "seconds", "seed", "device", "options"]
    {
        assert!(!result[key].is_null(), "result.json lacks `{key}`");
    }
    let test = |key: &str| result["test"][key].as_f64().unwrap();
    // Three hundred steps on 6,000 digits: far better than guessing, and calibrated within a fifth.
    assert!(test("accuracy") > 0.8, "accuracy {}", test("accuracy"));
    assert!((test("accuracy") + test("error") - 1.0).abs() < 1e-12);
    assert!(test("test_log_likelihood") > -1.0 && test("expected_calibration_error") < 0.2);
    assert!(std::fs::read_to_string(folder.path().join("reliability.svg")).unwrap().starts_with("<svg"));
    assert!(std::fs::read(folder.path().join("uncertain.png")).unwrap().starts_with(b"\x89PNG"));
}
