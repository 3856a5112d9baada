//! Runs the logistic study of the vertical paper small and checks its output.

use crate::gaussian_mean::assert_drawn;
use crate::quick;

#[test]
fn vertical_logistic_makes_eight_fits_a_setting_and_judges_every_claim() {
    let folder = tempfile::tempdir().unwrap();
    let (_, result) = quick("vertical_logistic", folder.path(), &["--resume"]);
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
    assert_eq!(quick("vertical_logistic", folder.path(), &["--resume"]).1, result);
}
