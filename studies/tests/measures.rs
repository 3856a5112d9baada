//! Claims that distances of posteriors are those worked out by hand, and that what has none is refused.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use partita_studies::harness::Result;
use partita_studies::measures::{
    covariance_distance, fisher_rao_distance, generalised_variance_difference, mean_distance,
};

/// Sums and quotients of at most a few numbers near one, in double precision.
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
