//! Runs the study of package manuals on two of its data sets, and checks its table and the page that it writes.

use crate::{QuickRun, quick_run};

#[test]
fn packages_compares_one_file_and_three_silos_with_estimates_of_r() {
    let QuickRun { text, rows, claims, page } = quick_run("packages");
    assert!(text.contains("partita fit 'dist ~ speed' --family 'gaussian(log)' --silo cars.csv"), "{text}");
    assert_eq!(rows.len(), 3);
    // The claim of equal digits is for the page to tell; the others hold.
    assert!(claims[..3].iter().all(|own| own["met"] == true), "{claims:?}");
    assert!(page.contains("| `partita fit 'Menarche \\| trials(Total) ~ Age'"), "{page}");
    assert_eq!(page.matches("\n| `(Intercept)` |").count(), 3, "{page}");
}
