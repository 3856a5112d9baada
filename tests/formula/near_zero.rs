//! Holds the verdict on a standard deviation that may be zero to the same answer from seeds that once disagreed.

use std::path::Path;

use partita::Device;
use partita::formula::{SiloTable, Study};
use partita::inference::Verdict;
use partita_studies::deal_in_three;

#[test]
fn slopes_that_may_not_vary_are_trusted_from_seeds_whose_first_look_has_a_heavy_tail() {
    let scratch = tempfile::tempdir().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/family_data/orthodont.csv");
    let parts = deal_in_three(&path, "Subject", scratch.path()).unwrap();
    let silo = |(place, path)| SiloTable { name: format!("silo {place}"), path };
    let silos: Vec<SiloTable> = parts.into_iter().enumerate().map(silo).collect();
    let study = Study::new("distance ~ age * Sex + (1 + age | Subject)", "gaussian".parse().unwrap()).unwrap();
    let prepared = study.prepare(&silos, &Device::flex()).unwrap();
    let reports = [4, 7].map(|seed| super::fit_from(&prepared, seed).report);
    for report in &reports {
        assert_ne!(report.verdict, Verdict::DoNotTrust, "{report}");
    }
    let [one, other] = reports.each_ref().map(|report| report.answer());
    for (one, other) in one.into_iter().zip(other) {
        // Five errors of a difference of two, each of 0.02 standard deviations at most.
        let apart = fixtures::largest([(one.mean - other.mean) / one.sd, one.sd / other.sd - 1.0].map(f64::abs));
        assert!(apart < 5.0 * 0.02 * 2.0_f64.sqrt(), "{}: {apart}\n{}", one.label, reports[1]);
    }
}
