//! Holds solutions of differential equations to closed forms, to scipy and to differences.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod growth;

use fixtures::numbers;
use partita_core::burn::tensor::Tensor;
use partita_core::ode::{Ode, OdeMethod, OdeOptions, OdeSystem, ode};
use partita_core::{Device, Error, Handle, Real};
use partita_laws::derivative;
use serde_json::Value;

const METHODS: [OdeMethod; 2] = [OdeMethod::NonStiff, OdeMethod::Stiff];

#[derive(Clone)]
struct LotkaVolterra;

impl OdeSystem for LotkaVolterra {
    fn derivative<T: Real>(&self, _: f64, x: &[T], p: &[T], derivative: &mut [T]) {
        derivative[0] = p[0] * x[0] - p[1] * x[0] * x[1];
        derivative[1] = p[3] * x[0] * x[1] - p[2] * x[1];
    }
}

#[derive(Clone)]
struct Robertson;

impl OdeSystem for Robertson {
    fn derivative<T: Real>(&self, _: f64, x: &[T], p: &[T], derivative: &mut [T]) {
        let [a, b, c] = [p[0] * x[0], p[1] * x[1] * x[2], p[2] * x[1] * x[1]];
        derivative[0] = b - a;
        derivative[1] = a - b - c;
        derivative[2] = c;
    }
}

/// x' = −θ₀ x + θ₁ cos t: time, and a parameter that moves nothing at first.
struct Forced;

impl OdeSystem for Forced {
    fn derivative<T: Real>(&self, time: f64, x: &[T], p: &[T], derivative: &mut [T]) {
        derivative[0] = -p[0] * x[0] + p[1] * time.cos();
    }
}

/// A problem with everything tracked: the solution, and the gradient of one of its numbers by initial state and
/// parameters.
struct Solved {
    values: Vec<f64>,
    leaves: [Tensor<1>; 2],
    states: Tensor<2>,
}

fn solve(
    system: impl OdeSystem + Send + 'static,
    given: [&[f64]; 2],
    times: &[f64],
    options: OdeOptions,
) -> Result<Solved, Error> {
    let device = Device::flex();
    let leaves = given.map(|numbers| device.leaf::<1>(numbers, [numbers.len()]));
    let [initial, parameters] = leaves.clone().map(Handle::from);
    let from = Ode { initial, parameters: vec![parameters], start: 0.0, times: times.to_vec(), options };
    let states = ode("system", system, from)?;
    let values = states.clone().into_data().try_into_vec().unwrap();
    Ok(Solved { values, leaves, states })
}

impl Solved {
    fn gradient(self, time: usize, state: usize) -> Vec<f64> {
        let gradients = self.states.narrow(0, time, 1).narrow(1, state, 1).sum().backward();
        let of = |leaf: &Tensor<1>| leaf.grad(&gradients).unwrap().into_data().try_into_vec::<f64>().unwrap();
        self.leaves.iter().flat_map(of).collect()
    }
}

/// The largest difference from scipy's states and sensitivities, relative to 1e-3 and the number.
fn worst<S: OdeSystem + Send + Clone + 'static>(name: &str, system: &S, options: OdeOptions) -> [f64; 2] {
    let golden: Value = serde_json::from_str(include_str!("../golden/ode.json")).unwrap();
    let case = golden["cases"].as_array().unwrap().iter().find(|case| case["name"] == name).unwrap();
    let (initial, parameters) = (numbers(&case["initial"]), numbers(&case["parameters"]));
    let rows = case["rows"].as_array().unwrap();
    let times: Vec<f64> = rows.iter().map(|row| row["time"].as_f64().unwrap()).collect();
    let mut worst = [0.0_f64; 2];
    let error = |found: f64, expected: f64| (found - expected).abs() / (1e-3 + expected.abs());
    for (time, row) in rows.iter().enumerate() {
        for (state, expected) in numbers(&row["state"]).into_iter().enumerate() {
            let solved = solve(system.clone(), [&initial, &parameters], &times, options).unwrap();
            worst[0] = fixtures::largest([worst[0], error(solved.values[time * initial.len() + state], expected)]);
            let expected = numbers(&row["sensitivity"][state]);
            for ((found, expected), unit) in solved.gradient(time, state).iter().zip(&expected).zip(1..) {
                // Derivatives by rates of 10⁴ and 10⁷, in units of the rate.
                let scale = if unit > initial.len() { parameters[unit - initial.len() - 1] } else { 1.0 };
                worst[1] = fixtures::largest([worst[1], error(found * scale, expected * scale)]);
            }
        }
    }
    worst
}

#[test]
fn predators_and_prey_are_those_of_scipy() {
    let tight = |method| OdeOptions { method, relative: 1e-10, absolute: 1e-10 };
    let [states, sensitivities] = worst("lotka_volterra", &LotkaVolterra, tight(OdeMethod::NonStiff));
    assert!(states < 1e-7 && sensitivities < 1e-6, "{states} {sensitivities}");
    let [states, sensitivities] = worst("lotka_volterra", &LotkaVolterra, tight(OdeMethod::Stiff));
    assert!(states < 1e-6 && sensitivities < 1e-4, "{states} {sensitivities}");
}

#[test]
fn stiff_reactions_are_those_of_scipy() {
    let options = OdeOptions { method: OdeMethod::Stiff, relative: 1e-9, absolute: 1e-11 };
    let [states, sensitivities] = worst("robertson", &Robertson, options);
    assert!(states < 1e-5 && sensitivities < 1e-3, "{states} {sensitivities}");
}

#[test]
fn a_forced_decay_is_its_closed_form() {
    // x = e^{−kt} (x₀ − a k/(k² + 1)) + a (k cos t + sin t)/(k² + 1)
    let closed = |x: &[f64], t: f64| {
        let [start, k, a] = [x[0], x[1], x[2]];
        let norm = k * k + 1.0;
        (-k * t).exp() * (start - a * k / norm) + a * (k * t.cos() + t.sin()) / norm
    };
    let (point, times) = ([2.0, 0.75, 1.5], [0.25, 1.0, 6.0]);
    for method in METHODS {
        let options = OdeOptions { method, relative: 1e-10, absolute: 1e-10 };
        for (index, time) in times.into_iter().enumerate() {
            // A tape is read backwards once.
            let solved = solve(Forced, [&point[..1], &point[1..]], &times, options).unwrap();
            let expected = closed(&point, time);
            assert!((solved.values[index] - expected).abs() < 1e-7, "{method:?} at {time}");
            for (entry, found) in solved.gradient(index, 0).into_iter().enumerate() {
                let expected = derivative(|x| closed(x, time), &point, entry);
                assert!((found - expected).abs() < 1e-5, "{method:?} at {time} by {entry}: {found} {expected}");
            }
        }
    }
}

#[test]
fn the_gradient_is_that_of_differences_of_the_solver_itself() {
    let (point, times) = ([1.2, 0.7, 0.8, 0.5, 0.6, 0.3], [3.0]);
    let options = OdeOptions { method: OdeMethod::NonStiff, relative: 1e-11, absolute: 1e-11 };
    let solved = |x: &[f64]| solve(LotkaVolterra, [&x[..2], &x[2..]], &times, options).unwrap();
    let gradient = solved(&point).gradient(0, 1);
    for (index, found) in gradient.into_iter().enumerate() {
        let expected = derivative(|x| solved(x).values[1], &point, index);
        // The solver's own error over the step of the differences: 1e-11 / 1e-3, times ten for the path.
        assert!((found - expected).abs() < 1e-7, "{index}: {found} {expected}");
    }
}

#[test]
fn only_what_is_tracked_has_a_gradient() {
    let device = Device::flex();
    let rate = device.leaf::<1>(vec![0.5], [1]);
    let from = Ode {
        initial: device.tensor::<1>(vec![3.0], [1]).into(),
        parameters: vec![device.tensor::<1>(vec![0.0], [1]).into(), rate.clone().into()],
        start: 1.0,
        times: vec![3.0],
        options: OdeOptions::default(),
    };
    // The rate is now the force: x = 3 + θ₁ (sin 3 − sin 1).
    let state = ode("forced", Forced, from).unwrap();
    let slope: f64 = rate.grad(&state.backward()).unwrap().into_scalar();
    assert!((slope - (3.0_f64.sin() - 1.0_f64.sin())).abs() < 1e-6, "{slope}");
}

#[test]
fn a_failure_names_the_system_and_the_time_reached() {
    struct Pole;
    impl OdeSystem for Pole {
        fn derivative<T: Real>(&self, _: f64, x: &[T], p: &[T], derivative: &mut [T]) {
            derivative[0] = p[0] * x[0] * x[0];
        }
    }
    struct Root;
    impl OdeSystem for Root {
        fn derivative<T: Real>(&self, _: f64, x: &[T], p: &[T], derivative: &mut [T]) {
            derivative[0] = -x[0].sqrt() - p[0];
        }
    }
    for method in METHODS {
        let options = OdeOptions { method, ..OdeOptions::default() };
        // x = 1/(1 − 2t) has a pole at one half; 1 − x ends at zero after 2 − 2 log 2 = 0.6137.
        let pole = solve(Pole, [&[1.0], &[2.0]], &[1.0], options).err().unwrap().to_string();
        assert!(pole.starts_with("system: the solver stopped at time 5.00000") || pole.contains("4.9999"), "{pole}");
        let root = solve(Root, [&[1.0], &[1.0]], &[3.0], options).err().unwrap().to_string();
        assert!(root.starts_with("system: the solver stopped at time 6.137"), "{root}");
    }
    let times = |times: &[f64]| solve(Pole, [&[1.0], &[0.1]], times, OdeOptions::default()).err().unwrap().to_string();
    assert!(times(&[2.0, 1.0]).contains("finite times that ascend"));
    assert!(times(&[0.0]).contains("all later than `start`"));
    assert!(times(&[]).contains("at least one time"));
}
