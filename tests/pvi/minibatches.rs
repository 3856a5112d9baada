//! Compares natural-gradient steps on minibatches with their closed form, and tests settings that solvers refuse.

use std::collections::BTreeMap;

use fixtures::regression::{Regression, Rows, silos};
use partita::core::Noise;
use partita::inference::{
    Algorithm, Conjugate, Error, Expectation, GradientDescent, Lbfgs, NaturalGradient, Outcome, PowerExpectation, Pvi,
    PviSilo, Silo, SiloProgram,
};
use partita::{Clip, Device, FamilyPlan, Gaussian, PviOptions, Settings};
use partita_core::Minibatches;

const LINEAR: Regression = Regression { columns: 3, binary: false };
const NATURAL: NaturalGradient = NaturalGradient { rate: 0.3, expectation: Expectation::GaussHermite { points: 2 } };
const ROWS: usize = 17;

/// Natural parameters of the likelihood of some rows with unit noise.
fn likelihood(data: &Rows, rows: &[usize]) -> Vec<f64> {
    let mut sum = vec![0.0; 9];
    for &row in rows {
        let (x, y) = (&data.design[3 * row..3 * row + 3], data.outcomes[row]);
        let pairs = (0..3).flat_map(|i| (0..=i).map(move |j| (i, j)));
        let second = pairs.map(|(i, j)| if i == j { -0.5 } else { -1.0 } * x[i] * x[j]);
        sum.iter_mut().zip(x.iter().map(|x| x * y).chain(second)).for_each(|(sum, own)| *sum += own);
    }
    sum
}

fn settings(minibatch: usize) -> Settings {
    Settings {
        steps: 1_000,
        seed: 9,
        family: FamilyPlan::new().global(Gaussian::full_rank()),
        minibatch: BTreeMap::from([("row".to_owned(), minibatch)]),
        ..Settings::default()
    }
}

#[test]
fn a_step_on_a_minibatch_is_that_of_its_own_sufficient_statistics_times_n_over_b() {
    let device = Device::flex();
    let data = silos(&[ROWS], 3, false, &device);
    let prior = [vec![0.0; 3], vec![-0.5, 0.0, -0.5, 0.0, 0.0, -0.5]].concat();
    // Batches of five rows, the last of an epoch of two; and one that is all rows.
    for (size, local_steps, visits) in [(5, 1, 11), (5, 4, 5), (40, 3, 2)] {
        let settings = settings(size);
        let options = PviOptions { solver: NATURAL.into(), ..PviOptions::new(local_steps) };
        let (name, rows) = &data[0];
        let silo = Silo::new(name, 0, &LINEAR, rows, &device, &settings).unwrap();
        let mut silo = PviSilo::new(silo, 0, options.clone()).unwrap();
        let mut pvi = Pvi::new(&LINEAR, &device, &settings, std::slice::from_ref(name), vec![ROWS], options).unwrap();
        let batches = Minibatches::new(ROWS, size).unwrap();
        let mut expected = prior.clone();
        for visit in 0..visits {
            let request = &pvi.outgoing().unwrap()[0].message;
            pvi.incoming(vec![Outcome::Reply(silo.answer(request).unwrap())]).unwrap();
            for step in visit * local_steps..(visit + 1) * local_steps {
                let own = likelihood(rows, &batches.rows_at(step, &Noise::new(9), 0));
                let scale = batches.scale_at(step);
                let target = prior.iter().zip(own).map(|(prior, own)| prior + scale * own);
                expected.iter_mut().zip(target).for_each(|(eta, target)| *eta = 0.7 * *eta + 0.3 * target);
            }
            for (found, expected) in pvi.natural().iter().zip(&expected) {
                // Two-point quadrature and some dozens of sums of size up to 1e2.
                assert!(
                    (found - expected).abs() < 1e-11 * (1.0 + expected.abs()),
                    "{size}: {found} against {expected}"
                );
            }
        }
    }
}

#[test]
fn settings_that_a_solver_would_not_follow_are_refused_where_it_meets_them() {
    let device = Device::flex();
    let (name, rows) = &silos(&[ROWS], 3, false, &device)[0];
    let quadrature = Expectation::GaussHermite { points: 2 };
    let whole = [Conjugate.into(), Lbfgs::new(quadrature).into(), PowerExpectation::new(0.5).into()];
    let build = |solver, settings: &Settings| {
        let silo = Silo::new(name, 0, &LINEAR, rows, &device, settings).unwrap();
        PviSilo::new(silo, 0, PviOptions { solver, ..PviOptions::new(1) })
    };
    let clipped = Settings { clip: Some(Clip { norm: 1.0 }), minibatch: BTreeMap::new(), ..settings(5) };
    for solver in whole.clone() {
        let found = build(solver, &settings(5)).unwrap_err();
        assert!(matches!(found, Error::Setting { setting: "minibatch", .. }), "{found}");
    }
    for solver in whole.into_iter().chain([NATURAL.into()]) {
        let found = build(solver.clone(), &clipped).unwrap_err();
        assert!(matches!(found, Error::Setting { setting: "clip", .. }), "{found}");
        // Steps of θ are clipped with any local solver.
        assert!(solver.check_settings(&clipped, true).is_ok());
    }
    for settings in [settings(5), clipped] {
        assert!(build(GradientDescent::default().into(), &settings).is_ok());
    }
    assert!(build(NATURAL.into(), &settings(5)).is_ok());
}
