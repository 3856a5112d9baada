//! Holds every log density and every derivative of it against sixty-digit numbers, far into the tails.

use fixtures::numbers;
use partita_core::{Density, Gradient};
use serde_json::Value;

use super::reference::densities;

// Relative; measured at most 1.2e-13, where the terms of the formula are hundreds of times larger than their sum.
const LOG_PROB: f64 = 1e-12;
// Where the log density is exactly zero, such as for a uniform distribution of width one: five units in the last place.
const ABSOLUTE: f64 = 1e-15;
// Relative to 1 + |expected|, as derivatives vanish at a mode; measured at most 1e-14.
const DERIVATIVE: f64 = 1e-10;

struct Point {
    value: Vec<f64>,
    parameters: Vec<Vec<f64>>,
    log_prob: f64,
    by_value: Vec<f64>,
    by_parameters: Vec<Vec<f64>>,
}

/// The log density at a point, and its derivatives by the value and by each parameter.
struct Found {
    log_prob: f64,
    by_value: Vec<f64>,
    by_parameters: [Vec<f64>; 3],
}

pub(super) fn vectors(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

/// The densities of both golden files.
fn golden() -> serde_json::Map<String, Value> {
    let read = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    let files = [include_str!("../golden/densities.json"), include_str!("../golden/further_densities.json")];
    files.into_iter().flat_map(|text| read(text)["densities"].as_object().unwrap().clone()).collect()
}

/// The densities that have golden points.
fn held() -> impl Iterator<Item = &'static dyn Density> {
    let golden = golden();
    densities().filter(move |density| golden.contains_key(density.name()))
}

fn points(density: &dyn Density) -> Vec<Point> {
    let read = |point: &Value| Point {
        value: numbers(&point["value"]),
        parameters: vectors(&point["parameters"]),
        log_prob: point["log_prob"].as_f64().unwrap(),
        by_value: numbers(&point["by_value"]),
        by_parameters: vectors(&point["by_parameters"]),
    };
    golden()[density.name()]["points"].as_array().unwrap().iter().map(read).collect()
}

fn evaluate(density: &dyn Density, point: &Point) -> Found {
    let empty = Vec::new();
    let parameters: [&[f64]; 3] = std::array::from_fn(|k| point.parameters.get(k).unwrap_or(&empty).as_slice());
    let mut by_value = vec![0.0; point.value.len()];
    let mut by_parameters = parameters.map(|parameter| vec![0.0; parameter.len()]);
    let mut gradient = Gradient {
        scale: 1.0,
        value: &mut by_value,
        parameters: by_parameters.each_mut().map(|slots| slots.as_mut_slice()),
    };
    let log_prob = density.log_prob(&point.value, parameters, &mut gradient);
    Found { log_prob, by_value, by_parameters }
}

fn distance(found: f64, expected: f64) -> f64 {
    (found - expected).abs() / (1.0 + expected.abs())
}

#[test]
fn every_density_but_two_is_held_against_at_least_fifteen_points() {
    let golden = golden();
    let names = densities().map(|density| density.name());
    let without: Vec<&str> = names.filter(|name| !golden.contains_key(*name)).collect();
    assert_eq!(without, ["Flat", "SymmetricDirichlet"]);
    assert_eq!(golden.len(), held().count());
    for density in held() {
        assert!(points(density).len() >= 15, "{}", density.name());
    }
}

#[test]
fn log_densities_agree_with_sixty_digits() {
    for density in held() {
        for point in points(density) {
            let found = evaluate(density, &point).log_prob;
            let Point { value, parameters, log_prob, .. } = &point;
            assert!(
                (found - log_prob).abs() <= LOG_PROB * log_prob.abs() + ABSOLUTE,
                "{} at {value:?} with {parameters:?}: log density {found}, golden {log_prob}",
                density.name()
            );
        }
    }
}

#[test]
fn derivatives_agree_with_sixty_digits() {
    for density in held() {
        for point in points(density) {
            let found = evaluate(density, &point);
            let expected = std::iter::once(&point.by_value).chain(&point.by_parameters);
            for (argument, (found, expected)) in
                std::iter::once(&found.by_value).chain(&found.by_parameters).zip(expected).enumerate()
            {
                let worst = fixtures::largest(found.iter().zip(expected).map(|(f, e)| distance(*f, *e)));
                assert!(
                    worst <= DERIVATIVE,
                    "{} at {:?} with {:?}, argument {argument}: derivative {found:?}, golden {expected:?}",
                    density.name(),
                    point.value,
                    point.parameters
                );
            }
        }
    }
}
