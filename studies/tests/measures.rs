//! Claims that distances of posteriors are those worked out by hand, and that coherence of topics is gensim's.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use partita::SparseRows;
use partita_studies::harness::Result;
use partita_studies::measures::{
    covariance_distance, fisher_rao_distance, generalised_variance_difference, mean_distance, top_words,
    umass_coherence,
};
use serde_json::Value;

/// Sums and quotients of at most a few thousand numbers near one, in double precision.
const ROUNDING: f64 = 1e-12;

#[test]
fn distances_of_moments_are_those_worked_out_by_hand() {
    let found = mean_distance(&[1.0, 2.0, -1.0], &[2.0, 0.0, 1.0]).unwrap();
    assert!((found - 3.0).abs() < ROUNDING, "{found}");
    // Differences 1, 2, 2 and 4: the root of 25.
    let found = covariance_distance(&[3.0, 1.0, 1.0, 5.0], &[2.0, -1.0, -1.0, 1.0]).unwrap();
    assert!((found - 5.0).abs() < ROUNDING, "{found}");
    // Determinants 3 * 5 - 1 = 14 and 2 * 1 - 1 = 1; then 8 and 24 on diagonals, a third.
    let found = generalised_variance_difference(&[3.0, 1.0, 1.0, 5.0], &[2.0, -1.0, -1.0, 1.0]).unwrap();
    assert!((found - 14.0_f64.ln()).abs() < ROUNDING, "{found}");
    let diagonal = |variances: [f64; 3]| {
        let cell = |place: usize| if place.is_multiple_of(4) { variances[place / 4] } else { 0.0 };
        (0..9).map(cell).collect::<Vec<f64>>()
    };
    let found = generalised_variance_difference(&diagonal([1.0, 2.0, 4.0]), &diagonal([2.0, 3.0, 4.0])).unwrap();
    assert!((found - 3.0_f64.ln()).abs() < ROUNDING, "{found}");
}

#[test]
fn the_fisher_rao_distance_is_that_of_the_half_plane_of_means_and_deviations() {
    // Δ² = (1 + 2) / (1 + 18) for N(0, 1) and N(1, 2²).
    let found = fisher_rao_distance((0.0, 1.0), (1.0, 2.0)).unwrap();
    let delta = (3.0_f64 / 19.0).sqrt();
    assert!((found - 2.0_f64.sqrt() * ((1.0 + delta) / (1.0 - delta)).ln()).abs() < ROUNDING, "{found}");
    // Symmetric, and without units.
    assert!((found - fisher_rao_distance((1.0, 2.0), (0.0, 1.0)).unwrap()).abs() < ROUNDING);
    assert!((found - fisher_rao_distance((5.0, 5.0), (10.0, 10.0)).unwrap()).abs() < ROUNDING);
    // Near densities of one standard deviation are as far apart as their means in standard deviations, to second order.
    let near = fisher_rao_distance((0.0, 2.0), (2e-4, 2.0)).unwrap();
    assert!((near / 1e-4 - 1.0).abs() < 1e-8, "{near}");
    // Along one mean distances add up.
    let legs = [((0.3, 1.0), (0.3, 3.0)), ((0.3, 3.0), (0.3, 7.0))];
    let sum: f64 = legs.iter().map(|(from, to)| fisher_rao_distance(*from, *to).unwrap()).sum();
    assert!((sum - fisher_rao_distance((0.3, 1.0), (0.3, 7.0)).unwrap()).abs() < ROUNDING, "{sum}");
}

#[test]
fn moments_that_cannot_be_compared_are_refused_with_what_was_found() {
    let refused = |found: Result<f64>, words: &str| {
        let error = found.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(mean_distance(&[1.0], &[1.0, 2.0]), "means of 1 and 2 components");
    refused(mean_distance(&[], &[]), "length >= 1");
    refused(covariance_distance(&[1.0; 3], &[1.0; 3]), "matrices of 3 and 3 entries");
    refused(covariance_distance(&[1.0; 4], &[1.0]), "matrices of 4 and 1 entries");
    refused(generalised_variance_difference(&[1.0; 4], &[1.0]), "matrices of 4 and 1 entries");
    refused(generalised_variance_difference(&[1.0, 2.0, 2.0, 1.0], &[1.0, 0.0, 0.0, 1.0]), "positive definite");
    refused(fisher_rao_distance((0.0, 0.0), (0.0, 1.0)), "standard deviation 0");
    refused(fisher_rao_distance((0.0, 1.0), (f64::NAN, 1.0)), "mean NaN");
}

/// Four documents over four words; word 3 occurs in none.
fn documents() -> SparseRows {
    let rows = [vec![(0, 2.0), (1, 1.0)], vec![(0, 1.0)], vec![(0, 1.0), (1, 5.0), (2, 1.0)], vec![(2, 3.0)]];
    SparseRows::new(&rows, 4).unwrap()
}

#[test]
fn the_coherence_of_three_words_is_that_computed_by_hand() {
    // Documents with word 0: 3, with 1: 2, with 2: 2; with 0 and 1: 2, with 0 and 2: 1, with 1 and 2: 1.
    let expected = ((2.0_f64 / 3.0).ln() + (1.0_f64 / 3.0).ln() + (1.0_f64 / 2.0).ln()) / 3.0;
    let found = umass_coherence(&[0, 1, 2], &documents()).unwrap();
    // The epsilon moves each term by at most 4e-12.
    assert!((found - expected).abs() < 1e-11, "{found} against {expected}");
    // The order matters: the earlier word is the condition.
    let turned = ((1.0_f64 / 2.0).ln() + (1.0_f64 / 2.0).ln() + (2.0_f64 / 2.0).ln()) / 3.0;
    assert!((umass_coherence(&[2, 1, 0], &documents()).unwrap() - turned).abs() < 1e-11);
}

#[test]
fn coherence_equals_the_golden_numbers_of_gensim() {
    let golden: Value = serde_json::from_str(include_str!("../../tests/golden/coherence.json")).unwrap();
    let whole = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let entry = |pair: &Value| (u32::try_from(whole(&pair[0])).unwrap(), pair[1].as_f64().unwrap());
    let rows: Vec<Vec<(u32, f64)>> = golden["corpus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.as_array().unwrap().iter().map(entry).collect())
        .collect();
    let counts = SparseRows::new(&rows, whole(&golden["words"])).unwrap();
    let topics = golden["topics"].as_array().unwrap();
    assert_eq!((topics.len(), counts.rows()), (5, 60));
    for (topic, expected) in topics.iter().zip(golden["coherence"].as_array().unwrap()) {
        let words: Vec<usize> = topic.as_array().unwrap().iter().map(whole).collect();
        let (found, expected) = (umass_coherence(&words, &counts).unwrap(), expected.as_f64().unwrap());
        assert!((found - expected).abs() < ROUNDING * expected.abs(), "{words:?}: {found}, gensim {expected}");
    }
}

#[test]
fn words_that_cannot_be_compared_are_refused() {
    let refused = |words: &[usize], word: &str| {
        let error = umass_coherence(words, &documents()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    };
    refused(&[0, 3], "none of the 4 documents");
    refused(&[0, 4], "word 4 out of range");
    refused(&[0, 1, 0], "word 0 twice");
    refused(&[0], "1 words");
    refused(&[], "0 words");
    let nothing = SparseRows::new(&[], 4).unwrap();
    let never = |counts: &SparseRows| umass_coherence(&[0, 1], counts).unwrap_err().to_string();
    assert!(never(&nothing).contains("none of the 0 documents"));
    // An entry of zero is not an occurrence.
    let zero = SparseRows::new(&[vec![(0, 1.0), (1, 0.0)]], 2).unwrap();
    assert!(never(&zero).contains("word 1 occurs in none"));
}

#[test]
fn top_words_are_ordered_by_weight_and_then_by_place() {
    let weights = [-1.0, 0.0, f64::NEG_INFINITY, -0.0, 3.0];
    assert_eq!(top_words(&weights, 5).unwrap(), [4, 1, 3, 0, 2]);
    assert_eq!(top_words(&weights, 2).unwrap(), [4, 1]);
    assert!(top_words(&weights, 0).unwrap().is_empty());
    assert!(top_words(&weights, 6).unwrap_err().to_string().contains("found 5 words"));
    let error = top_words(&[0.0, f64::NAN], 1).unwrap_err();
    assert!(error.to_string().contains("of word 1"), "{error}");
}
