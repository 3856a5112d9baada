//! Claims that bands for ranks are ArviZ's and hold as often as they say, and that the test of symmetry is exact.

use fixtures::numbers;
use partita::core::{Key, Noise, Purpose};
use partita::inference::metrics::{Counts, SimultaneousBand, Symmetry};
use serde_json::Value;

/// Sums of thousands of binomial probabilities in double precision, in another order and by other logarithms.
const ROUNDING: f64 = 1e-10;

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/calibration.json")).unwrap()
}

fn counts(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|own| usize::try_from(own.as_u64().unwrap()).unwrap()).collect()
}

#[test]
fn bands_are_those_of_arviz_and_of_a_convolution() {
    let golden = golden();
    let bands = golden["bands"].as_array().unwrap();
    assert_eq!(bands.len(), 21);
    for expected in bands {
        let of = if expected["counts"] == "below" { Counts::Below } else { Counts::Within };
        let count = usize::try_from(expected["count"].as_u64().unwrap()).unwrap();
        let masses = numbers(&expected["masses"]);
        let band = match expected["probability"].as_f64() {
            Some(probability) => SimultaneousBand::new(count, &masses, of, probability),
            None => SimultaneousBand::of_intervals(count, &masses, of, expected["pointwise"].as_f64().unwrap()),
        };
        assert_eq!(
            (&band.lower, &band.upper),
            (&counts(&expected["lower"]), &counts(&expected["upper"])),
            "{expected}"
        );
        assert!((band.coverage - expected["coverage"].as_f64().unwrap()).abs() < ROUNDING, "{band:?}, {expected}");
        assert!((band.pointwise - expected["pointwise"].as_f64().unwrap()).abs() < 1e-8, "{band:?}, {expected}");
    }
}

#[test]
fn the_distance_from_symmetry_is_scipys_and_its_p_value_counts_walks() {
    let golden = golden();
    let symmetries = golden["symmetries"].as_array().unwrap();
    assert_eq!(symmetries.len(), 7);
    for expected in symmetries {
        let found = Symmetry::of(&numbers(&expected["probabilities"]));
        assert!((found.distance - expected["distance"].as_f64().unwrap()).abs() < ROUNDING, "{found:?}, {expected}");
        assert!((found.p_value - expected["p_value"].as_f64().unwrap()).abs() < ROUNDING, "{found:?}, {expected}");
    }
}

#[test]
fn uniform_numbers_are_in_the_band_and_symmetric_as_often_as_they_should() {
    const TRIALS: usize = 4_000;
    let masses = [0.05; 20];
    let below = SimultaneousBand::new(100, &masses, Counts::Below, 0.9);
    let within = SimultaneousBand::new(100, &masses, Counts::Within, 0.9);
    let (mut inside, mut rejected) = ([0_usize; 2], 0_usize);
    for trial in 0..TRIALS {
        let mut stream = Noise::new(23).stream(Key::new(Purpose::Check, trial as u64));
        let numbers: Vec<f64> = (0..100).map(|_| stream.uniform()).collect();
        let at = |edge: usize| numbers.iter().filter(|own| **own < 0.05 * edge as f64).count();
        let up_to: Vec<usize> = (1..=20).map(at).collect();
        let each: Vec<usize> = (1..=20).map(|edge| at(edge) - at(edge - 1)).collect();
        inside[0] += usize::from(below.holds(&up_to));
        inside[1] += usize::from(within.holds(&each));
        rejected += usize::from(Symmetry::of(&numbers).p_value <= 0.05);
    }
    for (inside, band) in inside.into_iter().zip([&below, &within]) {
        // Five standard errors of a share of the trials.
        let error = 5.0 * (band.coverage * (1.0 - band.coverage) / TRIALS as f64).sqrt();
        assert!((inside as f64 / TRIALS as f64 - band.coverage).abs() < error, "{inside} of {TRIALS}, {band:?}");
        assert!((0.9..0.93).contains(&band.coverage));
    }
    // The walk has few places: at most one trial in twenty is rejected, and not many fewer.
    let share = rejected as f64 / TRIALS as f64;
    assert!(share < 0.05 + 5.0 * (0.05 * 0.95 / TRIALS as f64).sqrt() && share > 0.02, "{share}");
}
