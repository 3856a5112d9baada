//! Runs the logistic study of the vertical paper small and checks its output.

use serde_json::Value;

use crate::gaussian_mean::assert_drawn;
use crate::study;

#[test]
fn vertical_logistic_makes_eight_fits_a_setting_and_judges_every_claim() {
    let folder = tempfile::tempdir().unwrap();
    let run = || study("vertical_logistic").args(["--quick", "--resume", "--output"]).arg(folder.path()).output();
    let first = run().unwrap();
    let text = String::from_utf8(first.stdout).unwrap();
    assert!(first.status.success(), "{text}\n{}", String::from_utf8_lossy(&first.stderr));
    let read = || -> Value {
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("result.json")).unwrap()).unwrap()
    };
    let result = read();
    // The true model twice, and two models by three algorithms for two and for ten parties.
    let found = result["found"].as_array().unwrap();
    assert_eq!(found.len(), 2 + 2 * 6);
    for fit in found {
        let sampled = fit["algorithm"] == "Sampler";
        assert_eq!(fit["elbo"].is_null(), sampled, "{fit}");
        let moments = fit["moments"].as_array().unwrap();
        assert_eq!(moments.len(), 21, "{fit}");
        assert!(moments.iter().all(|pair| pair[1].as_f64().is_some_and(|sd| sd > 0.0)), "{fit}");
        assert_eq!(fit["draws"].as_array().unwrap().len(), if sampled { 4 * 60 } else { 0 });
    }
    let claims = result["claims"].as_array().unwrap();
    let count = |name: &str| claims.iter().filter(|claim| claim["claim"] == name).count();
    // V1 by family, V3 and V5 by model for each number of parties; V2 by family; no rho above 1 here.
    assert_eq!(["V1", "V2", "V3", "V4", "V5", "V6"].map(count), [4, 2, 4, 0, 4, 0]);
    for parties in [2, 10] {
        let names = [
            format!("elbo_{parties}_augmented.svg"),
            format!("elbo_{parties}_power_likelihood.svg"),
            format!("marginals_{parties}.svg"),
        ];
        assert_drawn(folder.path(), &names.each_ref().map(String::as_str));
    }
    // A second run reuses every fit of the first.
    assert!(run().unwrap().status.success());
    assert_eq!(read(), result);
}
