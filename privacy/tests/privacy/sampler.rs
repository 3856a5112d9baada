//! Compares the discrete Gaussian sampler with its exact distribution and with OpenDP's, and shows that faults are seen.

use std::collections::BTreeMap;

use partita_privacy::{DiscreteGaussian, Entropy, Error, Result, SystemEntropy};

use super::{Seeded, golden, largest_chi_square};

fn counts(scale: u64, draws: usize, entropy: &mut dyn Entropy) -> BTreeMap<i128, usize> {
    let noise = DiscreteGaussian::new(scale).unwrap();
    let mut counts = BTreeMap::new();
    (0..draws).for_each(|_| *counts.entry(noise.draw(entropy).unwrap()).or_default() += 1);
    counts
}

/// By how much the chi-square statistic of `counts` exceeds its bound, in cells of `width` values up to four scales on
/// either side and one beyond: positive for counts that the distribution with `scale` does not explain.
fn violation(counts: &BTreeMap<i128, usize>, scale: u64, width: i128) -> f64 {
    let mass = |value: i128| (-(value as f64 / scale as f64).powi(2) / 2.0).exp();
    let cells = 4 * i128::from(scale) / width;
    let cell = |value: i128| value.div_euclid(width).clamp(-cells, cells);
    let mut expected: BTreeMap<i128, f64> = BTreeMap::new();
    let far = 40 * i128::from(scale);
    (-far..=far).for_each(|value| *expected.entry(cell(value)).or_default() += mass(value));
    let total: f64 = expected.values().sum();
    let draws: usize = counts.values().sum();
    let mut found: BTreeMap<i128, usize> = BTreeMap::new();
    counts.iter().for_each(|(value, count)| *found.entry(cell(*value)).or_default() += count);
    let statistic: f64 = expected
        .iter()
        .map(|(cell, mass)| {
            let expected = mass / total * draws as f64;
            (found.get(cell).copied().unwrap_or(0) as f64 - expected).powi(2) / expected
        })
        .sum();
    statistic - largest_chi_square(expected.len() - 1)
}

#[test]
fn draws_have_the_exact_distribution() {
    for (seed, scale, width) in [(1, 1, 1), (2, 2, 1), (3, 7, 1), (4, 1024, 256)] {
        let counts = counts(scale, 100_000, &mut Seeded::new(seed));
        let violation = violation(&counts, scale, width);
        assert!(violation < 0.0, "scale {scale}: {violation} above the bound");
    }
}

#[test]
fn the_comparison_sees_another_scale_and_a_zero_drawn_twice_as_often() {
    let honest = counts(20, 100_000, &mut Seeded::new(5));
    assert!(violation(&honest, 20, 1) < 0.0);
    // A scale that is off by a twentieth; a shift by one; the zero of both signs.
    assert!(violation(&honest, 19, 1) > 0.0 && violation(&honest, 21, 1) > 0.0);
    let shifted = honest.iter().map(|(value, count)| (value + 1, *count)).collect();
    assert!(violation(&shifted, 20, 1) > 0.0);
    let mut doubled = honest.clone();
    *doubled.get_mut(&0).unwrap() *= 2;
    assert!(violation(&doubled, 20, 1) > 0.0);
}

#[test]
fn draws_are_those_of_opendp() {
    for of in golden()["draws"].as_array().unwrap() {
        let (scale, draws) = (of["scale"].as_u64().unwrap(), of["count"].as_u64().unwrap() as usize);
        let theirs: BTreeMap<i128, usize> = of["counts"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(value, count)| (value.parse().unwrap(), count.as_u64().unwrap() as usize))
            .collect();
        assert!(violation(&theirs, scale, 1) < 0.0);
        let ours = counts(scale, draws, &mut Seeded::new(6));
        let edge = 3 * i128::from(scale);
        // Two samples of equal size: the sum of (a − b)² / (a + b) over values that both have often.
        let apart = |value: i128| {
            let (a, b) = (ours.get(&value).copied().unwrap_or(0), theirs.get(&value).copied().unwrap_or(0));
            (a as f64 - b as f64).powi(2) / (a + b) as f64
        };
        let statistic: f64 = (-edge..=edge).map(apart).sum();
        assert!(statistic < largest_chi_square(2 * edge as usize), "scale {scale}: {statistic}");
    }
}

#[test]
fn the_system_s_own_bits_give_the_distribution_and_no_draw_twice() {
    let mut entropy = SystemEntropy::default();
    assert!(violation(&counts(3, 50_000, &mut entropy), 3, 1) < 0.0);
    let wide = DiscreteGaussian::new(DiscreteGaussian::LARGEST_SCALE).unwrap();
    let draws: Vec<i128> = (0..100).map(|_| wide.draw(&mut entropy).unwrap()).collect();
    let different: std::collections::BTreeSet<_> = draws.iter().collect();
    assert_eq!(different.len(), draws.len());
    assert!(draws.iter().all(|draw| draw.unsigned_abs() < 12 << 40));
}

/// The probabilities of −`edge` to `edge` under a discrete Gaussian with this square of its scale.
fn masses(variance: f64, edge: i32) -> Vec<f64> {
    let all: Vec<f64> = (-edge..=edge).map(|value| (-f64::from(value).powi(2) / (2.0 * variance)).exp()).collect();
    let total: f64 = all.iter().sum();
    all.into_iter().map(|mass| mass / total).collect()
}

#[test]
fn a_sum_of_draws_differs_from_one_discrete_gaussian_by_no_more_than_is_said() {
    let one = DiscreteGaussian::new(1).unwrap();
    assert_eq!(one.sum_differs_by(1), 0.0);
    let pi = std::f64::consts::PI;
    assert!((one.sum_differs_by(2) - 10.0 * (-pi * pi).exp()).abs() < 1e-15);
    assert!(DiscreteGaussian::new(4).unwrap().sum_differs_by(1000) < 1e-40);
    // By convolution: it does differ, by 1.0e-4, 1.2e-5 and 1.4e-6.
    for (draws, least) in [(2_u8, 1e-4), (3, 1e-5), (5, 1e-6)] {
        let edge = 40;
        let single = masses(1.0, edge);
        let mut sum = single.clone();
        for _ in 1..draws {
            let mut longer = vec![0.0; sum.len() + single.len() - 1];
            for (at, mass) in sum.iter().enumerate() {
                single.iter().enumerate().for_each(|(by, own)| longer[at + by] += mass * own);
            }
            sum = longer;
        }
        let expected = masses(f64::from(draws), edge * i32::from(draws));
        let middle = expected.len() / 2;
        let apart = |at: usize| (sum[at] / expected[at]).ln().abs();
        // In this order a NaN is the largest.
        let largest = (middle - 12..=middle + 12).map(apart).max_by(f64::total_cmp).unwrap();
        let said = one.sum_differs_by(u64::from(draws));
        assert!(largest > least && largest <= said, "{draws}: {largest} of {said}");
    }
}

struct Constant(u8);

impl Entropy for Constant {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        bytes.fill(self.0);
        Ok(())
    }
}

#[test]
fn a_source_that_repeats_itself_ends_in_an_error() {
    for byte in [0, 255] {
        let found = DiscreteGaussian::new(5).unwrap().draw(&mut Constant(byte));
        assert!(matches!(found, Err(Error::Entropy { .. })), "{byte}: {found:?}");
    }
}

#[test]
fn scales_outside_the_range_are_refused() {
    for scale in [0, DiscreteGaussian::LARGEST_SCALE + 1, u64::MAX] {
        assert!(matches!(DiscreteGaussian::new(scale), Err(Error::Setting { what: "the scale", .. })));
    }
}
