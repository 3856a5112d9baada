//! Holds the verdict to a posterior of which two parts in a hundred lie on a shelf far from the rest, and widen it threefold.

use std::path::Path;

use partita::Device;
use partita::formula::{SiloTable, Study};
use partita::inference::Verdict;
use serde_json::Value;

use super::numbers;

#[test]
fn zero_inflation_that_may_be_none_is_as_wide_as_it_is_or_not_to_be_trusted() {
    let golden: Value = serde_json::from_str(include_str!("../golden/zero_inflated.json")).unwrap();
    let (means, sds) = (numbers(&golden["means"]), numbers(&golden["sds"]));
    let names: Vec<&str> = golden["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let study = Study::new("art ~ fem + mar + kid5 + phd + ment", "zero_inflated_negbinomial".parse().unwrap());
    let study = study.unwrap().with_parameter("zi ~ log1p(ment)").unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/family_data/bioChemists.csv");
    let prepared = study.prepare(&[SiloTable { name: "all".into(), path }], &Device::flex()).unwrap();
    let (mut wrong, mut right) = (Vec::new(), 0);
    for seed in 1..=3 {
        let fit = super::fit_from(&prepared, seed);
        let is_near = |(name, (mean, sd)): (&&str, (&f64, &f64))| {
            let [own_mean, own_sd] = super::answer(&fit, name);
            ((own_mean - mean) / sd).abs() <= 0.2 && (own_sd / sd - 1.0).abs() <= 0.25
        };
        let is_wrong = !names.iter().zip(means.iter().zip(&sds)).all(is_near);
        println!("seed {seed}: {:?}, wrong {is_wrong}\n{}", fit.report.verdict, fit.report);
        right += usize::from(!is_wrong);
        if is_wrong && fit.report.verdict != Verdict::DoNotTrust {
            wrong.push(format!("seed {seed}: {}", fit.report));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The approximation has 0.41 in place of 1.13: looks that reach out find the rest.
    assert!(right >= 2, "{right} of 3");
}
