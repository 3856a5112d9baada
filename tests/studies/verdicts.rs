//! Runs the study of verdicts on its quick list: no wrong answer is trusted, and few right ones are doubted.

use crate::study;

#[test]
fn verdicts_comforts_falsely_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    let run =
        study("verdicts").args(["--quick", "--output"]).arg(folder.path()).arg("--page").arg(&page).output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let json = std::fs::read_to_string(folder.path().join("result.json")).unwrap();
    let [rows, claims]: [serde_json::Value; 2] = serde_json::from_str(&json).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 39);
    let found: Vec<&str> = claims.as_array().unwrap().iter().map(|own| own["found"].as_str().unwrap()).collect();
    assert!(claims.as_array().unwrap().iter().all(|own| own["met"] == true), "{found:?}\n{text}");
    let said = |name: &str| rows.as_array().unwrap().iter().find(|own| own["name"] == name).unwrap()["said"].clone();
    // A claim that nothing is wrong among the trusted is empty where nothing is trusted, or where nothing is wrong.
    for name in ["few rounds", "known deviation", "rare events"] {
        assert_eq!(said(name)["Ok"], "Trust", "{name}");
    }
    assert_eq!(said("pooled data")["Ok"], "TrustWithLimits");
    for name in ["strong banana", "too few steps", "a rate too high", "a point"] {
        assert_eq!(said(name)["Ok"], "DoNotTrust", "{name}");
    }
    assert!(std::fs::read_to_string(page).unwrap().contains("| two modes | "), "{text}");
}
