//! Holds the kernels of devices to tensor operations and to the host: random numbers, and the edges of single precision.

use burn::tensor::Tensor;
use partita::core::kernel::AdamUpdate;
use partita::core::kernel::on_device::{AdamTensors, DiagonalNoise, DrawGradients};
use partita::core::special::{sigmoid, softplus};
use partita::core::{Density, Handle, Key, Noise, Purpose, Term};
use partita::{Bernoulli, Categorical, Device, Normal, Poisson};

use super::on_every_gpu;

/// Half the distance of one to the next number of single precision: the relative error of one rounding.
const ROUNDING: f64 = 6e-8;
/// What is smaller may be zero in single precision.
const SMALLEST: f64 = 1e-36;

/// Standard normal numbers times `scale`, in single precision.
fn numbers(count: usize, scale: f64, block: u32) -> Vec<f64> {
    let mut own = vec![0.0; count];
    Noise::new(26).stream(Key::new(Purpose::Check, 12).block(block)).normal(&mut own);
    own.into_iter().map(|number| single(scale * number)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "single precision is what is asked for")]
fn single(number: f64) -> f64 {
    f64::from(number as f32)
}

fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    Handle::from(tensor).read().unwrap().values
}

/// Fails where a number differs by more than its bound, or is NaN where the other is not.
fn near(what: &str, found: &[f64], expected: &[f64], bound: impl Fn(usize) -> f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let same = found.is_nan() && expected.is_nan();
        let bound = bound(place);
        assert!(same || (found - expected).abs() <= bound, "{what}, number {place}: {found:e} {expected:e}, {bound:e}");
    }
}

#[test]
fn a_step_of_adam_is_that_of_tensor_operations() {
    on_every_gpu(|name, device| {
        for count in [0, 1, 5, 1_003, 70_001] {
            for has_units in [false, true] {
                let tensor = |numbers: &[f64]| device.tensor(numbers.to_vec(), [count]);
                let units = numbers(count, 3.0, 0);
                let units = has_units.then(|| tensor(&units.iter().map(|own| own.abs()).collect::<Vec<_>>()));
                let value = numbers(count, 1.0, 1);
                let mut fused = AdamTensors::new(tensor(&value));
                let mut plain = fused.clone();
                for time in 1..4 {
                    let mut gradient = numbers(count, 10.0, 1 + u32::try_from(time).unwrap());
                    let edges = [1e20, -1e30, f64::NAN, f64::INFINITY, 0.0];
                    gradient
                        .iter_mut()
                        .zip(edges)
                        .take(if time == 1 { count } else { 0 })
                        .for_each(|(own, edge)| *own = edge);
                    let update = AdamUpdate::at(time, 0.01, [0.9, 0.999], 1e-8);
                    let before = [read(plain.first.clone()), read(plain.second.clone())];
                    fused.step(tensor(&gradient), units.as_ref(), &update);
                    plain.step_plain(tensor(&gradient), units.as_ref(), &update);
                    let what = format!("{name}, {count} numbers, units {has_units}, step {time}");
                    // A dozen operations, each rounded once, on numbers of these sizes.
                    let bound = |size: f64| 16.0 * ROUNDING * size + SMALLEST;
                    let [first, second] = [read(plain.first.clone()), read(plain.second.clone())];
                    let unit = units.clone().map_or(vec![1.0; count], read);
                    let step = |place: usize| 0.01 * unit[place] * 20.0;
                    near(&what, &read(fused.value.clone()), &read(plain.value.clone()), |place| {
                        bound(value[place].abs() + step(place))
                    });
                    near(&what, &read(fused.first.clone()), &first, |place| {
                        bound(first[place].abs() + 2.0 * before[0][place].abs())
                    });
                    near(&what, &read(fused.second.clone()), &second, |place| {
                        bound(second[place].abs() + before[1][place])
                    });
                    assert!(read(fused.second.clone()).iter().all(|own| !own.is_infinite()), "{what}");
                }
            }
        }
    });
}

#[test]
fn draws_and_gradients_through_them_are_those_of_tensor_operations() {
    on_every_gpu(|name, device| {
        for (draws, width) in [(1, 1), (1, 1_003), (3, 0), (3, 7), (32, 1_003)] {
            let host = Device::flex();
            let scale: Vec<f64> = numbers(width, 1.0, 1).iter().map(|own| single(own.exp())).collect();
            let given = [
                (numbers(width, 5.0, 0), 1),
                (scale, 1),
                (numbers(draws * width, 1.0, 2), draws),
                (numbers(draws * width, 10.0, 3), draws),
                (numbers(draws * width, 10.0, 4), draws),
            ];
            let on = |device: &Device| given.clone().map(|(own, rows)| device.tensor::<2>(own, [rows, width]));
            let [mean, scale, noise, location, deviation] = on(device);
            let fused = DiagonalNoise { scale: &scale, noise: &noise };
            let [host_mean, host_scale, host_noise, host_location, host_deviation] = on(&host);
            let plain = DiagonalNoise { scale: &host_scale, noise: &host_noise };
            let what = format!("{name}, {draws} draws of {width}");
            let (found, expected) = (fused.draw(&mean), plain.draw_plain(&host_mean));
            let deviations = read(expected.deviation);
            near(&what, &read(found.deviation), &deviations, |place| 2.0 * ROUNDING * deviations[place].abs());
            let size = |place: usize| given[0].0[place % width].abs() + deviations[place].abs();
            near(&what, &read(found.latent), &read(expected.latent), |place| 3.0 * ROUNDING * size(place));
            for adds_score in [false, true] {
                let found = fused.pull_back(DrawGradients { location: &location, deviation: &deviation, adds_score });
                let gradients = DrawGradients { location: &host_location, deviation: &host_deviation, adds_score };
                let expected = plain.pull_back_plain(gradients);
                // The sums of sizes: each term has a few roundings, and their sum one each.
                let sum = |column: usize, term: &dyn Fn(usize) -> f64| -> f64 {
                    let terms = (0..draws).map(|draw| term(draw * width + column).abs());
                    (10.0 + draws as f64) * ROUNDING * terms.sum::<f64>()
                };
                let scale = |place: usize| given[1].0[place % width];
                let through =
                    |place: usize, index: usize| given[index].0[place].abs() + given[2].0[place].abs() / scale(place);
                near(&what, &read(found.mean), &read(expected.mean), |column| sum(column, &|place| through(place, 3)));
                near(&what, &read(found.log_scale), &read(expected.log_scale), |column| {
                    sum(column, &|place| through(place, 4) * scale(place) * given[2].0[place])
                });
            }
        }
    });
}

/// A value or a parameter of events.
struct Given {
    numbers: Vec<f64>,
    shape: [usize; 2],
    /// Whether its gradient is asked for.
    is_leaf: bool,
}

impl Given {
    fn new(numbers: Vec<f64>, width: usize) -> Self {
        Self { shape: [numbers.len() / width, width], numbers, is_leaf: true }
    }

    fn data(numbers: Vec<f64>) -> Self {
        Self { is_leaf: false, ..Self::new(numbers, 1) }
    }
}

/// The log density of each event, and the gradients of its sum with these weights by the leaves among `given`: a value, and
/// parameters.
fn evaluated(density: &dyn Density, given: &[Given], weights: &[f64], device: &Device) -> Vec<Vec<f64>> {
    let tensor = |own: &Given| match device.tensor::<2>(own.numbers.clone(), own.shape) {
        leaf if own.is_leaf => leaf.autodiff().require_grad(),
        constant => constant,
    };
    let leaves: Vec<Tensor<2>> = given.iter().map(tensor).collect();
    let mut parameters = [const { Term::Number(0.0) }; 3];
    parameters.iter_mut().zip(&leaves[1..]).for_each(|(slot, leaf)| *slot = Term::Tensor(leaf.clone()));
    let events = weights.len();
    let zero = device.tensor::<2>(vec![0.0; events], [events, 1]);
    let terms = density.on_device(Term::Tensor(leaves[0].clone()), parameters).unwrap();
    let log_prob = terms.into_iter().fold(zero, |sum, term| match term {
        Term::Number(number) => sum + number,
        Term::Tensor(own) => sum + own,
    });
    let gradients = (log_prob.clone() * device.tensor(weights.to_vec(), [events, 1])).sum().backward();
    let by = leaves.iter().zip(given).filter(|(_, given)| given.is_leaf);
    std::iter::once(read(log_prob.inner())).chain(by.map(|(leaf, _)| read(leaf.grad(&gradients).unwrap()))).collect()
}

/// Holds a density on every GPU to its tensor operations on the CPU in double precision: `sizes` gives how many roundings of
/// single precision the log density of each event may be off, and the gradient of each event's log density by each number of
/// a leaf.
fn density_agrees(density: &dyn Density, given: &[Given], sizes: &[Vec<f64>]) {
    let events = given[0].numbers.len();
    let weights = numbers(events, 1.0, 99);
    let expected = evaluated(density, given, &weights, &Device::flex());
    on_every_gpu(|name, device| {
        let found = evaluated(density, given, &weights, device);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let what = format!("{name}, {}, {events} events, output {index}", density.name());
            near(&what, found, expected, |place| {
                let own = &sizes[index];
                let bound = |place: usize| {
                    let weight = if index == 0 { 1.0 } else { weights[place * events / own.len()].abs() };
                    weight * (ROUNDING * own[place] + SMALLEST)
                };
                // What serves all events has the sum of their gradients.
                if expected.len() < events { (0..own.len()).map(bound).sum() } else { bound(place) }
            });
        }
    });
}

/// What an exponential of a number of this size is off, in roundings: Vulkan allows 3 + 2|x| units in the last place, and the
/// operations around it add a few.
fn exponential(size: f64) -> f64 {
    10.0 + 4.0 * size
}

/// Random numbers of this size, and the edges: large ones, one near zero, and what is none.
fn with_edges(count: usize, scale: f64, large: f64) -> Vec<f64> {
    let mut own = numbers(count, scale, 7);
    let edges = [large, -large, 0.0, 0.3 * large, -0.3 * large, 1e-4, f64::NAN];
    own.iter_mut().zip(edges).for_each(|(own, edge)| *own = single(edge));
    own
}

/// None is a multiple of a group of threads but the last.
const COUNTS: [usize; 5] = [1, 7, 1_003, 20_011, 4_096];

#[test]
fn bernoulli_log_densities_and_slopes_have_the_digits_of_single_precision_in_both_tails() {
    for count in COUNTS {
        for outcome in [0.0, 1.0] {
            let logits = with_edges(count, 4.0, 100.0);
            let outcomes: Vec<f64> =
                (0..count).map(|event| if event < 7 { outcome } else { (event % 2) as f64 }).collect();
            let other = |event: usize| (1.0 - 2.0 * outcomes[event]) * logits[event];
            let sizes = [softplus, sigmoid].map(|size| {
                (0..count).map(|event| exponential(logits[event].abs()) * size(other(event))).collect::<Vec<_>>()
            });
            density_agrees(&Bernoulli, &[Given::data(outcomes.clone()), Given::new(logits.clone(), 1)], &sizes);
        }
    }
}

#[test]
fn poisson_log_densities_and_slopes_agree() {
    for count in COUNTS {
        let log_rates = with_edges(count, 2.0, 10.0);
        let counts: Vec<f64> = log_rates
            .iter()
            .map(|own| own.exp().floor())
            .enumerate()
            .map(|(event, own)| if event == 6 { 3.0 } else { own })
            .collect();
        let rate = |event: usize| exponential(log_rates[event].abs()) * log_rates[event].exp();
        // Log-gamma is a difference of numbers of the size of k log k.
        let gamma = |event: usize| (counts[event] + 8.0) * (counts[event] + 8.0).ln();
        let value = |event: usize| rate(event) + 4.0 * (counts[event] * log_rates[event]).abs() + 8.0 * gamma(event);
        let sizes =
            [(0..count).map(value).collect(), (0..count).map(|event| rate(event) + counts[event]).collect::<Vec<_>>()];
        density_agrees(&Poisson, &[Given::data(counts.clone()), Given::new(log_rates.clone(), 1)], &sizes);
    }
}

#[test]
fn normal_log_densities_and_slopes_agree_for_parameters_of_each_event_and_of_all() {
    for count in COUNTS {
        for shared in [false, true] {
            let parameters = if shared { 1 } else { count };
            let value = if shared { numbers(count, 3.0, 7) } else { with_edges(count, 3.0, 1e4) };
            let location = numbers(parameters, 1.0, 1);
            let scale: Vec<f64> = numbers(parameters, 1.0, 2).iter().map(|own| single(own.exp())).collect();
            let sizes = |size: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
                let event = |event: usize| {
                    let [location, scale] = [&location, &scale].map(|own| own[event % parameters]);
                    10.0 * size((value[event] - location) / scale, scale)
                };
                (0..count).map(event).collect()
            };
            let slope = sizes(&|z, scale| z.abs() / scale);
            let sizes = [
                sizes(&|z, scale| 0.5 * z * z + scale.ln().abs() + 1.0),
                slope.clone(),
                slope,
                sizes(&|z, scale| (z * z + 1.0) / scale),
            ];
            let given = [&value, &location, &scale].map(|own| Given::new(own.clone(), 1));
            density_agrees(&Normal, &given, &sizes);
        }
    }
}

/// What the reference itself is off, which takes the logarithm of a sum near one: 1e-15, in roundings of single precision.
const REFERENCE: f64 = 2e-8;

#[test]
fn categorical_log_densities_and_slopes_have_the_digits_of_single_precision() {
    for (count, classes) in [(1, 1), (1, 3), (7, 2), (1_003, 10), (20_011, 3)] {
        let logits = with_edges(count * classes, 4.0, 100.0);
        let labels: Vec<f64> = (0..count).map(|event| (event % classes) as f64).collect();
        let mut sizes = [Vec::new(), Vec::new()];
        for (event, own) in logits.chunks_exact(classes).enumerate() {
            let class = event % classes;
            let largest = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let smallest = own.iter().copied().fold(f64::INFINITY, f64::min);
            let roundings = exponential(largest - smallest) + 2.0 * classes as f64;
            let sum: f64 = own.iter().map(|logit| (logit - largest).exp()).sum();
            sizes[0].push(roundings * ((own[class] - largest).abs() + sum.ln()) + REFERENCE);
            let others = |class: usize| -> f64 {
                own.iter()
                    .enumerate()
                    .filter(|(other, _)| *other != class)
                    .map(|(_, logit)| (logit - largest).exp())
                    .sum()
            };
            let slope = |column: usize| if column == class { others(class) } else { (own[column] - largest).exp() };
            sizes[1].extend((0..classes).map(|column| roundings * slope(column) / sum + REFERENCE));
        }
        density_agrees(&Categorical, &[Given::data(labels.clone()), Given::new(logits.clone(), classes)], &sizes);
    }
}
