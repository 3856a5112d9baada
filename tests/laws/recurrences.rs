//! Holds recurrences and the hidden Markov model to sums over all paths, to closed forms and to differences.

use partita_core::{Array, Device, Error, Handle, Real, Recurrence, Result, Scan, hidden_markov, scan};
use partita_laws::{OperationViolation, custom_operation, derivative};

use super::custom_operations::array;

/// Runs a recurrence whose handles are initial, inputs, and then parameters.
fn run<const OUTPUTS: usize>(recurrence: impl Recurrence<OUTPUTS> + Send + 'static, x: &[Handle]) -> Result<Handle> {
    let from = Scan { initial: x[0].clone(), inputs: x[1].clone(), parameters: x[2..].to_vec() };
    Ok(scan("recurrence", recurrence, from)?.into())
}

/// x_t = a x_{t−1} + u_t: x_T = a^T x_0 + Σ a^{T−t} u_t.
struct Linear;

impl Recurrence for Linear {
    fn step<T: Real>(&self, state: &mut [T], input: &[T], parameters: &[T]) -> [T; 1] {
        state[0] = parameters[0] * state[0] + input[0];
        [state[0]]
    }
}

#[test]
fn a_linear_recurrence_is_its_closed_form() {
    let (a, start, inputs) = (0.5_f64, 2.0, [1.0, -0.25, 3.0, 0.125]);
    let closed = |steps: i32| -> f64 {
        a.powi(steps) * start + (1..=steps).zip(inputs).map(|(t, u)| a.powi(steps - t) * u).sum::<f64>()
    };
    let expected: Vec<f64> = (1..=4).map(closed).collect();
    let given = [array(&[start], &[1]), array(&inputs, &[4]), array(&[a], &[1])];
    custom_operation("linear", &Device::flex(), &given, &expected, |x| run(Linear, x)).unwrap();
}

/// Two states, two inputs a step, three parameters in two tensors, two outputs, and every function of `Real`.
struct Everything;

impl Recurrence<2> for Everything {
    fn step<T: Real>(&self, state: &mut [T], input: &[T], parameters: &[T]) -> [T; 2] {
        let [a, b, c] = [parameters[0], parameters[1], parameters[2]];
        let positive = (state[0] * state[0] + 1.0).sqrt() + a.exp();
        let mixed = positive.ln() - input[0].tanh() * b.sin() / positive.pow(c.sigmoid());
        let mut sum = mixed.log_add_exp(input[1].softplus());
        sum += state[1].cos().abs() - T::from(0.25) * c.powi(2);
        sum -= positive.recip().powf(1.5) + b.exp_m1() * a.abs().ln_1p();
        state[1] = state[0] * 0.5 - sum / 3.0;
        state[0] = -sum + 0.125;
        state[1] *= a;
        state[0] /= positive;
        [sum, state[1] - 1.0]
    }
}

fn everything() -> [Array; 4] {
    let inputs = [0.5, -1.0, 0.25, 2.0, -0.75, 0.125, 1.5, 0.75, -0.3, 0.6];
    [array(&[0.3, -0.7], &[2]), array(&inputs, &[5, 2]), array(&[0.4, -0.6], &[2, 1]), array(&[0.9], &[1])]
}

#[test]
fn every_function_and_every_input_keep_the_laws() {
    let given = everything();
    let [mut state, parameters] =
        [given[0].values.clone(), [given[2].values.clone(), given[3].values.clone()].concat()];
    let rows = given[1].values.chunks(2);
    let expected: Vec<f64> = rows.flat_map(|input| Everything.step(&mut state, input, &parameters)).collect();
    custom_operation("everything", &Device::flex(), &given, &expected, |x| run(Everything, x)).unwrap();
}

/// A logarithm whose derivative is wrong by one part in a million.
struct Faulty;

impl Recurrence for Faulty {
    fn step<T: Real>(&self, state: &mut [T], input: &[T], _: &[T]) -> [T; 1] {
        let value = state[0].value();
        state[0] = state[0].chain(value.ln(), (1.0 + 1e-6) / value) + input[0];
        [state[0]]
    }
}

#[test]
fn a_planted_fault_in_a_step_is_found() {
    let given = [array(&[2.0], &[1]), array(&[3.0], &[1])];
    let found = custom_operation("faulty", &Device::flex(), &given, &[2.0_f64.ln() + 3.0], |x| run(Faulty, x));
    assert!(matches!(found, Err(OperationViolation::Gradient { input: 0, index: 0, .. })), "{found:?}");
}

#[test]
fn the_step_that_fails_is_named_and_shapes_are_checked() {
    struct Root;
    impl Recurrence for Root {
        fn step<T: Real>(&self, state: &mut [T], input: &[T], _: &[T]) -> [T; 1] {
            state[0] -= input[0];
            [state[0].sqrt()]
        }
    }
    let device = Device::flex();
    let handle = |values: &[f64]| Handle::from(device.tensor::<1>(values.to_vec(), [values.len()]));
    let from = |inputs| Scan { initial: handle(&[2.0]), inputs, parameters: vec![] };
    let error = scan("roots", Root, from(handle(&[1.0, 0.5, 1.0, 0.0]))).unwrap_err();
    assert!(matches!(error, Error::NotFiniteMade { .. }), "{error}");
    assert!(error.to_string().starts_with("roots, step 2: the result is NaN"), "{error}");
    let cube = Handle::from(device.tensor::<3>(vec![1.0; 8], [2, 2, 2]));
    let error = scan("roots", Root, from(cube)).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }) && error.to_string().starts_with("roots, inputs"), "{error}");
}

#[test]
fn a_step_without_randomness_of_two_hundred_garch_variances_has_the_gradient_of_a_loop() {
    struct Garch;
    impl Recurrence for Garch {
        fn step<T: Real>(&self, state: &mut [T], y: &[T], p: &[T]) -> [T; 1] {
            let log_density = (state[0].ln() + y[0] * y[0] / state[0]) * -0.5;
            state[0] = p[0] + p[1] * y[0] * y[0] + p[2] * state[0];
            [log_density]
        }
    }
    let y: Vec<f64> = (0..200).map(|t| (f64::from(t) * 0.7).sin() * 1.5).collect();
    let total = |p: &[f64]| -> f64 {
        let mut variance = 1.0;
        let mut sum = 0.0;
        for y in &y {
            sum -= 0.5 * (f64::ln(variance) + y * y / variance);
            variance = p[0] + p[1] * y * y + p[2] * variance;
        }
        sum
    };
    let device = Device::flex();
    let point = [0.3, 0.2, 0.6];
    let leaves = point.map(|value| device.leaf::<1>(vec![value], [1]));
    let sum = scan(
        "garch",
        Garch,
        Scan {
            initial: device.tensor::<1>(vec![1.0], [1]).into(),
            inputs: device.tensor::<1>(y.clone(), [200]).into(),
            parameters: leaves.iter().cloned().map(Handle::from).collect(),
        },
    )
    .unwrap()
    .sum();
    assert!((sum.clone().into_scalar::<f64>() - total(&point)).abs() < 1e-10);
    let gradients = sum.backward();
    for (index, leaf) in leaves.iter().enumerate() {
        let found: f64 = leaf.grad(&gradients).unwrap().into_scalar();
        let expected = derivative(total, &point, index);
        assert!((found - expected).abs() < 1e-8 * expected.abs(), "{index}: {found} {expected}");
    }
}

/// log p by the sum over all paths of states.
fn by_paths(initial: &[f64], transition: &[f64], observation: &[f64]) -> f64 {
    let (states, times) = (initial.len(), observation.len() / initial.len());
    let path = |number: usize| -> f64 {
        let state = |time: usize| number / states.pow(u32::try_from(time).unwrap()) % states;
        let moves: f64 = (1..times).map(|time| transition[state(time - 1) * states + state(time)]).sum();
        let seen: f64 = (0..times).map(|time| observation[time * states + state(time)]).sum();
        (initial[state(0)] + moves + seen).exp()
    };
    (0..states.pow(u32::try_from(times).unwrap())).map(path).sum::<f64>().ln()
}

#[test]
fn the_hidden_markov_model_sums_over_all_paths() {
    // Not normalised, as nothing asks for it.
    let initial = [-0.3, -1.2, -2.0];
    let transition = [-0.5, -1.5, -2.5, -0.75, -1.0, -1.25, -3.0, -0.1, -1.75];
    let observation: Vec<f64> = (0..15).map(|cell| -0.2 * f64::from(cell * 7 % 11)).collect();
    let expected = by_paths(&initial, &transition, &observation);
    let given = [array(&initial, &[3]), array(&transition, &[3, 3]), array(&observation, &[5, 3])];
    let model = |x: &[Handle]| Ok(hidden_markov(x[0].tensor()?, x[1].tensor()?, x[2].tensor()?)?.into());
    custom_operation("hidden Markov model", &Device::flex(), &given, &[expected], model).unwrap();
}

#[test]
fn impossible_transitions_have_no_gradient_and_impossible_data_are_an_error() {
    let device = Device::flex();
    let never = f64::NEG_INFINITY;
    let transition = device.leaf::<2>(vec![0.0, never, never, 0.0], [2, 2]);
    let initial = device.tensor::<1>(vec![0.5_f64.ln(); 2], [2]);
    let observation = device.tensor::<2>(vec![-1.0, -2.0, -1.0, -2.0, never, -2.0], [3, 2]);
    let value = hidden_markov(initial.clone(), transition.clone(), observation).unwrap();
    assert!((value.clone().into_scalar::<f64>() - (0.5_f64.ln() - 6.0)).abs() < 1e-14);
    let gradient: Vec<f64> = transition.grad(&value.backward()).unwrap().into_data().try_into_vec().unwrap();
    assert!(gradient.iter().zip([0.0, 0.0, 0.0, 2.0]).all(|(a, b)| (a - b).abs() < 1e-14), "{gradient:?}");
    let impossible = device.tensor::<2>(vec![-1.0, never, never, -2.0], [2, 2]);
    let error = hidden_markov(initial.clone(), transition.clone(), impossible).unwrap_err();
    assert!(error.to_string().starts_with("hidden Markov model: the result is -inf"), "{error}");
    let error = hidden_markov(initial, transition, device.tensor::<2>(vec![0.0; 3], [1, 3])).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }), "{error}");
}
