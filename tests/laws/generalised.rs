//! Tests generalised inference against its known effect on a mean, and on the variance for silos that disagree.

use fixtures::local::{Partitioned, ROWS};
use partita::inference::{NormalFamily, Renyi};

/// Mean and variance at the fixed point of silos that share 50 rows of unit noise equally, each with its own mean.
fn moments(means: &[f64], prior_variance: f64, alpha: f64) -> [f64; 2] {
    let mut silos = Partitioned::around(means, prior_variance, Renyi { alpha }.into());
    silos.converge();
    let (mean, spread) = NormalFamily::diagonal(1).moments(&silos.posterior);
    [mean[0], spread.deviations()[0].powi(2)]
}

#[test]
fn a_divergence_moves_the_mean_by_its_hold_on_the_prior_alone() {
    for alpha in [0.5, 0.75, 1.0, 1.5, 2.5] {
        // The prior changes the mean by at most 4e-10 of it beside fifty rows.
        let [mean, _] = moments(&[0.3], 1e8, alpha);
        assert!((mean - 0.3).abs() < 1e-9, "{alpha}: {mean}");
        // For any prior: where the data's pull on the mean equals that of the divergence, n (y - μ) = (μ - ν) / (αλ +
        // (1-α)σ).
        let [mean, variance] = moments(&[0.3], 10.0, alpha);
        let (data, prior) = (ROWS * (0.3 - mean), mean / (alpha * 10.0 + (1.0 - alpha) * variance));
        assert!((data - prior).abs() < 1e-11, "{alpha}: {data} against {prior}");
    }
}

#[test]
fn silos_that_disagree_widen_the_posterior_below_one_by_the_square_of_their_distance() {
    for alpha in [0.5, 0.75] {
        let excess = |distance: f64| {
            let [_, apart] = moments(&[0.3 - 0.5 * distance, 0.3 + 0.5 * distance], 1e8, alpha);
            let [_, together] = moments(&[0.3, 0.3], 1e8, alpha);
            apart / together - 1.0
        };
        let [near, far] = [excess(0.01), excess(0.02)];
        assert!(near > 0.0, "{alpha}: {near}");
        // The posterior is symmetric in the silos, so that the next power is the fourth: beside the second it is
        // smaller by the square of the distance in posterior standard deviations, 0.02.
        assert!((far / near - 4.0).abs() < 0.05 * 4.0, "{alpha}: {near}, {far}");
    }
    let [[_, apart], [_, together]] = [[0.2, 0.4], [0.3, 0.3]].map(|means| moments(&means, 1e8, 1.0));
    assert!((apart / together - 1.0).abs() < 1e-11, "{apart} against {together}");
}
