//! Fits one normal density to a target with two modes: one divergence covers both, the other selects either.

use fixtures::local::Toy;
use partita::inference::{
    Expectation, ExponentialFamily, LocalSolver, NaturalGradient, NormalFamily, Plug, PowerExpectation,
};

/// The modes are at ±2, with this standard deviation each.
const WIDTH: f64 = 0.7;

/// The log density of the target and its slope, up to a constant.
fn target(point: &[f64]) -> (f64, Vec<f64>) {
    let at = |centre: f64| (-0.5 * ((point[0] - centre) / WIDTH).powi(2)).exp();
    let (left, right) = (at(-2.0), at(2.0));
    let slope = (left * (-2.0 - point[0]) + right * (2.0 - point[0])) / (WIDTH * WIDTH * (left + right));
    ((left + right).ln(), vec![slope])
}

/// Mean and standard deviation of what a solver finds from a start, where nothing but the target is known.
fn found(solver: Plug<dyn LocalSolver>, (mean, sd): (f64, f64), steps: u64) -> [f64; 2] {
    let family = NormalFamily::diagonal(1);
    let mut toy = Toy::diagonal(1, vec![0.0, 0.0], Box::new(target));
    let start = family.natural_of_standard(&[mean, sd]).unwrap();
    let (mean, spread) = family.moments(&toy.solve(&solver, &start, steps).unwrap().natural);
    [mean[0], spread.deviations()[0]]
}

#[test]
fn one_divergence_covers_two_modes_and_the_other_finds_the_one_it_starts_at() {
    // From the target to the posterior: its moments, whatever the start.
    let covering = Plug::<dyn LocalSolver>::from(PowerExpectation { alpha: 1.0, points: 200 });
    let broad = (WIDTH * WIDTH + 4.0).sqrt();
    for start in [(-2.0, 1.5), (0.0, 2.0), (2.0, 1.5)] {
        let [mean, sd] = found(covering.clone(), start, 1);
        assert!(mean.abs() < 1e-6 && (sd - broad).abs() < 1e-6, "{start:?}: {mean}, {sd} against 0, {broad}");
    }
    // From the posterior to the target: two optima, mirror images, each of them about a mode and much narrower.
    let expectation = Expectation::GaussHermite { points: 60 };
    let seeking = Plug::<dyn LocalSolver>::from(NaturalGradient { rate: 0.5, expectation });
    let [left, right] = [-2.0, 2.0].map(|start| found(seeking.clone(), (start, WIDTH), 1_000));
    for ([mean, sd], mode) in [(left, -2.0), (right, 2.0)] {
        // The mass on the other side of zero has the probability Φ(-2/0.7) = 0.002, which the optimum excludes or
        // includes.
        assert!((mean - mode).abs() < 0.05 && (sd - WIDTH).abs() < 0.05, "{mode}: {mean}, {sd}");
    }
    assert!((left[0] + right[0]).abs() < 1e-9 && (left[1] - right[1]).abs() < 1e-9, "{left:?} {right:?}");
}
