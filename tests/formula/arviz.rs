//! Holds files for ArviZ of fits by formula: what ArviZ itself makes of them is what the command says.

use fixtures::arviz::{opened, python};
use fixtures::visits::FORMULA;
use partita::models::six_cities_silos;
use serde_json::Value;

use super::command::folder;

#[test]
fn arviz_opens_a_fit_of_a_formula_with_the_rows_of_silos_that_are_named() {
    let Some(python) = python() else { return };
    let folder = folder();
    let fit = ["fit", FORMULA, "--family", "bernoulli", "--silo", "north.csv", "--silo", "south.csv", "--output"];
    for (output, rows) in [("all", &["--arviz-rows", "north", "--arviz-rows", "south"][..]), ("none", &[])] {
        fixtures::said(folder.path(), &[fit.as_slice(), &[output, "--arviz"], rows].concat());
    }
    let paths = ["all", "none"].map(|output| folder.path().join(output).join("draws.zarr"));
    let all = opened(&python, &paths);
    let [found, closed] = paths.each_ref().map(|path| &all[path.to_str().unwrap()]);
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {found:#}"));
    for group in ["/observed_data", "/posterior_predictive", "/log_likelihood", "/round_of_trust/log_likelihood"] {
        assert!(found["groups"].get(group).is_some() && closed["groups"].get(group).is_none(), "{group}: {found:#}");
    }
    // The posterior is that of posterior.csv: cut into four chains of equal length, which leaves three draws out at most.
    let csv = std::fs::read_to_string(folder.path().join("all/posterior.csv")).unwrap();
    let place = csv.lines().next().unwrap().split(',').position(|own| own == "smoke").unwrap();
    let draws: Vec<f64> =
        csv.lines().skip(1).map(|line| line.split(',').nth(place).unwrap().parse().unwrap()).collect();
    let kept = &draws[..draws.len() / 4 * 4];
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    assert!((number(&found["summary"]["smoke"][0]) - mean).abs() < 1e-9, "{found:#}");
    // The prior is the one that is printed. 2,000 draws: four standard errors of a mean and of a deviation.
    let printed = fixtures::said(folder.path(), &[fit.as_slice(), &["again"]].concat());
    let (_, rest) = printed.split_once("prior: smoke ~ normal(0, ").unwrap();
    let sd: f64 = rest.split(')').next().unwrap().parse().unwrap();
    let prior = &found["prior"]["smoke"];
    assert!(number(&prior[0]).abs() < 4.0 * sd / 2_000.0_f64.sqrt(), "{prior} {sd}");
    assert!((number(&prior[1]) / sd - 1.0).abs() < 4.0 / 4_000.0_f64.sqrt(), "{prior} {sd}");
    // Data are those of the silos, and what is predicted for new children is like them: within four deviations.
    let silos = six_cities_silos();
    let wheezes = silos.iter().flatten().flat_map(|child| child.wheeze).filter(|wheeze| *wheeze).count() as f64;
    let sum = |group: &str| found[group].as_object().unwrap().values().map(|own| own.as_f64()).sum::<Option<f64>>();
    assert_eq!(sum("observed"), Some(wheezes), "{found:#}");
    let predicted = found["predictive"].as_object().unwrap().values();
    let (mean, square) =
        predicted.fold((0.0, 0.0), |(mean, square), own| (mean + number(&own[0]), square + number(&own[1]).powi(2)));
    assert!((mean - wheezes).abs() < 4.0 * square.sqrt(), "{mean} {square} {wheezes}");
    // A child left out by ArviZ.
    let left_out = found["loo"].as_object().unwrap();
    assert!(!left_out.is_empty() && left_out.values().all(|own| number(&own[0]) < -100.0), "{found:#}");

    let more = ["all", "--arviz", "--arviz-rows", "west"];
    let text = fixtures::refused(folder.path(), &[fit.as_slice(), &more].concat());
    assert!(text.contains("no silo is called `west`, expected some of north, south"), "{text}");
}
