//! Claims that what is added to a linear predictor is a part of contrasts, and that usual priors lie where it leaves the rest.

use partita::formula::{Prepared, Study};
use partita::{Device, FitOptions, fit};

use super::{only, silo};

/// Two silos with these rows.
fn prepared(formula: &str, family: &str, header: &str, rows: [&str; 2]) -> Prepared {
    let folder = tempfile::tempdir().unwrap();
    let silos = [("north", rows[0]), ("south", rows[1])]
        .map(|(name, rows)| silo(folder.path(), name, &format!("{header}\n{rows}")));
    let study = Study::new(formula, family.parse().unwrap()).unwrap();
    study.prepare(&silos, &Device::flex()).unwrap_or_else(|error| panic!("{formula}: {error}"))
}

/// Mean and standard deviation of the prior of a number.
fn prior(prepared: &Prepared, name: &str) -> [f64; 2] {
    let line = prepared.plan.priors.iter().find(|own| own.name == name);
    let numbers = line.and_then(|own| own.prior.strip_prefix("normal(")?.split_once(')')?.0.split_once(", "));
    let (mean, sd) = numbers.unwrap_or_else(|| panic!("{name}: {:?}", prepared.plan.priors));
    [mean, sd].map(|own| own.parse().unwrap())
}

const HEADER: &str = "deaths,pop,rate,x,time,status,grade";
const ROWS: [&str; 2] = [
    "12,80000,2,0,3,1,1\n8,120000,3,1,1,1,2\n11,90000,2,2,4,0,3\n",
    "9,100000,4,1,2,1,2\n10,110000,3,3,2,1,1\n7,95000,5,2,6,1,3\n",
];

#[test]
fn a_contrast_of_a_column_has_its_offset_and_needs_what_the_offset_needs() {
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::flex());
    let all = silo(folder.path(), "all", &format!("{HEADER}\n{}{}", ROWS[0], ROWS[1]));
    let study = Study::new("deaths ~ log(pop) + x + offset(log(pop / rate))", "poisson".parse().unwrap()).unwrap();
    let prepared = study.prepare(&[all], &device).unwrap();
    let own = fit(&prepared.plan.model, &prepared.silos, &device, &FitOptions::default(), None).unwrap();
    let answer = own.answer_draws(&prepared.plan.model, &device).unwrap();
    let contrast = |text: &str| study.contrast(&text.parse().unwrap(), &answer, &prepared, &device).map(only);
    let of_x = contrast("x: 1 - 0").unwrap();
    assert!(of_x.difference.mean.abs() < 5.0, "{of_x}");
    let [slope, slope_sd] = super::answer(&own, "log(pop)");
    let found = contrast("pop: 2000 - 1000 at rate = 3").unwrap();
    let expected = (1.0 + slope) * 2.0_f64.ln();
    assert!((found.difference.mean - expected).abs() < 1e-9, "{found}: {expected}");
    assert!((found.difference.sd - slope_sd * 2.0_f64.ln()).abs() < 1e-9, "{found}");
    // As likely above 0 as the slope is above -1.
    let above = contrast("pop: 2.718281828459045 - 1 at rate = 3").unwrap();
    assert!((above.difference.mean - 1.0 - slope).abs() < 1e-9 && (above.above - found.above).abs() < 1e-9, "{above}");
    let said = contrast("pop: 2000 - 1000").unwrap_err().to_string();
    assert!(said.contains("Write `pop: 2000 - 1000 at rate = VALUE`"), "{said}");
}

#[test]
fn the_usual_prior_of_the_intercept_lies_where_the_offset_leaves_it() {
    let near = |found: f64, expected: f64, what: &str| {
        assert!((found - expected).abs() < 2e-3 * expected.abs().max(1.0), "{what}: {found}, expected {expected}");
    };
    let of = |formula: &str, family: &str| prepared(formula, family, HEADER, ROWS);
    let pops = [80_000.0_f64, 120_000.0, 90_000.0, 100_000.0, 110_000.0, 95_000.0];
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let logs = mean(&pops.map(f64::ln));
    let found = of("deaths ~ x + offset(log(pop))", "poisson");
    near(prior(&found, "(Intercept)")[0], 9.5_f64.ln() - logs, "counts");
    let without = of("deaths ~ x", "poisson");
    assert_eq!(prior(&found, "x").map(f64::to_bits), prior(&without, "x").map(f64::to_bits));
    near(prior(&of("x ~ rate + offset(pop)", "gaussian"), "(Intercept)")[0], 1.5 - mean(&pops), "a mean");
    near(prior(&of("time ~ x + offset(log(pop))", "lognormal"), "(Intercept)")[0], 3.0_f64.ln() - logs, "times");
    near(
        prior(&of("surv(time, status) ~ x + offset(log(pop))", "piecewise_exponential"), "log_hazard")[0],
        -(3.0_f64.ln()) - logs,
        "hazards",
    );
    near(prior(&of("status ~ x + offset(log(pop))", "bernoulli"), "(Intercept)")[0], -logs, "log odds");
    // Thresholds are what the predictor is held against.
    near(prior(&of("grade ~ x + offset(log(pop))", "cumulative"), "threshold")[0], logs, "thresholds");
}

#[test]
fn units_of_a_mean_are_those_of_what_the_offset_leaves() {
    // Of weights before and after, with `change` the difference.
    let rows = ["70.5,70,0,0.5\n81,80,1,1\n", "59.2,60,1,-0.8\n90.1,90,0,0.1\n"];
    let of = |formula: &str| prepared(formula, "gaussian", "after,before,x,change", rows);
    let (with, plain) = (of("after ~ x + offset(before)"), of("change ~ x"));
    let lines = |own: &Prepared| own.plan.priors.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(lines(&with), lines(&plain));
}
