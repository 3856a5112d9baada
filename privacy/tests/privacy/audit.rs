//! Audits releases by canaries and by inverting a gradient, without noise and with it.

use partita_privacy::{Accountant, Audit, Conversion, Cost, Entropy, Error, Grid};

use super::Seeded;

const CANARIES: usize = 1000;

/// Puts canaries in or out by coins, sums them, and guesses each from its own number of the release.
fn audit(noise: Option<f64>, seed: u64) -> Audit {
    let (grid, mut entropy) = (Grid::new(1.0, Grid::STEPS).unwrap(), Seeded::new(seed));
    let mut coins = vec![0; CANARIES];
    entropy.fill(&mut coins).unwrap();
    let canary = |at: usize| (0..CANARIES).map(|number| f64::from(number == at)).collect::<Vec<f64>>();
    let rows = (0..CANARIES).filter(|at| coins[*at] % 2 == 1).map(canary);
    let sum = grid.sum(CANARIES, rows).unwrap();
    let released = match noise {
        Some(noise) => sum.release(grid.noise(noise).unwrap(), &mut entropy).unwrap(),
        None => sum.exact(),
    };
    let guesses = released.to_floats();
    let right = coins.iter().zip(guesses).filter(|(coin, value)| (*value > 0.5) == (*coin % 2 == 1)).count();
    Audit { canaries: CANARIES as u64, guesses: CANARIES as u64, right: right as u64 }
}

#[test]
fn the_bounds_are_those_of_the_paper() {
    let bound = |right| Audit { canaries: 1000, guesses: 1000, right }.epsilon(0.0, 0.95).unwrap();
    assert!((bound(1000) - 5.81).abs() < 5e-3 && (bound(900) - 2.02).abs() < 5e-3);
    // All right: the closed form, p¹⁰⁰⁰ = 0.05.
    let p = 0.05_f64.powf(1e-3);
    assert!((bound(1000) - (p / (1.0 - p)).ln()).abs() < 1e-9);
    assert!(bound(500) == 0.0 && bound(0) == 0.0);
    // A delta can only lower it.
    let with = |delta| Audit { canaries: 1000, guesses: 1000, right: 900 }.epsilon(delta, 0.95).unwrap();
    assert!(with(1e-5) < with(0.0) && with(1e-5) > 1.9 && with(0.1) < with(1e-5));
    let wrong = Audit { canaries: 10, guesses: 11, right: 1 }.epsilon(0.0, 0.95);
    assert!(matches!(wrong, Err(Error::Setting { .. })));
}

#[test]
fn without_noise_the_bound_is_above_five_and_with_it_below_what_was_accounted() {
    assert!(audit(None, 1).epsilon(0.0, 0.95).unwrap() > 5.0);
    for noise in [0.5, 1.0, 4.0] {
        let accounted = Accountant::of([Cost::new(noise, 1).unwrap()]).epsilon(1e-5, Conversion::Improved).unwrap();
        for seed in 2..7 {
            let found = audit(Some(noise), seed).epsilon(1e-5, 0.95).unwrap();
            assert!(found < accounted, "noise {noise}, seed {seed}: {found} of {accounted}");
        }
    }
}

/// The gradient of the log density of one logistic row, (y − p)(1, x), at coefficients of zero.
fn gradient(row: &[f64; 4]) -> Vec<f64> {
    let slope = row[0] - 0.5;
    vec![slope, slope * row[1], slope * row[2], slope * row[3]]
}

/// Φ(x) by its series 1/2 + φ(0)·Σ (−x²/2)ᵏ x / (k! (2k + 1)), which for |x| below 2 has no number above 2.
fn normal_cdf(x: f64) -> f64 {
    assert!(x.abs() < 2.0);
    let (mut term, mut sum) = (x, x);
    for k in 1..40 {
        term *= -x * x / (2.0 * f64::from(k));
        sum += term / f64::from(2 * k + 1);
    }
    0.5 + sum / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
fn one_row_is_read_from_a_gradient_without_noise_and_not_with_it() {
    let (grid, mut entropy) = (Grid::new(1.0, Grid::STEPS).unwrap(), Seeded::new(8));
    // The clip is 1: this is the standard deviation of the noise, too.
    let sigma = Accountant::noise_for(1.0, 1e-5, 1).unwrap();
    let noise = grid.noise(sigma).unwrap();
    let (mut right, mut alike) = (0, 0.0);
    const ROWS: usize = 400;
    for at in 0..ROWS {
        let unit = |k: usize| ((at * 7 + k * 13) % 19) as f64 / 19.0 - 0.5;
        let row = [f64::from(u8::from(at % 3 == 0)), unit(1), unit(2), unit(3)];
        let sum = grid.sum(4, [gradient(&row)]).unwrap();
        let plain = sum.clone().exact().to_floats();
        assert_eq!(plain[0] > 0.0, row[0] > 0.5);
        // Every column is the ratio of two numbers.
        (1..4).for_each(|k| assert!((plain[k] / plain[0] - row[k]).abs() < 1e-5));
        let noisy = sum.release(noise, &mut entropy).unwrap().to_floats();
        right += usize::from((noisy[0] > 0.0) == (row[0] > 0.5));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let read: Vec<f64> = (1..4).map(|k| noisy[k] / noisy[0]).collect();
        alike += dot(&read, &row[1..]) / (dot(&read, &read) * dot(&row[1..], &row[1..])).sqrt();
    }
    // The first number is y − 1/2, which is 1/2 or −1/2 and is not clipped, plus N(0, σ²). Its sign is that of y − 1/2 where
    // the noise does not reach 1/2 on the other side: with probability Φ(1/(2σ)), whatever y is. Of so many rows the share has a
    // standard error of √(p(1 − p)/rows).
    let (share, expected) = (right as f64 / ROWS as f64, normal_cdf(0.5 / sigma));
    let error = (expected * (1.0 - expected) / ROWS as f64).sqrt();
    assert!((share - expected).abs() < 5.0 * error, "{share} of the outcomes were read, {expected} are expected");
    // The cosine of unrelated directions has mean 0 and a standard deviation of 1/√3.
    assert!((alike / ROWS as f64).abs() < 5.0 / (3.0 * ROWS as f64).sqrt(), "{}", alike / ROWS as f64);
}
