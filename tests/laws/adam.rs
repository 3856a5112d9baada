//! Holds the fused loop of Adam to the formula of its paper and to Burn's optimiser.

use partita_core::burn::optim::{AdamConfig, Optimizer};
use partita_core::kernel::{AdamUpdate, adam, adam_single};
use partita_core::{Device, Precision};

use super::kernels::scattered;

#[test]
fn a_step_is_that_of_the_paper() {
    for length in [0, 1, 3, 15, 16, 17, 65, 2144] {
        let mut state = [scattered(length, -1.0, 1.0), vec![0.0; length], vec![0.0; length]];
        let mut expected = state.clone();
        for time in 1..=20_u64 {
            let gradient = scattered(length, -3.0, time as f64);
            let [parameters, first, second] = &mut state;
            adam(parameters, &gradient, first, second, &AdamUpdate::at(time, 0.01, [0.9, 0.999], 1e-8));
            for (index, g) in gradient.iter().enumerate() {
                expected[1][index] = 0.9 * expected[1][index] + (1.0 - 0.9) * g;
                expected[2][index] = 0.999 * expected[2][index] + (1.0 - 0.999) * g * g;
                let m = expected[1][index] / (1.0 - 0.9_f64.powf(time as f64));
                let v = expected[2][index] / (1.0 - 0.999_f64.powf(time as f64));
                expected[0][index] -= 0.01 * m / (v.sqrt() + 1e-8);
            }
        }
        // Twenty steps of a few roundings each.
        for (found, expected) in state[0].iter().zip(&expected[0]) {
            assert!((found - expected).abs() < 1e-13 * expected.abs().max(1e-2), "{length}: {found} {expected}");
        }
    }
}

#[test]
fn means_in_single_precision_lead_to_the_same_place() {
    let length = 2_144;
    let (mut double, mut single) = (scattered(length, -1.0, 1.0), scattered(length, -1.0, 1.0));
    let [mut first, mut second] = [(); 2].map(|()| vec![0.0; length]);
    let [mut own_first, mut root] = [(); 2].map(|()| vec![0.0_f32; length]);
    for time in 1..=200_u64 {
        let gradient = scattered(length, -3.0, (time % 7) as f64);
        let update = AdamUpdate::at(time, 0.01, [0.9, 0.999], 1e-8);
        adam(&mut double, &gradient, &mut first, &mut second, &update);
        adam_single(&mut single, &gradient, &mut own_first, &mut root, &update);
    }
    // A mean of gradients errs by ten times a few roundings of 6e-8, a root by half as many for each step: 1.3e-5 of 200 steps of
    // at most 0.01, and as much again, as steps are of means that differ.
    let farthest = fixtures::largest(double.iter().zip(&single).map(|(a, b)| (a - b).abs()));
    assert!(farthest > 0.0 && farthest < 5e-5, "{farthest}");
}

#[test]
fn gradients_whose_squares_single_precision_cannot_hold_lead_to_the_same_place() {
    for size in [1e-33, 1e-25, 1e-15, 1e15, 1e25, 1e37] {
        let length = 67;
        let [mut double, mut single] = [(); 2].map(|()| vec![0.0; length]);
        let [mut first, mut second] = [(); 2].map(|()| vec![0.0; length]);
        let [mut own_first, mut root] = [(); 2].map(|()| vec![0.0_f32; length]);
        for time in 1..=50_u64 {
            let gradient: Vec<f64> =
                scattered(length, -3.0, (time % 7) as f64).into_iter().map(|number| size * number).collect();
            // A constant far below all of them.
            let update = AdamUpdate::at(time, 0.01, [0.9, 0.999], 1e-60);
            adam(&mut double, &gradient, &mut first, &mut second, &update);
            adam_single(&mut single, &gradient, &mut own_first, &mut root, &update);
        }
        let farthest = fixtures::largest(double.iter().zip(&single).map(|(a, b)| (a - b).abs()));
        assert!(farthest > 0.0 && farthest < 5e-5, "{size}: {farthest}");
        assert!(fixtures::largest(double.iter().map(|own| own.abs())) > 0.1);
    }
}

#[test]
fn a_gradient_that_single_precision_cannot_hold_moves_by_the_rate() {
    let [mut parameters, gradient] = [vec![0.5; 3], vec![1e60, -3.0, f64::NAN]];
    let [mut first, mut root] = [(); 2].map(|()| vec![0.0_f32; 3]);
    let mut step = |time, gradient: &[f64]| {
        let update = AdamUpdate::at(time, 0.01, [0.9, 0.999], 1e-8);
        adam_single(&mut parameters, gradient, &mut first, &mut root, &update);
        parameters.clone()
    };
    let found = step(1, &gradient);
    assert!((found[0] - 0.49).abs() < 1e-6 && (found[1] - 0.51).abs() < 1e-6 && found[2].is_nan(), "{found:?}");
    // Its means are finite: it goes on.
    assert!(step(2, &[1.0, 1.0, 1.0])[..2].iter().all(|own| own.is_finite()));
}

#[test]
fn a_gradient_of_zero_moves_nothing() {
    let (mut parameters, mut first, mut second) = (vec![1.5; 18], vec![0.0; 18], vec![0.0; 18]);
    adam(&mut parameters, &[0.0; 18], &mut first, &mut second, &AdamUpdate::at(1, 0.1, [0.9, 0.999], 1e-8));
    assert_eq!(parameters, [1.5; 18]);
}

#[test]
fn adam_agrees_with_that_of_burn() {
    let device = Device::flex().with_precision(Precision::Double);
    let burns = AdamConfig::new().with_epsilon(1e-8).build();
    let mut parameters = scattered(67, -1.0, 1.0);
    let (mut first, mut second) = (vec![0.0; 67], vec![0.0; 67]);
    let (mut tensor, mut state) = (device.tensor::<1>(parameters.clone(), [67]), None);
    for time in 1..=30 {
        let gradient = scattered(67, -3.0, f64::from(time));
        (tensor, state) = burns.step(0.01, tensor, device.tensor(gradient.clone(), [67]), state);
        adam(&mut parameters, &gradient, &mut first, &mut second, &in_single_precision(time));
    }
    let expected: Vec<f64> = tensor.into_data().try_into_vec().unwrap();
    assert!(parameters.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()));
}

/// The constants as Burn computes them: in f32.
fn in_single_precision(time: i32) -> AdamUpdate {
    let (decay, epsilon) = ([0.9_f32, 0.999], 1e-8_f32);
    let left = decay.map(|decay| 1.0 - decay.powi(time));
    AdamUpdate {
        rate: 0.01,
        first: [decay[0].into(), (1.0 - decay[0]).into()],
        second: [decay[1].into(), (1.0 - decay[1]).into()],
        correction: (left[1].sqrt() / left[0]).into(),
        epsilon: (epsilon * left[1].sqrt()).into(),
    }
}
