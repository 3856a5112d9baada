//! Holds Poisson samples to their law: every row as often as the rate says, and every pair as if it were of strangers.

use partita_privacy::{Entropy, poisson_sample};

use super::Seeded;

const ROWS: usize = 10;
const RATE: f64 = 0.3;
const SAMPLES: usize = 8_000;

/// By how many standard errors the frequency of a row, and that of a pair of rows, is off at most.
fn farthest(samples: &[Vec<usize>]) -> [f64; 2] {
    assert_eq!(samples.len(), SAMPLES);
    let errors = |count: usize, probability: f64| {
        let error = (probability * (1.0 - probability) / SAMPLES as f64).sqrt();
        (count as f64 / SAMPLES as f64 - probability).abs() / error
    };
    let mut found = [0.0_f64; 2];
    for row in 0..ROWS {
        for other in row..ROWS {
            let count = samples.iter().filter(|own| own.contains(&row) && own.contains(&other)).count();
            let (place, probability) = if row == other { (0, RATE) } else { (1, RATE * RATE) };
            found[place] = found[place].max(errors(count, probability));
        }
    }
    found
}

#[test]
fn rows_and_pairs_of_rows_are_in_a_sample_as_often_as_the_rate_says() {
    let mut bits = Seeded::new(11);
    let samples: Vec<_> = (0..SAMPLES).map(|_| poisson_sample(ROWS, RATE, &mut bits).unwrap()).collect();
    let [rows, pairs] = farthest(&samples);
    assert!(rows < 5.0 && pairs < 5.0, "rows are {rows} standard errors off, pairs {pairs}");
}

#[test]
fn the_comparison_sees_a_shuffle_whose_samples_all_have_one_size() {
    let mut bits = Seeded::new(12);
    let mut shuffled = || {
        let mut keys: Vec<([u8; 8], usize)> = (0..ROWS).map(|row| ([0; 8], row)).collect();
        keys.iter_mut().for_each(|(key, _)| bits.fill(key).unwrap());
        keys.sort_unstable();
        keys.into_iter().take(3).map(|(_, row)| row).collect::<Vec<_>>()
    };
    let samples: Vec<_> = (0..SAMPLES).map(|_| shuffled()).collect();
    // Rows are in it as often, and pairs more rarely: 6/90 in place of 9/100.
    let [rows, pairs] = farthest(&samples);
    assert!(rows < 5.0 && pairs > 5.0, "rows are {rows} standard errors off, pairs {pairs}");
}
