//! Holds free energies, factors and their products to the properties of partitioned inference on problems of one number.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod fixtures;

use fixtures::local::{LogLikelihood, Partitioned, Toy, logistic};
use partita::SolverChoice;
use partita::inference::{
    Error, Expectation, ExponentialFamily, Factor, NaturalGradient, NormalFamily, PowerExpectation,
};

/// Quadrature by the trapezoidal rule over 24 standard deviations, which is exact to rounding for smooth integrands.
const ROUNDING: f64 = 1e-10;

/// A difference of 1e-5 in a smooth function: truncation and rounding of that order squared.
const DIFFERENCE: f64 = 1e-7;

fn family() -> NormalFamily {
    NormalFamily::diagonal(1)
}

/// The integral of a function of θ under the member with these natural parameters.
fn expected(natural: &[f64], function: impl Fn(f64) -> f64) -> f64 {
    let (mean, spread) = family().moments(natural);
    let (sd, step) = (spread.deviations()[0], 1.0 / 64.0);
    let points = (-12 * 64..=12 * 64).map(|place| f64::from(place) * step);
    points.map(|z| step * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() * function(mean[0] + sd * z)).sum()
}

/// Four silos of a logistic regression in one covariate.
fn silos() -> Vec<LogLikelihood> {
    let rows = [
        vec![(0.4, 1.0), (-1.3, -1.0)],
        vec![(2.1, 1.0), (0.7, -1.0), (-0.2, 1.0), (1.6, 1.0)],
        vec![(-2.4, -1.0)],
        vec![(0.9, 1.0), (1.1, 1.0), (-0.6, 1.0)],
    ];
    rows.into_iter().map(|rows| logistic(rows.into_iter().map(|(x, y)| (vec![x], y)).collect())).collect()
}

/// Natural parameters of a standard normal prior, and factors of no fixed point, one of negative precision.
fn state() -> (Vec<f64>, Vec<Vec<f64>>, Vec<f64>) {
    let prior = vec![0.0, -0.5];
    let factors = vec![vec![0.3, -0.2], vec![-0.7, 0.1], vec![0.5, -0.6], vec![0.1, -0.05]];
    let posterior = factors.iter().fold(prior.clone(), |sum, factor| vec![sum[0] + factor[0], sum[1] + factor[1]]);
    (prior, factors, posterior)
}

/// The local free energy of q with a factor as cavity: E[log p] + E[log cavity] + entropy.
fn free_energy(q: &[f64], log_likelihood: &LogLikelihood, cavity: &[f64]) -> f64 {
    let means = family().mean_parameters(q);
    let cavity = cavity[0] * means[0] + cavity[1] * means[1];
    expected(q, |theta| log_likelihood(&[theta]).0) + cavity + family().entropy(q)
}

/// The global free energy of q: E[log p(y)] - KL(q || prior).
fn global_free_energy(q: &[f64], prior: &[f64]) -> f64 {
    let likelihood: f64 = silos().iter().map(|silo| expected(q, |theta| silo(&[theta]).0)).sum();
    likelihood - family().kl_divergence(q, prior)
}

#[test]
fn a_local_free_energy_is_the_tilted_evidence_less_the_divergence_from_the_tilted_density() {
    let cavity = [0.3, -0.4];
    for silo in silos() {
        let tilted = |theta: f64| silo(&[theta]).0 + cavity[0] * theta + cavity[1] * theta * theta;
        // The integral of the tilted density over a wide normal.
        let wide = [0.0, -0.125];
        let log_wide = |theta: f64| wide[1] * theta * theta - family().log_partition(&wide);
        let evidence = expected(&wide, |theta| (tilted(theta) - log_wide(theta)).exp()).ln();
        for q in [[0.0, -0.5], [1.2, -2.0], [-0.8, -0.3]] {
            let log_q = |theta: f64| q[0] * theta + q[1] * theta * theta - family().log_partition(&q);
            let divergence = expected(&q, |theta| log_q(theta) - (tilted(theta) - evidence));
            let found = free_energy(&q, &silo, &cavity);
            assert!((found - (evidence - divergence)).abs() < ROUNDING, "{found} against {}", evidence - divergence);
        }
    }
}

#[test]
fn local_free_energies_and_the_normaliser_add_up_to_the_global_one_at_any_state() {
    let (prior, factors, posterior) = state();
    let own = |(silo, factor): (&LogLikelihood, &Vec<f64>)| {
        // F_m at the common posterior: E[log p(y_m)] - E[log t_m].
        let means = family().mean_parameters(&posterior);
        expected(&posterior, |theta| silo(&[theta]).0) - factor[0] * means[0] - factor[1] * means[1]
    };
    let sum: f64 = silos().iter().zip(&factors).map(own).sum();
    let prior_density = Factor::density(&family(), &prior).unwrap();
    let product = factors
        .iter()
        .fold(prior_density, |product, factor| product.times(&Factor { natural: factor.clone(), log_scale: 0.0 }));
    let log_normaliser = product.log_integral(&family()).unwrap();
    let global = global_free_energy(&posterior, &prior);
    assert!((sum + log_normaliser - global).abs() < ROUNDING, "{sum} + {log_normaliser} against {global}");
}

#[test]
fn gradients_of_local_free_energies_add_up_to_that_of_the_global_one_for_any_factors() {
    // One plain gradient step of every silo in natural parameters, summed, is one step of global inference.
    let (prior, factors, posterior) = state();
    for direction in 0..2 {
        let at = |step: f64| {
            let mut moved = posterior.clone();
            moved[direction] += step;
            moved
        };
        let slope = |value: &dyn Fn(&[f64]) -> f64| (value(&at(1e-5)) - value(&at(-1e-5))) / 2e-5;
        let locals: f64 = silos()
            .iter()
            .zip(&factors)
            .map(|(silo, factor)| {
                let cavity = [posterior[0] - factor[0], posterior[1] - factor[1]];
                slope(&|q| free_energy(q, silo, &cavity))
            })
            .sum();
        let global = slope(&|q| global_free_energy(q, &prior));
        assert!((locals - global).abs() < DIFFERENCE, "{locals} against {global}");
    }
}

#[test]
fn the_slope_of_the_divergence_by_mean_parameters_is_the_difference_of_natural_ones() {
    // So the damped fixed point is mirror descent with KL(q || q_old), and not with the printed KL(q_old || q).
    let (old, q) = (vec![0.8, -0.9], vec![-0.4, -0.3]);
    let means = family().mean_parameters(&q);
    let mut reversed = Vec::new();
    for direction in 0..2 {
        let at = |step: f64| {
            let mut moved = means.clone();
            moved[direction] += step;
            family().natural_of_mean(&moved).unwrap()
        };
        let slope = |value: &dyn Fn(&[f64]) -> f64| (value(&at(1e-6)) - value(&at(-1e-6))) / 2e-6;
        let found = slope(&|q| family().kl_divergence(q, &old));
        assert!((found - (q[direction] - old[direction])).abs() < DIFFERENCE, "{found}");
        reversed.push(slope(&|q| family().kl_divergence(&old, q)) - (q[direction] - old[direction]));
    }
    assert!(reversed.iter().any(|gap| gap.abs() > 0.1), "{reversed:?}");
}

#[test]
fn stochastic_power_expectation_propagation_becomes_a_minibatch_step_of_global_inference() {
    // One factor for all, t = (q/p)^{1/M}: M times the change tends to M dE[log p_k]/dμ + η_0 - η_q, with an error of α.
    let (prior, received) = (vec![0.0, -0.5], vec![0.6, -1.1]);
    let silo = silos().into_iter().nth(1).unwrap();
    let count = 4.0;
    let shared: Vec<f64> = received.iter().zip(&prior).map(|(q, p)| (q - p) / count).collect();
    let cavity: Vec<f64> = received.iter().zip(&shared).map(|(q, t)| q - t).collect();
    let mut toy = Toy::diagonal(1, cavity, silo);
    let rule = Expectation::GaussHermite { points: 60 };
    // An undamped step of the fixed point from the received posterior has the slope as its factor.
    let limit = {
        let step = SolverChoice::NaturalGradient(NaturalGradient { rate: 1.0, expectation: rule });
        let found = toy.solve(step, &received, 1).unwrap().natural;
        let slope: Vec<f64> = found.iter().zip(&toy.cavity).map(|(q, c)| q - c).collect();
        [0, 1].map(|i| count * slope[i] + prior[i] - received[i])
    };
    let mut error = |alpha: f64| {
        let solver = SolverChoice::PowerExpectation(PowerExpectation::new(alpha));
        let found = toy.solve(solver, &received, 1).unwrap().natural;
        (0..2).map(|i| (count * (found[i] - received[i]) - limit[i]).abs()).fold(0.0, f64::max)
    };
    let errors = [0.01, 0.001, 0.0001].map(&mut error);
    for pair in errors.windows(2) {
        assert!((9.0..11.0).contains(&(pair[0] / pair[1])), "{errors:?}");
    }
}

#[test]
fn silos_that_bend_away_from_zero_make_an_improper_product_undamped_and_a_proper_one_at_one_over_their_number() {
    // log p_m = ½θ² - θ⁴/20 curves upwards near zero: every factor takes precision away.
    let bend = || -> LogLikelihood {
        Box::new(|point| {
            let theta = point[0];
            (0.5 * theta * theta - 0.05 * theta.powi(4), vec![theta - 0.2 * theta.powi(3)])
        })
    };
    let partitioned = || {
        let toys = (0..5).map(|_| Toy::diagonal(1, vec![0.0, 0.0], bend())).collect();
        Partitioned::new(toys, &[0.01, -0.5])
    };
    let rate = |rate| {
        let expectation = Expectation::GaussHermite { points: 40 };
        SolverChoice::NaturalGradient(NaturalGradient { rate, expectation })
    };
    match partitioned().round(rate(0.3), 300, 1.0) {
        Err(Error::Improper { found, .. }) => assert!(found < 0.0, "{found}"),
        other => panic!("an improper product went unnoticed: {other:?}"),
    }
    let mut damped = partitioned();
    for _ in 0..20 {
        damped.round(rate(0.3), 300, 0.2).unwrap();
    }
}
