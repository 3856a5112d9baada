//! Runs the clutter example small and holds what needs no converged fit: references, influence, contamination.

use std::process::Command;

use crate::fixtures::example;

#[test]
fn clutter_keeps_the_mean_by_robust_losses_and_loses_it_by_the_log_likelihood() {
    let folder = tempfile::tempdir().unwrap();
    let run = Command::new(example("clutter")).args(["--quick", "--output"]).arg(folder.path()).output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    for words in ["expectation propagation", "PVI, 40 silos", "Fisher-Rao", "β loss of index 1.5", "Rényi 0.75", "20 %"]
    {
        assert!(text.contains(words), "the output lacks `{words}`:\n{text}");
    }
    let json = std::fs::read_to_string(folder.path().join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    for key in ["agreement", "influence", "half_clutter", "contamination", "claims"] {
        assert!(result[key].is_array(), "result.json lacks `{key}`");
    }
    // Six rounds of four steps are too few for silos of one number; what has more numbers, or needs no fit, is there.
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
    for plot in ["posteriors.svg", "influence.svg"] {
        let svg = std::fs::read_to_string(folder.path().join(plot)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{plot}");
    }
}
