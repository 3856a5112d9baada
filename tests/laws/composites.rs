//! Holds truncated, censored, inflated and mixed distributions to differences, integrals, draws, formulas and goldens.

mod draws;
mod formulas;
mod refusals;

use burn::tensor::Tensor;
use partita_core::{Censoring, Chance, Device, Exponential, Gamma, Handle, Mixture, Normal, Poisson, Result, Uniform};
use serde_json::Value;

/// The log density of a value at parameters, each a tensor.
type LogProb = fn(Tensor<1>, &[Tensor<1>]) -> Result<Tensor<1>>;

/// A point at which a composite is differentiated.
struct Case {
    name: &'static str,
    log_prob: LogProb,
    value: Vec<f64>,
    parameters: Vec<Vec<f64>>,
}

/// The log density, and its derivatives by the value and then by each parameter.
fn evaluate(log_prob: LogProb, arguments: &[Vec<f64>]) -> (f64, Vec<Vec<f64>>) {
    let device = Device::flex();
    let leaves: Vec<Tensor<1>> = arguments.iter().map(|own| device.leaf(own.clone(), [own.len()])).collect();
    let sum = log_prob(leaves[0].clone(), &leaves[1..]).unwrap();
    let found = Handle::from(sum.clone()).read().unwrap().values[0];
    let gradients = sum.backward();
    let slopes = |leaf: &Tensor<1>| match leaf.grad(&gradients) {
        Some(gradient) => Handle::from(gradient).read().unwrap().values,
        None => vec![0.0; leaf.dims()[0]],
    };
    (found, leaves.iter().map(slopes).collect())
}

fn truncated_normal(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    Normal::new(p[0].clone(), p[1].clone()).truncated(p[2].clone(), p[3].clone()).log_prob(x)
}

fn right_censored_exponential(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    Exponential::new(p[0].clone()).censored(Censoring::right(0.0)).log_prob(x)
}

fn left_censored_normal(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    Normal::new(p[0].clone(), p[1].clone()).censored(Censoring::left(0.0)).log_prob(x)
}

fn interval_censored_normal(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    Normal::new(p[0].clone(), p[1].clone()).censored(Censoring::interval(p[2].clone())).log_prob(x)
}

fn zero_inflated_poisson(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    Poisson::log_rate(p[0].clone()).zero_inflated(Chance::logits(p[1].clone())).log_prob(x)
}

fn zero_inflated_by_probability(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    Poisson::log_rate(p[0].clone()).zero_inflated(Chance::probability(p[1].clone())).log_prob(x)
}

fn hurdle_poisson(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    Poisson::log_rate(p[0].clone()).hurdle(Chance::probability(p[1].clone())).log_prob(x)
}

fn hurdle_exponential(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    Exponential::new(p[0].clone()).hurdle(Chance::logits(p[1].clone())).log_prob(x)
}

fn mixture_of_normals(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    let logits = Tensor::cat(vec![p[4].clone(), p[5].clone()], 0);
    let components = vec![Normal::new(p[0].clone(), p[1].clone()), Normal::new(p[2].clone(), p[3].clone())];
    Mixture::logits(logits, components).log_prob(x)
}

fn zero_inflated_truncated_poisson(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    let above = Poisson::log_rate(p[0].clone()).truncated(1.0, f64::INFINITY);
    above.zero_inflated(Chance::logits(p[1].clone())).log_prob(x)
}

/// Several events, with parameters of one event and of each, weights an event, and components that are composites.
fn mixture_of_truncated(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    let weights: Tensor<2> = p[4].clone().reshape([3, 2]);
    let normal = Normal::new(p[0].clone(), p[1].clone()).truncated(0.0, f64::INFINITY);
    let gamma = Gamma::new(p[2].clone(), p[3].clone()).truncated(0.0, f64::INFINITY);
    Mixture::weights(weights, vec![normal, gamma]).log_prob(x)
}

fn censored_mixture(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    let components = vec![Normal::new(p[0].clone(), p[1].clone()), Normal::new(p[2].clone(), p[3].clone())];
    let status = Device::flex().tensor(vec![1.0, 0.0, 0.0], [3]);
    Mixture::logits(p[4].clone(), components).iid([3]).censored(Censoring::right(status)).log_prob(x)
}

fn truncated_hurdle(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    let counts = Poisson::log_rate(p[0].clone()).hurdle(Chance::logits(p[1].clone()));
    counts.truncated(0.0, 6.0).log_prob(x)
}

fn truncated_inflated(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    let counts = Poisson::log_rate(p[0].clone()).zero_inflated(Chance::logits(p[1].clone()));
    counts.truncated(0.0, 6.0).log_prob(x)
}

fn truncated_twice(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    let once = Normal::new(p[0].clone(), p[1].clone()).truncated(p[2].clone(), f64::INFINITY);
    once.truncated(f64::NEG_INFINITY, p[3].clone()).log_prob(x)
}

fn censored_truncated(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    let bounded = Normal::new(p[0].clone(), p[1].clone()).truncated(p[2].clone(), p[3].clone());
    bounded.censored(Censoring::left(0.0)).log_prob(x)
}

fn weighted_hurdle(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    Poisson::log_rate(p[0].clone()).hurdle(Chance::logits(p[1].clone())).weighted(p[2].clone()).log_prob(x)
}

fn weighted_normal(x: Tensor<1>, p: &[Tensor<1>]) -> Result<Tensor<1>> {
    Normal::new(p[0].clone(), p[1].clone()).weighted(p[2].clone()).log_prob(x)
}

fn log_prob_of(name: &str) -> LogProb {
    match name {
        "truncated_normal" => truncated_normal,
        "right_censored_exponential" => right_censored_exponential,
        "left_censored_normal" => left_censored_normal,
        "interval_censored_normal" => interval_censored_normal,
        "zero_inflated_poisson" => zero_inflated_poisson,
        "hurdle_poisson" => hurdle_poisson,
        "hurdle_exponential" => hurdle_exponential,
        "mixture_of_normals" => mixture_of_normals,
        "zero_inflated_truncated_poisson" => zero_inflated_truncated_poisson,
        other => panic!("no composite {other}"),
    }
}

fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some("inf") => f64::INFINITY,
        Some(_) => f64::NEG_INFINITY,
        None => value.as_f64().unwrap(),
    }
}

#[test]
fn composites_agree_with_sixty_digits() {
    // Relative to 1 + |expected|; measured at most 2.4e-15 for values and 7e-14 for slopes.
    const VALUE: f64 = 1e-13;
    const SLOPE: f64 = 1e-12;
    let golden: Value = serde_json::from_str(include_str!("../golden/composites.json")).unwrap();
    let mut points = 0;
    for (name, rows) in golden["points"].as_object().unwrap() {
        for row in rows.as_array().unwrap() {
            let arguments: Vec<Vec<f64>> =
                row["arguments"].as_array().unwrap().iter().map(|x| vec![number(x)]).collect();
            let (found, slopes) = evaluate(log_prob_of(name), &arguments);
            let expected = number(&row["log_prob"]);
            assert!(
                (found - expected).abs() <= VALUE * (1.0 + expected.abs()),
                "{name} {arguments:?}: {found} {expected}"
            );
            for (place, (found, expected)) in slopes.iter().zip(row["slopes"].as_array().unwrap()).enumerate() {
                let expected = number(expected);
                let distance = (found[0] - expected).abs();
                assert!(
                    distance <= SLOPE * (1.0 + expected.abs()),
                    "{name} {arguments:?} {place}: {found:?} {expected}"
                );
            }
            points += 1;
        }
    }
    assert!(points >= 45, "{points} points");
}

fn cases() -> Vec<Case> {
    let case = |name, log_prob, value: &[f64], parameters: &[&[f64]]| Case {
        name,
        log_prob,
        value: value.to_vec(),
        parameters: parameters.iter().map(|own| own.to_vec()).collect(),
    };
    let three: &[f64] = &[0.4, 1.3, 2.2];
    vec![
        case("truncated", truncated_normal, &[0.4], &[&[0.3], &[1.2], &[-0.5], &[1.9]]),
        case("zero-inflated at zero", zero_inflated_by_probability, &[0.0], &[&[0.4], &[0.3]]),
        case("zero-inflated above", zero_inflated_by_probability, &[3.0], &[&[0.4], &[0.3]]),
        case("hurdle", hurdle_poisson, &[3.0], &[&[0.4], &[0.3]]),
        case(
            "mixture of truncated",
            mixture_of_truncated,
            three,
            &[&[0.3], &[1.2, 0.7, 2.0], &[2.0, 1.5, 0.8], &[1.1], &[0.2, 0.8, 0.5, 0.6, 1.3, 0.4]],
        ),
        case("censored mixture", censored_mixture, three, &[&[0.3], &[1.2], &[2.0], &[0.7], &[0.3, -0.4]]),
        case("truncated hurdle", truncated_hurdle, &[3.0], &[&[0.9], &[0.3]]),
        case("truncated hurdle at zero", truncated_hurdle, &[0.0], &[&[0.9], &[0.3]]),
        case("truncated inflated", truncated_inflated, &[3.0], &[&[0.9], &[0.3]]),
        case("truncated inflated at zero", truncated_inflated, &[0.0], &[&[0.9], &[0.3]]),
        case("truncated twice", truncated_twice, &[0.4], &[&[0.3], &[1.2], &[-0.5], &[1.9]]),
        case("weighted hurdle", weighted_hurdle, &[3.0], &[&[0.9], &[0.3], &[1.7]]),
        case("weighted", weighted_normal, three, &[&[0.3], &[1.2], &[2.0, 0.6, 0.4]]),
        case("censored truncated", censored_truncated, &[0.4], &[&[0.3], &[1.2], &[-0.5], &[1.9]]),
    ]
}

/// The first derivative that differences do not confirm.
fn wrong_slope(case: &Case, spoil: impl Fn(&mut Vec<Vec<f64>>)) -> Option<String> {
    const BOUND: f64 = 1e-8;
    let arguments: Vec<Vec<f64>> = std::iter::once(&case.value).chain(&case.parameters).cloned().collect();
    let (_, mut slopes) = evaluate(case.log_prob, &arguments);
    spoil(&mut slopes);
    let is_count = case.value.iter().all(|value| value.fract() == 0.0);
    for (place, own) in slopes.iter().enumerate().skip(usize::from(is_count)) {
        for (index, found) in own.iter().enumerate() {
            let at = |point: &[f64]| {
                let mut moved = arguments.clone();
                moved[place] = point.to_vec();
                evaluate(case.log_prob, &moved).0
            };
            let expected = partita_laws::derivative(at, &arguments[place], index);
            let distance = (found - expected).abs();
            if distance.is_nan() || distance > BOUND * (1.0 + expected.abs()) {
                return Some(format!("{} {place} {index}: {found} {expected}", case.name));
            }
        }
    }
    None
}

#[test]
fn gradients_are_the_differences_by_value_and_every_parameter() {
    for case in cases() {
        assert_eq!(wrong_slope(&case, |_| ()), None);
    }
}

#[test]
fn a_planted_fault_in_a_gradient_is_found() {
    for case in cases() {
        assert!(wrong_slope(&case, |slopes| slopes[1][0] += 1e-6).is_some(), "{}", case.name);
    }
}

#[test]
fn a_log_density_of_each_event_has_the_shape_of_the_batch_and_its_own_gradients() {
    let device = Device::flex();
    let scale: Tensor<1> = device.leaf(vec![1.5], [1]);
    let value: Tensor<2> = device.tensor(vec![0.1, -0.4, 2.0, 0.7], [2, 2]);
    let each = Normal::new(0.3, scale.clone()).iid([2, 2]).log_prob_each(value.clone()).unwrap();
    assert_eq!(each.dims(), [2, 2]);
    let weights: Tensor<2> = device.tensor(vec![1.0, -2.0, 3.0, 0.5], [2, 2]);
    let found = Handle::from(scale.grad(&(each * weights).sum().backward()).unwrap()).read().unwrap().values[0];
    let slope = |x: f64| (((x - 0.3) / 1.5).powi(2) - 1.0) / 1.5;
    let expected = slope(0.1) - 2.0 * slope(-0.4) + 3.0 * slope(2.0) + 0.5 * slope(0.7);
    assert!((found - expected).abs() < 1e-14, "{found} {expected}");
    let vectors = device.tensor(vec![0.0, 1.0, 1.0, 0.0, 0.5, 0.5], [3, 2]);
    let factor = device.tensor(vec![1.0, 0.0, 0.0, 1.0], [2, 2]);
    let location = device.tensor(vec![0.0; 6], [3, 2]);
    let each = partita_core::MultivariateNormal::new(location, factor).log_prob_each(vectors).unwrap();
    assert_eq!(each.dims(), [3, 1]);
    let found = Handle::from(each).read().unwrap().values;
    for (found, square) in found.iter().zip([1.0, 1.0, 0.5]) {
        assert!((found + 0.5 * square + (2.0 * std::f64::consts::PI).ln()).abs() < 1e-14);
    }
    assert!(Uniform::new(0.0, 1.0).log_prob_each(device.tensor(vec![2.0], [1])).is_err());
}
