//! Compares fits of every family with packages of R, from one file and from three silos, and asks for their verdicts.

use std::path::{Path, PathBuf};

use partita::Fit;
use partita::formula::Prepared;
use serde_json::Value;

use partita_studies::deal_in_three;

use super::{fitted_with, numbers};

/// The analyses, with the estimates of packages of R.
fn golden() -> Vec<Value> {
    serde_json::from_str(include_str!("../golden/family_fits.json")).unwrap()
}

struct Analysis {
    name: String,
    estimates: Vec<(String, f64, f64)>,
    path: PathBuf,
    case: Value,
}

impl Analysis {
    fn of(case: Value) -> Self {
        let [file, formula, family] = ["file", "formula", "family"].map(|key| case[key].as_str().unwrap());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/family_data/{file}.csv"));
        let names = case["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
        let numbers = numbers(&case["estimates"]).into_iter().zip(numbers(&case["errors"]));
        let estimates = names.zip(numbers).map(|(name, (estimate, error))| (name, estimate, error)).collect();
        Self { name: format!("{formula}, {family}, {}", case["parameters"]), estimates, path, case }
    }

    fn fit(&self, files: &[PathBuf]) -> (Prepared, Fit) {
        let [formula, family] = ["formula", "family"].map(|key| self.case[key].as_str().unwrap());
        let parameters = self.case["parameters"].as_array().unwrap();
        let parameters: Vec<&str> = parameters.iter().map(|own| own.as_str().unwrap()).collect();
        fitted_with(formula, family, &parameters, files)
    }
}

/// What is wrong about a fit beside R's estimates.
fn wrong(analysis: &Analysis, fit: &Fit) -> Vec<String> {
    let mut all = Vec::new();
    let text = fit.report.to_string();
    if !text.contains("verdict: trust these numbers") {
        all.push(format!("{}: no trust in\n{text}", analysis.name));
    }
    // Where the widest draws of the round of trust have no density left, the bound has no weight on them.
    if !fit.report.elbo.is_finite() || !fit.report.elbo_se.is_finite() {
        all.push(format!("{}: no bound in\n{text}", analysis.name));
    }
    for (name, estimate, error) in &analysis.estimates {
        let answer = fit.report.answer();
        let Some(own) = answer.iter().find(|own| own.label == *name) else {
            all.push(format!("{}: no `{name}` in\n{text}", analysis.name));
            continue;
        };
        // A maximum and a posterior mean under weak priors.
        let (apart, spread) = ((own.mean - estimate) / error, own.sd / error);
        let is_near = apart.abs() <= 0.5 && (0.8..1.4).contains(&spread);
        if !is_near {
            let (mean, sd) = (own.mean, own.sd);
            all.push(format!("{}: {name} is {mean} ± {sd}, R has {estimate} ± {error}", analysis.name));
        }
    }
    all
}

#[test]
fn estimates_are_those_of_packages_of_r_within_half_a_standard_error_and_trusted() {
    let mut all = Vec::new();
    for analysis in golden().into_iter().map(Analysis::of) {
        let began = std::time::Instant::now();
        let (_, fit) = analysis.fit(std::slice::from_ref(&analysis.path));
        println!("{}: {:.1} s", analysis.name, began.elapsed().as_secs_f64());
        all.extend(wrong(&analysis, &fit));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn rows_of_a_weight_are_as_so_many_rows() {
    // Of groups, so that the rows' effects are integrated out: a weight is inside of that integral.
    let folder = tempfile::tempdir().unwrap();
    let row = |at: usize| format!("{},{},g{},{}\n", (at * at + at / 3) % 5, at % 4, at % 6, 1 + at % 3);
    let weighted: String = (0..36).map(row).collect();
    let repeated: String = (0..36).map(|at| row(at).repeat(1 + at % 3)).collect();
    let sites = |name: &str, rows: &str, formula: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("y,x,g,w\n{rows}")).unwrap();
        fitted_with(formula, "poisson", &[], &[path]).1.report.sites
    };
    let one = sites("weighted.csv", &weighted, "y | weights(w) ~ x + (1 | g)");
    // Priors follow from the columns, of which repeated rows have other means: they are weak beside the rows. A run ends
    // where 0.001 nats are left to gain, which is 0.03 standard deviations, or 3 % of one.
    let two = sites("repeated.csv", &repeated, "y ~ x + (1 | g)");
    for (one, two) in one.iter().zip(&two) {
        let apart = fixtures::largest([(one.mean - two.mean) / two.sd, one.sd / two.sd - 1.0].map(f64::abs));
        assert!(apart < 0.03, "{one:?} {two:?}");
    }
}

#[test]
fn three_silos_give_the_estimates_too() {
    let mut all = Vec::new();
    for analysis in golden().into_iter().map(Analysis::of) {
        let scratch = tempfile::tempdir().unwrap();
        let column = analysis.case["deal"].as_str().unwrap();
        let (_, fit) = analysis.fit(&deal_in_three(&analysis.path, column, scratch.path()).unwrap());
        all.extend(wrong(&analysis, &fit));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
