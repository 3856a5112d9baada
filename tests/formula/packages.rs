//! Compares fits of formulas with R's estimates on real data, and three silos with one.

use partita_studies::deal_in_three;
use serde_json::Value;

use super::{data, fitted, numbers};

fn golden() -> Vec<Value> {
    serde_json::from_str(include_str!("../golden/formula_fits.json")).unwrap()
}

#[test]
fn coefficients_are_those_of_r_within_half_a_standard_error() {
    let Some(folder) = data() else { return };
    for case in golden() {
        let [file, formula, family] = ["file", "formula", "family"].map(|key| case[key].as_str().unwrap());
        let (_, fit) = fitted(formula, family, &[folder.join(format!("{file}.csv"))]);
        let answer = fit.report.answer();
        let [estimates, errors] = ["estimates", "errors"].map(|key| numbers(&case["fixed"][key]));
        let names = case["fixed"]["names"].as_array().unwrap();
        for ((name, estimate), error) in names.iter().zip(&estimates).zip(&errors) {
            let name = name.as_str().unwrap();
            let own = answer.iter().find(|own| own.label == name);
            let own = own.unwrap_or_else(|| panic!("{formula}: no `{name}` in\n{}", fit.report));
            // A maximum and a posterior mean under weak priors: half a standard error where groups are few.
            let apart = (own.mean - estimate) / error;
            assert!(apart.abs() < 0.5, "{formula}: {name} is {} and R's {estimate}, sd {error}", own.mean);
            assert!((0.8..1.4).contains(&(own.sd / error)), "{formula}: sd of {name} is {} and R's {error}", own.sd);
        }
        for (name, sd) in case["sds"].as_object().into_iter().flatten() {
            let own = answer.iter().find(|own| own.label == *name).unwrap_or_else(|| panic!("{formula}: {name}"));
            let sd = sd.as_f64().unwrap();
            assert!((own.quantiles.p2_5..own.quantiles.p97_5).contains(&sd), "{formula}: {name} {own:?}, R's {sd}");
        }
    }
}

#[test]
fn three_silos_give_what_their_pooled_file_gives() {
    let Some(folder) = data() else { return };
    let cases = [
        ("epil", "subject", "y ~ lbase * trt + lage + V4 + (1 | subject)", "poisson"),
        ("radon", "county", "log.radon ~ basement * uranium + (1 + basement || county)", "gaussian"),
        ("radon", "county", "log.radon ~ poly(uranium, 2) + basement", "gaussian"),
        ("respiratory", "id", "outcome ~ factor(center) * treat + sex + age + baseline", "bernoulli"),
    ];
    for (file, column, formula, family) in cases {
        let scratch = tempfile::tempdir().unwrap();
        let whole = folder.join(format!("{file}.csv"));
        let parts = deal_in_three(&whole, column, scratch.path()).unwrap();
        let (pooled, split) = (fitted(formula, family, &[whole]), fitted(formula, family, &parts));
        // The priors are those of the same columns to the digits that are printed.
        assert_eq!(pooled.0.plan.priors, split.0.plan.priors, "{formula}");
        for (one, other) in pooled.1.report.sites.iter().zip(&split.1.report.sites) {
            assert_eq!(one.label, other.label);
            // Silos differ from their pooled rows in their start and in the points of their rules: a run ends where a
            // further step promises little. Each is to be within a tenth of a standard deviation of the posterior.
            let apart = fixtures::largest([(one.mean - other.mean) / one.sd, one.sd / other.sd - 1.0].map(f64::abs));
            assert!(apart < 0.1, "{formula}: {} is {one:?} and {other:?}", one.label);
        }
    }
}
