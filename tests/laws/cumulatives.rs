//! Holds every log distribution function, its complement and their derivatives against sixty-digit numbers.

use partita_core::{Density, Gamma, Gradient, Key, Noise, Purpose, VonMises};
use serde_json::Value;

use super::golden::vectors;
use super::reference::densities;

// Relative, for logarithms and for derivatives.
const LOG: f64 = 1e-11;
const DERIVATIVE: f64 = 1e-10;
// What cannot be told from zero: the references carry 60 digits.
const ABSOLUTE: f64 = 1e-40;

/// The golden points of each density.
fn golden() -> serde_json::Map<String, Value> {
    let read: Value = serde_json::from_str(include_str!("../golden/cumulatives.json")).unwrap();
    read["cumulatives"].as_object().unwrap().clone()
}

/// One tail at a golden point, with what is wrong about it; `None` where all is well.
fn wrong(density: &dyn Density, point: &Value, key: &str) -> Option<String> {
    let (value, given) = (point["value"].as_f64().unwrap(), vectors(&point["parameters"]));
    let empty = Vec::new();
    let parameters: [&[f64]; 3] = std::array::from_fn(|k| given.get(k).unwrap_or(&empty).as_slice());
    let mut by_value = [0.0];
    let mut by_parameters = parameters.map(|parameter| vec![0.0; parameter.len()]);
    let slots = by_parameters.each_mut().map(|slots| slots.as_mut_slice());
    let mut gradient = Gradient { scale: 1.0, value: &mut by_value, parameters: slots };
    let found = match key {
        "log_cdf" => density.log_cdf(value, parameters, &mut gradient),
        _ => density.log_survival(value, parameters, &mut gradient),
    };
    let at = format!("{} {key} at {value} with {given:?}", density.name());
    let (found, expected) = (found.unwrap(), point[key].as_f64().unwrap());
    let is_near = (found - expected).abs() <= LOG * expected.abs() + ABSOLUTE;
    if !is_near {
        return Some(format!("{at}: {found}, golden {expected}"));
    }
    let mut expected = vec![vec![point[&format!("{key}_by_value")].as_f64().unwrap()]];
    expected.extend(vectors(&point[&format!("{key}_by_parameters")]));
    let found = std::iter::once(by_value.to_vec()).chain(by_parameters);
    let pairs = found.zip(expected).enumerate().flat_map(|(argument, (found, expected))| {
        found.into_iter().zip(expected).map(move |(found, expected)| (argument, found, expected))
    });
    for (argument, found, expected) in pairs {
        let is_near = (found - expected).abs() <= DERIVATIVE * expected.abs() + ABSOLUTE;
        if !is_near {
            return Some(format!("{at}, argument {argument}: derivative {found}, golden {expected}"));
        }
    }
    None
}

#[test]
fn tails_and_their_derivatives_agree_with_sixty_digits() {
    let golden = golden();
    let (mut held, mut all) = (0, Vec::new());
    for density in densities() {
        let Some(points) = golden.get(density.name()) else { continue };
        held += 1;
        for point in points.as_array().unwrap() {
            all.extend(["log_cdf", "log_survival"].iter().filter_map(|key| wrong(density, point, key)));
        }
    }
    assert_eq!((held, golden.len()), (25, 25));
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn ends_have_limits_without_derivatives() {
    let parameters = |density: &dyn Density| -> [&[f64]; 3] {
        match density.name() {
            "OrderedLogistic" | "OrderedProbit" => [&[0.3], &[-1.0, 2.0], &[]],
            "PiecewiseExponential" => [&[0.3], &[0.1, -1.0], &[2.0]],
            "Uniform" => [&[0.2], &[0.9], &[]],
            "Binomial" | "BetaBinomial" => [&[4.0], &[0.5], &[0.5]],
            _ => [&[0.5], &[0.5], &[0.5]],
        }
    };
    let golden = golden();
    for density in densities().filter(|density| golden.contains_key(density.name())) {
        let given = parameters(density);
        for (value, lower, upper) in [(f64::NEG_INFINITY, 0.0, 1.0), (f64::INFINITY, 1.0, 0.0)] {
            let (mut by_value, mut by_parameters) = ([0.0], given.map(|parameter| vec![0.0; parameter.len()]));
            let slots = by_parameters.each_mut().map(|slots| slots.as_mut_slice());
            let mut gradient = Gradient { scale: 1.0, value: &mut by_value, parameters: slots };
            let found = density.log_cdf(value, given, &mut gradient).unwrap().exp();
            let found = [found, density.log_survival(value, given, &mut gradient).unwrap().exp()];
            assert!(
                (found[0] - lower).abs() + (found[1] - upper).abs() < 1e-12,
                "{} {value}: {found:?}",
                density.name()
            );
            let still = by_value.iter().chain(by_parameters.iter().flatten()).all(|slot| slot.abs() < 1e-12);
            assert!(still, "{} {value}: {by_value:?} {by_parameters:?}", density.name());
        }
    }
}

#[test]
fn a_circle_has_no_distribution_function() {
    assert!(VonMises.log_cdf(0.3, [&[0.0], &[1.0], &[]], &mut Gradient::default()).is_none());
    assert!((VonMises.cumulative(0.0, [&[0.0], &[1.0], &[]]).unwrap() - 0.5).abs() < 1e-14);
}

#[test]
fn a_large_concentration_has_the_normal_limit_of_the_distribution_function() {
    let cumulative = |value: f64, location: f64, concentration: f64| {
        VonMises.cumulative(value, [&[location], &[concentration], &[]]).unwrap()
    };
    let pi = std::f64::consts::PI;
    // As many terms of the Fourier series as this one needs would not fit into memory.
    assert!((cumulative(0.0, 0.0, 1e18) - 0.5).abs() < 1e-15);
    assert!((cumulative(2.5, 2.5, f64::MAX) - 0.5).abs() < 1e-15);
    // Half of what lies around the cut is on either side; the location may be any angle.
    for (value, expected) in [(-3.0, 0.0), (0.0, 0.0), (3.0, 1.0)] {
        assert!((cumulative(value, pi, 1e12) - 0.5).abs() < 1e-8, "{value}");
        assert!((cumulative(value, 40.0 * pi + 0.5, 1e12) - expected).abs() < 1e-8, "{value}");
    }
    // mpmath, with 40 digits: the plain normal limit is wrong from the tenth digit on.
    for (value, expected) in [(0.5_f64.powi(14), 0.805_977_298_225_892), (-0.5_f64.powi(13), 0.042_143_588_918_254_97)]
    {
        assert!((cumulative(value, 0.0, 2e8) - expected).abs() < 1e-14, "{value}");
    }
    // Where the series ends.
    for value in [-1e-4, 3e-5, 2e-4] {
        let [series, limit] = [1e8, 1e8_f64.next_up()].map(|concentration| cumulative(value, 0.0, concentration));
        assert!((series - limit).abs() < 1e-10, "{value}: {series} {limit}");
    }
}

#[test]
fn angles_of_hardly_any_concentration_are_drawn() {
    let mut noise = Noise::new(5).stream(Key::new(Purpose::Check, 0));
    for concentration in [1e-13, 1.1e-8, 1e-4, 0.5] {
        let mut cosine = 0.0;
        for _ in 0..4000 {
            let mut angle = [0.0];
            VonMises.draw([&[0.0], &[concentration], &[]], &mut noise, &mut angle);
            cosine += angle[0].cos() / 4000.0;
        }
        // Five standard deviations of a mean of cosines around the ratio of Bessel functions, half the concentration.
        let expected = 0.5 * concentration * (1.0 - concentration * concentration / 8.0);
        assert!((cosine - expected).abs() < 5.0 * (0.5_f64 / 4000.0).sqrt(), "{concentration}: {cosine}");
    }
}

#[test]
fn a_planted_fault_in_a_tail_is_found() {
    let mut point = golden()["Gamma"][2].clone();
    assert_eq!(wrong(&Gamma, &point, "log_cdf"), None);
    let moved = point["log_cdf_by_parameters"][0][0].as_f64().unwrap() * (1.0 + 1e-9);
    point["log_cdf_by_parameters"][0][0] = moved.into();
    assert!(wrong(&Gamma, &point, "log_cdf").is_some());
}
