//! Runs the study of verdicts on its quick list: no wrong answer is trusted, and few right ones are doubted.

use crate::{QuickRun, quick_run};

#[test]
fn verdicts_comforts_falsely_nowhere() {
    let QuickRun { text, rows, claims, page } = quick_run("verdicts");
    assert_eq!(rows.len(), 39);
    let found: Vec<&str> = claims.iter().map(|own| own["found"].as_str().unwrap()).collect();
    assert!(claims.iter().all(|own| own["met"] == true), "{found:?}\n{text}");
    let said = |name: &str| rows.iter().find(|own| own["name"] == name).unwrap()["said"].clone();
    // A claim that nothing is wrong among the trusted is empty where nothing is trusted, or where nothing is wrong.
    for name in ["few rounds", "known deviation", "rare events"] {
        assert_eq!(said(name)["Ok"], "Trust", "{name}");
    }
    assert_eq!(said("pooled data")["Ok"], "TrustWithLimits");
    for name in ["strong banana", "too few steps", "a rate too high", "a point"] {
        assert_eq!(said(name)["Ok"], "DoNotTrust", "{name}");
    }
    assert!(page.contains("| two modes | "), "{text}");
}
