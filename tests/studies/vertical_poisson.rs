//! Runs the Poisson study of the vertical paper small and checks its output.

use crate::gaussian_mean::assert_drawn;
use crate::quick;

#[test]
fn vertical_poisson_fits_both_models_by_both_algorithms_and_judges_every_claim() {
    let folder = tempfile::tempdir().unwrap();
    let (_, result) = quick("vertical_poisson", folder.path(), &[]);
    let found = result["found"].as_array().unwrap();
    assert_eq!(found.len(), 4);
    for fit in found {
        // Four means, and for each five coefficients.
        let moments = fit["moments"].as_array().unwrap();
        assert_eq!(moments.len(), 4 + 20, "{fit}");
        assert!(moments.iter().all(|pair| pair[1].as_f64().is_some_and(|sd| sd > 0.0)), "{fit}");
        assert_eq!(fit["elbo"].is_null(), fit["quality"].is_array(), "{fit}");
    }
    let claims: Vec<&str> =
        result["claims"].as_array().unwrap().iter().map(|claim| claim["claim"].as_str().unwrap()).collect();
    assert_eq!(claims, ["P1", "P2", "P1", "P2", "P1", "P3", "P1", "P4"]);
    assert!(result["beta"].as_array().unwrap().len() == 20 && result["mu"].as_array().unwrap().len() == 4);
    assert_drawn(folder.path(), &["marginals.svg"]);
}
