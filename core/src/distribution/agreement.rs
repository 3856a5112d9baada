//! Checks the vectorised batches of densities against the same densities event by event.

use super::evaluate::Wanted;
use super::law::Law;
use super::{
    Batch, Bernoulli, Beta, Binomial, Categorical, Density, Gradient, Laplace, Mixture, NegativeBinomial, Normal,
    OrderedLogistic, Poisson, StudentT,
};
use crate::device::Device;
use crate::math::kernel::at;
use crate::math::kernel::testing::{LENGTHS, scattered};

/// The tolerance that the trait requires of `Density::batch`.
const TOLERANCE: f64 = 1e-13;

/// Compares the sum, its terms and every derivative; `widths` are the lengths of the parameters of one event.
fn agrees(density: &dyn Density, values: &[f64], parameters: [&[f64]; 3], widths: [usize; 3]) {
    agrees_to(0.0, density, values, parameters, widths);
}

/// The same where parts of this size cancel.
fn agrees_to(parts: f64, density: &dyn Density, values: &[f64], parameters: [&[f64]; 3], widths: [usize; 3]) {
    let near = |a: f64, b: f64| (a - b).abs() <= TOLERANCE * b.abs().max(1.0) + 4e-16 * parts;
    let (count, scale) = (values.len(), 1.7);
    let lengths = widths.map(|width| count * width);
    let present = |k: usize| if parameters[k].is_empty() { 0 } else { lengths[k] };
    let zeros = || [vec![0.0; count], vec![0.0; present(0)], vec![0.0; present(1)], vec![0.0; present(2)]];
    let (mut found, mut expected) = (zeros(), zeros());
    let [value_gradient, a, b, c] = &mut found;
    let mut events = vec![0.0; count];
    let parameter_gradients = [a.as_mut_slice(), b, c];
    let mut batch = Batch { values, parameters, scale, value_gradient, parameter_gradients, events: &mut events };
    let Some(sum) = density.batch(&mut batch) else { panic!("{} {count}: left to events", density.name()) };
    let mut reference = 0.0;
    for index in 0..count {
        let own = |k: usize, width: usize| {
            let shared = parameters[k].len() <= width;
            if shared { parameters[k] } else { &parameters[k][index * width..(index + 1) * width] }
        };
        let [value, a, b, c] = &mut expected;
        let slot = |slots: &[f64], width: usize| {
            if slots.is_empty() { 0..0 } else { index * width..(index + 1) * width }
        };
        let (at_a, at_b, at_c) = (slot(a, widths[0]), slot(b, widths[1]), slot(c, widths[2]));
        let mut gradient = Gradient {
            scale,
            value: &mut value[index..=index],
            parameters: [&mut a[at_a], &mut b[at_b], &mut c[at_c]],
        };
        let event = [own(0, widths[0]), own(1, widths[1]), own(2, widths[2])];
        let term = density.log_prob(&values[index..=index], event, &mut gradient);
        assert!(near(events[index], term), "{} {count} {index}: {} {term}", density.name(), events[index]);
        reference += term;
    }
    let near_sum = (sum - reference).abs() <= TOLERANCE * reference.abs() + 4e-16 * parts * count as f64;
    assert!(near_sum, "{} {count}: {sum} {reference}", density.name());
    for (found, expected) in found.iter().zip(&expected) {
        for (a, b) in found.iter().zip(expected) {
            assert!(near(*a, *b), "{} {count}: {a} {b}", density.name());
        }
    }
}

#[test]
fn bernoulli_batches_agree_with_events() {
    for count in LENGTHS {
        let values: Vec<f64> = scattered(count, 0.0, 1.0).into_iter().map(|u| f64::from(u < 0.3)).collect();
        for logits in [scattered(count, -30.0, 20.0), vec![0.4]] {
            agrees(&Bernoulli, &values, [&logits, &[], &[]], [1; 3]);
        }
    }
}

#[test]
fn poisson_batches_agree_with_events() {
    for count in LENGTHS {
        let values: Vec<f64> = scattered(count, 0.0, 99.9).into_iter().map(f64::floor).collect();
        for log_rate in [scattered(count, -3.0, 6.0), vec![2.5]] {
            agrees(&Poisson, &values, [&log_rate, &[], &[]], [1; 3]);
        }
    }
}

#[test]
fn batches_of_large_counts_agree_to_the_size_of_their_parts() {
    for count in [17, 65, 2144] {
        let values: Vec<f64> = scattered(count, 0.0, 9_999.9).into_iter().map(f64::floor).collect();
        let most = 1e4 * 1e4_f64.ln();
        // Rates near the counts, where parts cancel.
        let near =
            |off: f64| values.iter().zip(scattered(count, -off, off)).map(|(k, off)| (k + 0.5).ln() + off).collect();
        let log_rate: Vec<f64> = near(0.1);
        agrees_to(most, &Poisson, &values, [&log_rate, &[], &[]], [1; 3]);
        let logits: Vec<f64> = near(1.0).iter().map(|log_rate: &f64| log_rate - 7.5_f64.ln()).collect();
        if count > 1_000 {
            agrees_to(2.0 * most, &NegativeBinomial, &values, [&[7.5], &logits, &[]], [1; 3]);
        }
        let total: Vec<f64> = values.iter().map(|own| own + 500.0_f64.min(9_999.0 - own)).collect();
        binomial_agrees(most, &values, &total, &logits);
    }
}

#[test]
fn binomial_and_negative_binomial_batches_agree_with_events() {
    for count in LENGTHS {
        let values: Vec<f64> = scattered(count, 0.0, 60.0).into_iter().map(f64::floor).collect();
        for logits in [scattered(count, -6.0, 6.0), vec![-0.4]] {
            for concentration in [0.02, 1.0, 12.3, 1e4] {
                for concentrations in [vec![concentration], vec![concentration; count.max(1)]] {
                    agrees(&NegativeBinomial, &values, [&concentrations, &logits, &[]], [1; 3]);
                }
            }
            let more = scattered(count, 0.0, 39.9);
            let trials: Vec<f64> = values.iter().zip(more).map(|(own, more)| own + more.floor()).collect();
            for trials in [trials, vec![60.0]] {
                binomial_agrees(0.0, &values, &trials, &logits);
            }
        }
    }
}

/// Binomial batches have no derivative by the number of trials: with that wanted, events have it.
fn binomial_agrees(parts: f64, values: &[f64], trials: &[f64], logits: &[f64]) {
    let (mut by_logits, mut events, count) = (vec![0.0; values.len()], vec![0.0; values.len()], values.len());
    let mut evaluate = |by_trials: &mut [f64]| {
        let (parameter_gradients, events) = ([by_trials, by_logits.as_mut_slice(), &mut []], events.as_mut_slice());
        let (parameters, scale, value_gradient) = ([trials, logits, &[]], 1.7, &mut [][..]);
        Binomial.batch(&mut Batch { values, parameters, scale, value_gradient, parameter_gradients, events })
    };
    assert!(count == 0 || evaluate(&mut vec![0.0; count]).is_none());
    let sum = evaluate(&mut []).unwrap();
    let mut reference = 0.0;
    for index in 0..count {
        let (mut slope, mut value, mut by_trials) = ([0.0], [0.0], [0.0]);
        let mut gradient =
            Gradient { scale: 1.7, value: &mut value, parameters: [&mut by_trials, &mut slope, &mut []] };
        let parameters = [&[at(trials, index)][..], &[at(logits, index)], &[]];
        let term = Binomial.log_prob(&values[index..=index], parameters, &mut gradient);
        let near = |a: f64, b: f64| (a - b).abs() <= TOLERANCE * b.abs().max(1.0) + 4e-16 * parts;
        assert!(near(events[index], term), "{index}: {} {term}", events[index]);
        assert!(near(by_logits[index], slope[0]), "{index}");
        reference += term;
    }
    let most = TOLERANCE * reference.abs().max(1.0) + 4e-16 * parts * count as f64;
    assert!((sum - reference).abs() <= most, "{sum} {reference}");
}

#[test]
fn many_values_of_one_normal_agree_with_events_for_any_number_of_threads() {
    let values = scattered(40_003, -4.0, 5.0);
    let on = |threads: usize| {
        let mut value_gradient = vec![0.0; values.len()];
        let mut batch = Batch {
            values: &values,
            parameters: [&[0.3], &[0.7], &[]],
            scale: 1.7,
            value_gradient: &mut value_gradient,
            parameter_gradients: [&mut [], &mut [], &mut []],
            events: &mut [],
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let sum = pool.install(|| Normal.batch(&mut batch)).unwrap();
        (sum, value_gradient)
    };
    let (sum, slopes) = on(1);
    let (other, others) = on(3);
    assert!(sum.to_bits() == other.to_bits() && slopes.iter().zip(&others).all(|(a, b)| a.to_bits() == b.to_bits()));
    let standard = |x: &f64| (x - 0.3) / 0.7;
    let constant = 0.7_f64.ln() + crate::math::special::HALF_LOG_TWO_PI;
    let expected: f64 = values.iter().map(|x| -0.5 * standard(x).powi(2) - constant).sum();
    // A plain sum of 40,003 terms of one sign errs by some 1e-14.
    assert!((sum - expected).abs() < 1e-12 * expected.abs(), "{sum} {expected}");
    for (x, slope) in values.iter().zip(&slopes) {
        assert!((slope + 1.7 * standard(x) / 0.7).abs() < 1e-12, "{x} {slope}");
    }
}

#[test]
fn normal_batches_agree_with_events() {
    for count in LENGTHS {
        let values = scattered(count, -4.0, 5.0);
        for location in [scattered(count, -1.0, 2.0), vec![0.3]] {
            for scale in [scattered(count, 0.05, 3.0), vec![0.7]] {
                agrees(&Normal, &values, [&location, &scale, &[]], [1; 3]);
            }
        }
    }
}

#[test]
fn batches_of_student_t_agree_with_events() {
    for count in LENGTHS {
        let values = scattered(count, -9.0, 5.0);
        for location in [scattered(count, -1.0, 2.0), vec![0.3]] {
            for scale in [scattered(count, 0.05, 3.0), vec![0.7]] {
                agrees(&StudentT, &values, [&[3.4], &location, &scale], [1; 3]);
            }
        }
    }
}

#[test]
fn batches_of_beta_agree_with_events() {
    for count in LENGTHS {
        let values: Vec<f64> = scattered(count, -9.0, 9.0).iter().map(|odds| 1.0 / (1.0 + odds.exp())).collect();
        for most in [1e-27, 0.3, 3.0, 60.0, 500.0] {
            for ones in [scattered(count, 1e-3 * most, most), vec![0.7 * most]] {
                for zeros in [scattered(count + 1, 1e-2 * most, most)[1..].to_vec(), vec![0.2 * most]] {
                    agrees(&Beta, &values, [&ones, &zeros, &[]], [1; 3]);
                }
            }
        }
    }
}

#[test]
fn ordered_logistic_batches_agree_with_events() {
    for cutpoints in [vec![0.3], vec![-1.0, 0.2], vec![-3.0, -0.5, -0.4, 6.0]] {
        for count in LENGTHS {
            let classes = cutpoints.len() as f64 + 1.0;
            let values: Vec<f64> = scattered(count, 0.0, classes).into_iter().map(f64::floor).collect();
            let predictor = scattered(count, -40.0, 30.0);
            agrees(&OrderedLogistic, &values, [&predictor, &cutpoints, &[]], [1, cutpoints.len(), 1]);
        }
    }
}

#[test]
fn categorical_batches_agree_with_events() {
    for (count, width) in [(1, 3), (15, 2), (40, 10), (33, 17)] {
        let values: Vec<f64> = scattered(count, 0.0, width as f64).into_iter().map(f64::floor).collect();
        agrees(&Categorical, &values, [&scattered(count * width, -30.0, 20.0), &[], &[]], [width, 1, 1]);
    }
}

#[test]
fn large_counts_and_odd_shapes_are_left_to_events() {
    let none = |density: &dyn Density, values: &[f64], parameters: [&[f64]; 3]| {
        let parameter_gradients: [&mut [f64]; 3] = [&mut [], &mut [], &mut []];
        let (value_gradient, events): (&mut [f64], &mut [f64]) = (&mut [], &mut []);
        let mut batch = Batch { values, parameters, scale: 1.0, value_gradient, parameter_gradients, events };
        assert!(density.batch(&mut batch).is_none(), "{}", density.name());
    };
    none(&Poisson, &[3.0, 10_000.0], [&[1.0], &[], &[]]);
    none(&Poisson, &[3.0, 0.5], [&[1.0], &[], &[]]);
    none(&Poisson, &[3.0, f64::NAN], [&[1.0], &[], &[]]);
    none(&Poisson, &[3.0; 3], [&[1.0; 2], &[], &[]]);
    none(&Binomial, &[3.0], [&[10_000.0], &[0.0], &[]]);
    none(&Binomial, &[3.0; 2], [&[9.0], &[0.0; 3], &[]]);
    // A table of as many places would take longer than two events.
    none(&NegativeBinomial, &[3.0, 101.0], [&[2.0], &[0.0], &[]]);
    none(&NegativeBinomial, &[3.0, 0.5], [&[2.0], &[0.0], &[]]);
    none(&NegativeBinomial, &[3.0], [&[1e7], &[-14.0], &[]]);
    none(&NegativeBinomial, &[3.0], [&[f64::NAN], &[0.0], &[]]);
    none(&NegativeBinomial, &[3.0; 2], [&[2.0, 3.0], &[0.0], &[]]);
    none(&Beta, &[0.5; 2], [&[3.0; 2], &[2.0, 501.0], &[]]);
    none(&Beta, &[0.5; 2], [&[3.0], &[f64::NAN], &[]]);
    none(&Beta, &[0.5; 3], [&[3.0; 2], &[2.0], &[]]);
    none(&StudentT, &[1.0; 2], [&[3.0; 2], &[0.0], &[1.0]]);
    none(&OrderedLogistic, &[1.0; 2], [&[1.0], &[0.5], &[]]);
    none(&OrderedLogistic, &[2.0], [&[1.0], &[0.5], &[]]);
    none(&Bernoulli, &[1.0; 3], [&[1.0; 2], &[], &[]]);
    none(&Normal, &[1.0; 3], [&[1.0; 3], &[1.0; 2], &[]]);
    none(&Categorical, &[1.0; 3], [&[1.0; 4], &[], &[]]);
}

#[test]
fn laws_of_single_precision_have_the_numbers_of_double_precision() {
    // Beyond the numbers of one thread, with a last part that is not full.
    let values: Vec<f32> = scattered(40_001, -4.0, 6.0).into_iter().map(|own| own as f32).collect();
    let double: Vec<f64> = values.iter().map(|own| f64::from(*own)).collect();
    let device = Device::flex();
    let each = device.tensor::<1>(double.iter().map(|own| 0.5 + own.abs()).collect(), [40_001]);
    let weights = device.tensor::<1>(vec![0.4, 0.6], [2]);
    let laws: [Law; 4] = [
        Normal::new(0.3, 1.7).iid([40_001]).law,
        Laplace::new(-0.2, 0.9).iid([40_001]).law,
        // Without a batch of its own, and with a parameter for each event.
        Mixture::weights(weights, vec![Normal::new(0.0, 1.0), Normal::new(0.5, 3.0)]).iid([40_001]).law,
        Normal::new(0.0, each).law,
    ];
    for law in laws {
        let arrays = law.arrays().unwrap();
        let view = law.view(&arrays);
        let mut gradient = Vec::new();
        let total = view.evaluate_single(&values, 0.6, &mut gradient);
        let expected = view.evaluate(&double, 0.6, &Wanted { value: true, ..Wanted::default() });
        assert!((total - expected.total).abs() <= 1e-12 * expected.total.abs(), "{total} {}", expected.total);
        let rounded: Vec<f32> = expected.value.iter().map(|own| *own as f32).collect();
        assert!(gradient == rounded, "{}", law.density.name());
    }
}
