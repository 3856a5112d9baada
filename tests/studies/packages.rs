//! Runs the study of package manuals on two of its data sets, and checks its table and the page that it writes.

use crate::study;

#[test]
fn packages_compares_one_file_and_three_silos_with_estimates_of_r() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    let run =
        study("packages").args(["--quick", "--output"]).arg(folder.path()).arg("--page").arg(&page).output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(text.contains("partita fit 'dist ~ speed' --family 'gaussian(log)' --silo cars.csv"), "{text}");
    let json = std::fs::read_to_string(folder.path().join("result.json")).unwrap();
    let [rows, claims]: [serde_json::Value; 2] = serde_json::from_str(&json).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 3);
    // The claim of equal digits is for the page to tell; the others hold.
    assert!(claims.as_array().unwrap()[..3].iter().all(|own| own["met"] == true), "{claims}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("| `partita fit 'Menarche \\| trials(Total) ~ Age'"), "{page}");
    assert_eq!(page.matches("\n| `(Intercept)` |").count(), 3, "{page}");
}
