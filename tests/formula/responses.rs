//! Holds rows of every family to R's own functions, gradients to differences, and printed priors to those of the model.

use partita::core::{
    Array, Distribution, HalfStudentT, Latents, LogDensity, Part, SiteTable, StudentT, Support, for_support,
    pointwise_log_likelihood,
};
use partita::formula::{Prepared, Study};
use partita::models::regression::Regression;
use partita::{Beta, Device, Gamma, LogNormal, Normal};
use serde_json::{Map, Value};

use super::numbers;

fn golden() -> Vec<Value> {
    serde_json::from_str(include_str!("../golden/responses.json")).unwrap()
}

/// The columns of a case as a file.
fn file(columns: &Map<String, Value>) -> String {
    let header = columns.keys().cloned().collect::<Vec<_>>().join(",");
    let values: Vec<Vec<f64>> = columns.values().map(numbers).collect();
    let row = |at: usize| values.iter().map(|column| column[at].to_string()).collect::<Vec<_>>().join(",");
    let rows = (0..values[0].len()).map(row);
    [header].into_iter().chain(rows).collect::<Vec<_>>().join("\n") + "\n"
}

/// A case with what it is called.
struct Case {
    name: String,
    prepared: Prepared,
    parameters: Map<String, Value>,
    log_density: Vec<f64>,
}

fn cases() -> Vec<Case> {
    let folder = tempfile::tempdir().unwrap();
    let of = |case: &Value| {
        let [family, formula] = ["family", "formula"].map(|key| case[key].as_str().unwrap());
        let mut study = Study::new(formula, family.parse().unwrap()).unwrap();
        for formula in case["parameter_formulas"].as_array().unwrap() {
            study = study.with_parameter(formula.as_str().unwrap()).unwrap();
        }
        let silo = super::silo(folder.path(), "north", &file(case["columns"].as_object().unwrap()));
        let name = format!("{formula}, {family}, {}", case["parameter_formulas"]);
        let prepared = study.prepare(&[silo], &Device::flex()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let parameters = case["parameters"].as_object().unwrap().clone();
        Case { name, prepared, parameters, log_density: numbers(&case["log_density"]) }
    };
    golden().iter().map(of).collect()
}

/// The globals with these natural values, on the unconstrained scale.
fn globals(table: &SiteTable, parameters: &Map<String, Value>) -> Vec<f64> {
    let mut all = vec![f64::NAN; table.global_len()];
    for site in table.latents(Part::Global) {
        let value = &parameters[&site.name];
        let natural = value.as_f64().map_or_else(|| numbers(value), |number| vec![number]);
        let slots = &mut all[site.offset()..site.offset() + site.width()];
        for_support(site.support.as_ref().unwrap()).unwrap().inverse(&natural, slots).unwrap();
    }
    all
}

fn table(prepared: &Prepared) -> SiteTable {
    SiteTable::of(&prepared.plan.model, &Device::flex(), &prepared.silos[0].1).unwrap()
}

#[test]
fn log_densities_of_rows_are_those_of_r() {
    let device = Device::flex();
    let mut worst = 0.0_f64;
    let cases = cases();
    assert_eq!(cases.len(), 60);
    for Case { name, prepared, parameters, log_density } in cases {
        let (table, rows) = (table(&prepared), &prepared.silos[0].1);
        let globals = globals(&table, &parameters);
        assert_eq!(parameters.len(), table.latents(Part::Global).count(), "{name}");
        let latents = Latents { globals: &globals, locals: &[Vec::new()] };
        let found = pointwise_log_likelihood(&prepared.plan.model, &device, &table, rows, latents).unwrap();
        for (row, (own, expected)) in found[0].1.values.iter().zip(&log_density).enumerate() {
            let apart = (own - expected).abs() / (1.0 + expected.abs());
            assert!(apart < 1e-12, "{name}, row {row}: {own}, R has {expected}");
            worst = worst.max(apart);
        }
        assert_eq!(found[0].1.values.len(), log_density.len());
        // What a fit reads is the sum.
        let sum = LogDensity::new(&prepared.plan.model, &device, &table).local(latents, rows).unwrap().value;
        let expected: f64 = log_density.iter().sum();
        assert!((sum - expected).abs() < 1e-11 * (1.0 + expected.abs()), "{name}: {sum}, R has {expected}");
    }
    println!("largest distance from R {worst:.1e}");
}

/// Whether a mean of zero or below is one that the family cannot have: the laws' points are around zero.
fn is_undefined_around_zero(name: &str) -> bool {
    let bounded = ["poisson(identity)", "negbinomial(identity)", "gamma(identity)"];
    let bounded = bounded.iter().any(|family| name.contains(family));
    bounded || ["(inverse)", "(sqrt)"].iter().any(|link| name.contains(link))
}

#[test]
fn every_family_keeps_the_laws_of_models() {
    for Case { name, prepared, .. } in cases().into_iter().filter(|case| !is_undefined_around_zero(&case.name)) {
        partita_laws::model(&prepared.plan.model, &Device::flex(), &prepared.silos[0].1)
            .unwrap_or_else(|violation| panic!("{name}: {violation}"));
    }
}

#[test]
fn gradients_at_the_points_of_r_are_differences() {
    for Case { name, prepared, parameters, .. } in cases() {
        let (table, rows) = (table(&prepared), &prepared.silos[0].1);
        let point = globals(&table, &parameters);
        let device = Device::flex();
        let density = LogDensity::new(&prepared.plan.model, &device, &table);
        let at = |globals: &[f64]| density.local(Latents { globals, locals: &[Vec::new()] }, rows).unwrap();
        for (index, found) in at(&point).globals.iter().enumerate() {
            let expected = partita_laws::derivative(|globals| at(globals).value, &point, index);
            let apart = (found - expected).abs() / (1.0 + expected.abs());
            assert!(apart < 1e-7, "{name}: {found} by entry {index}, differences give {expected}");
        }
    }
}

/// The distribution that a printed prior names.
fn printed(prior: &str) -> Distribution<1> {
    let (name, rest) = prior.split_once('(').unwrap();
    let inside = rest.split_once(')').unwrap().0;
    let numbers: Vec<f64> = inside.split(',').map(|own| own.trim().parse().unwrap()).collect();
    match (name, numbers.as_slice()) {
        ("normal", [mean, sd]) => Normal::new(*mean, *sd),
        ("student_t", [degrees, location, scale]) => StudentT::new(*degrees, *location, *scale),
        ("half_student_t", [degrees, _, scale]) => HalfStudentT::new(*degrees, *scale),
        ("gamma", [concentration, rate]) => Gamma::new(*concentration, *rate),
        ("lognormal", [location, scale]) => LogNormal::new(*location, *scale),
        ("beta", [one, zero]) => Beta::new(*one, *zero),
        other => panic!("no prior {other:?}"),
    }
}

/// The log density of the globals by the priors that are printed, on the natural scale.
fn by_printed_priors(prepared: &Prepared, parameters: &Map<String, Value>) -> f64 {
    let of = |line: &partita::formula::PriorLine| {
        let value = &parameters[&line.name];
        let natural = value.as_f64().map_or_else(|| numbers(value), |number| vec![number]);
        let count = natural.len();
        let each = printed(&line.prior).iid([count]);
        each.log_prob_of(&Array::new(natural, vec![count]).unwrap()).unwrap()
    };
    prepared.plan.priors.iter().map(of).sum()
}

/// The log density of the globals by the model, less the determinants of the maps to the unconstrained scale.
fn by_model(model: &Regression, table: &SiteTable, globals: &[f64]) -> f64 {
    let found = LogDensity::new(model, &Device::flex(), table).global(globals).unwrap().value;
    let determinants = table.latents(Part::Global).map(|site| {
        let slots = &globals[site.offset()..site.offset() + site.width()];
        let event = if site.support == Some(Support::Ordered) { slots.len() } else { 1 };
        let map = for_support(site.support.as_ref().unwrap()).unwrap();
        slots.chunks(event).map(|own| map.forward(own, &mut vec![0.0; own.len()])).sum::<f64>()
    });
    found - determinants.sum::<f64>()
}

#[test]
fn priors_are_printed_as_the_model_has_them() {
    for Case { name, prepared, parameters, .. } in cases() {
        let table = table(&prepared);
        let globals = globals(&table, &parameters);
        let (found, expected) =
            (by_model(&prepared.plan.model, &table, &globals), by_printed_priors(&prepared, &parameters));
        let printed: Vec<String> = prepared.plan.priors.iter().map(ToString::to_string).collect();
        assert!(
            (found - expected).abs() < 1e-10 * (1.0 + expected.abs()),
            "{name}: {found}, {expected} by {printed:?}"
        );
        assert_eq!(printed.len(), table.latents(Part::Global).count(), "{name}: {printed:?}");
    }
}
