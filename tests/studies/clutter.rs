//! Runs the clutter study small and checks results that need no converged fit: references, influence, contamination.

use crate::gaussian_mean::assert_drawn;
use crate::quick;

#[test]
fn clutter_keeps_the_mean_by_robust_losses_and_loses_it_by_the_log_likelihood() {
    let folder = tempfile::tempdir().unwrap();
    let (text, result) = quick("clutter", folder.path(), &[]);
    for words in ["expectation propagation", "PVI, 40 silos", "Fisher-Rao", "β loss of index 1.5", "Rényi 0.75", "20 %"]
    {
        assert!(text.contains(words), "the output lacks `{words}`:\n{text}");
    }
    for key in ["agreement", "influence", "half_clutter", "contamination", "claims"] {
        assert!(result[key].is_array(), "result.json lacks `{key}`");
    }
    // Every fit takes six rounds; forty silos of one number are updated one after another, and few silos take as many
    // steps as many silos do.
    for (name, silos) in [("variational, 1 silo", 1), ("PVI, 40 silos", 40)] {
        let rows = result["agreement"].as_array().unwrap().iter().filter(|row| row["method"] == name);
        for cost in rows.map(|row| &row["cost"]) {
            let expected = serde_json::json!({ "rounds": 6 * silos, "messages": 12 * silos, "gradient_steps": 960 });
            assert_eq!(*cost, expected, "{name}");
        }
    }
    assert!(result["agreement"][0]["cost"].is_null() && text.contains("gradient steps"), "{text}");
    for part in ["influence", "contamination"] {
        for row in result[part].as_array().unwrap() {
            assert!(row["cost"]["messages"].as_u64().unwrap() > 0, "{row}");
        }
    }
    // Six rounds of four steps are too few for silos of one number; results with more numbers, or without a fit, are
    // checked.
    let settled = ["propagation", "quadrature", "1 silo", "influence", "wrong:"];
    let mut judged = 0;
    for claim in result["claims"].as_array().unwrap() {
        let words = claim["claim"].as_str().unwrap();
        if settled.iter().any(|kind| words.contains(kind)) {
            assert_eq!(claim["met"], true, "{words}");
            judged += 1;
        }
    }
    assert!(judged >= 18, "{judged} claims:\n{text}");
    assert_drawn(folder.path(), &["posteriors.svg", "influence.svg"]);
}
