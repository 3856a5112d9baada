//! Holds composites against formulas written by hand, and a model with them against the same model of factors.

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::{
    Array, Categorical, Censoring, Chance, Device, Discrete, Distribution, Exponential, Gamma, HalfNormal, Handle,
    Latents, LogDensity, Mixture, Model, Normal, OrderedLogistic, Poisson, Result, Scope, SiteTable, Support,
    natural_values, pointwise_log_likelihood,
};

/// Counts with more zeros, of a log rate and a chance.
type WithZeros = fn(Tensor<1>, Tensor<1>) -> Distribution<1, Discrete>;

/// Log probabilities of counts, with the slopes of their sum, weighted, by log rates and chances.
fn weighted(of: WithZeros, counts: &[f64], weights: &[f64], parameters: [&[f64]; 2]) -> (Vec<f64>, [Vec<f64>; 2]) {
    let device = Device::flex();
    let tensor = |own: &[f64]| -> Tensor<1> { device.tensor(own.to_vec(), [own.len()]) };
    let leaves: [Tensor<1>; 2] = parameters.map(|own| device.leaf(own.to_vec(), [own.len()]));
    let each = of(leaves[0].clone(), leaves[1].clone()).log_prob_each(tensor(counts)).unwrap();
    let gradients = (each.clone() * tensor(weights)).sum().backward();
    let slopes = leaves.map(|leaf| Handle::from(leaf.grad(&gradients).unwrap()).read().unwrap().values);
    (Handle::from(each).read().unwrap().values, slopes)
}

#[test]
fn counts_with_more_zeros_are_together_what_they_are_one_by_one() {
    let (counts, weights) = ([0.0, 2.0, 0.0, 7.0, 0.0, 1.0], [1.0, -2.0, 3.0, 0.5, 1.5, -1.0]);
    let rates = [0.4, -0.3, 5.0, 1.6, -7.0, -4.0];
    let inflated: WithZeros = |rate, odds| Poisson::log_rate(rate).zero_inflated(Chance::logits(odds));
    let by_probability: WithZeros = |rate, own| Poisson::log_rate(rate).zero_inflated(Chance::probability(own));
    let hurdle: WithZeros = |rate, own| Poisson::log_rate(rate).hurdle(Chance::probability(own));
    for of in [inflated, by_probability, hurdle] {
        for chances in [vec![0.3], vec![0.3, 0.1, 0.7, 0.5, 0.9, 0.2]] {
            let (logs, [by_rate, by_chance]) = weighted(of, &counts, &weights, [&rates, &chances]);
            let (mut total, mut expected) = (0.0, vec![0.0; chances.len()]);
            let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-13 * (1.0 + b.abs()), "{a} {b}");
            for event in 0..counts.len() {
                let place = event.min(chances.len() - 1);
                let own = [&rates[event..=event], &chances[place..=place]];
                let (log, slopes) = weighted(of, &counts[event..=event], &weights[event..=event], own);
                near(logs[event], log[0]);
                near(by_rate[event], slopes[0][0]);
                total += log[0];
                expected[place] += slopes[1][0];
            }
            by_chance.iter().zip(expected).for_each(|(own, expected)| near(*own, expected));
            // The sum over events is evaluated without their parts.
            let device = Device::flex();
            let all = of(device.tensor(rates.to_vec(), [6]), device.tensor(chances.clone(), [chances.len()]));
            near(all.log_prob_of(&Array::new(counts.to_vec(), vec![6]).unwrap()).unwrap(), total);
        }
    }
}

#[test]
fn classes_with_more_zeros_have_the_slopes_of_all_logits() {
    let (classes, weights) = ([0.0, 2.0, 0.0], [1.0, -2.0, 3.0]);
    let logits = [0.4, -0.3, 1.6, -0.7, 0.2, 0.9, 1.1, -1.4, 0.5];
    let slopes = |events: std::ops::Range<usize>| {
        let (device, count) = (Device::flex(), events.len());
        let leaf: Tensor<2> = device.leaf(logits[3 * events.start..3 * events.end].to_vec(), [count, 3]);
        let tensor = |own: &[f64]| -> Tensor<1> { device.tensor(own[events.clone()].to_vec(), [count]) };
        let counts = Categorical::logits(leaf.clone()).zero_inflated(Chance::probability(0.3));
        let each = counts.log_prob_each(tensor(&classes)).unwrap();
        let gradients = (each * tensor(&weights)).sum().backward();
        Handle::from(leaf.grad(&gradients).unwrap()).read().unwrap().values
    };
    let expected = [slopes(0..1), slopes(1..2), slopes(2..3)].concat();
    let found = slopes(0..3);
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-13), "{found:?} {expected:?}");
}

#[test]
fn a_right_censored_exponential_has_the_likelihood_of_events_over_time_at_risk() {
    let device = Device::flex();
    let (times, status) = (vec![0.4, 1.7, 3.0, 2.2], vec![1.0, 0.0, 1.0, 0.0]);
    let rate = 0.6_f64;
    let deaths = Exponential::new(rate).iid([4]).censored(Censoring::right(device.tensor(status.clone(), [4])));
    let found = deaths.log_prob_of(&Array::new(times.clone(), vec![4]).unwrap()).unwrap();
    let expected = status.iter().sum::<f64>() * rate.ln() - rate * times.iter().sum::<f64>();
    assert!((found - expected).abs() < 1e-14, "{found} {expected}");
}

#[test]
fn a_truncated_normal_has_the_mean_and_the_variance_of_the_formula() {
    // Mills' ratio at 1 and 2; the tail at 8 has the mean 8.121368112236112 of the sixty-digit file's slope.
    let tail = Normal::new(0.0, 1.0).truncated(8.0, f64::INFINITY);
    let mean = tail.mean().unwrap().unwrap().values[0];
    assert!((mean - 8.121_368_112_236_112).abs() < 1e-10, "{mean}");
    let variance = tail.variance().unwrap().unwrap().values[0];
    let expected = 1.0 + 8.0 * mean - mean * mean;
    assert!((variance - expected).abs() < 1e-9, "{variance} {expected}");
    let wide = Normal::new(3.0, 0.5).truncated(-1e6, 1e6);
    assert!((wide.mean().unwrap().unwrap().values[0] - 3.0).abs() < 1e-10);
    assert!((wide.variance().unwrap().unwrap().values[0] - 0.25).abs() < 1e-9);
}

#[test]
fn a_bound_that_cuts_nothing_leaves_mean_and_variance() {
    // The mass that is cut is from 1e-127 to less than the smallest number: the slope of the tail there says nothing.
    for (location, scale) in [(24.0, 1.0), (30.0, 1.0), (37.0, 1.0), (170.0, 6.0), (-1e3, 2.0)] {
        let whole = Normal::new(location, scale);
        let cut = if location > 0.0 { whole.truncated(0.0, f64::INFINITY) } else { whole.truncated(-1e9, 0.0) };
        let mean = cut.mean().unwrap().unwrap().values[0];
        let variance = cut.variance().unwrap().unwrap().values[0];
        assert!((mean - location).abs() < 1e-9 * location.abs(), "{location} {scale}: {mean}");
        assert!((variance / (scale * scale) - 1.0).abs() < 1e-7, "{location} {scale}: {variance}");
    }
    let counts = Gamma::new(100.0, 1.0).truncated(1.0, f64::INFINITY);
    assert!((counts.mean().unwrap().unwrap().values[0] - 100.0).abs() < 1e-8);
    assert!((counts.variance().unwrap().unwrap().values[0] - 100.0).abs() < 1e-6);
}

#[test]
fn a_rare_zero_has_its_chance() {
    for (log_rate, logits) in [(0.0, -30.0), (0.0, -36.0), (0.0, -38.0), (-1.0, -40.0), (2.0, -700.0)] {
        let hurdle = Poisson::log_rate(log_rate).hurdle(Chance::logits(logits));
        let found = hurdle.log_cdf_of(&Array::scalar(0.0)).unwrap().values[0];
        assert!((found - logits).abs() < 1e-12 * logits.abs(), "{log_rate} {logits}: {found}");
        // One has more than zero: the ratio of a zero-truncated Poisson.
        let (rate, one) = (f64::exp(log_rate), hurdle.log_cdf_of(&Array::scalar(1.0)).unwrap().values[0]);
        assert!((one - (rate / rate.exp_m1()).ln()).abs() < 1e-12, "{log_rate} {logits}: {one}");
    }
}

#[test]
fn zero_truncated_counts_have_the_mean_of_the_formula() {
    let rate = 1.3_f64;
    let counts = Poisson::log_rate(rate.ln()).truncated(1.0, f64::INFINITY);
    let expected = rate / -(-rate).exp_m1();
    assert!((counts.mean().unwrap().unwrap().values[0] - expected).abs() < 1e-12);
    let variance = expected * (1.0 + rate - expected);
    assert!((counts.variance().unwrap().unwrap().values[0] - variance).abs() < 1e-11);
}

#[test]
fn a_hurdle_is_a_zero_inflated_truncated_distribution() {
    let hurdle = Poisson::log_rate(0.4).hurdle(Chance::logits(-0.3));
    let other = Poisson::log_rate(0.4).truncated(1.0, f64::INFINITY).zero_inflated(Chance::logits(-0.3));
    for count in [0.0, 1.0, 5.0] {
        let at = Array::scalar(count);
        assert!((hurdle.log_prob_of(&at).unwrap() - other.log_prob_of(&at).unwrap()).abs() < 1e-14);
        assert!((hurdle.log_cdf_of(&at).unwrap().values[0] - other.log_cdf_of(&at).unwrap().values[0]).abs() < 1e-13);
    }
}

#[test]
fn counts_at_the_ends_belong_to_an_interval_and_not_to_the_upper_tail() {
    let counts = || Poisson::log_rate(0.0);
    let chance = |count: f64| counts().log_prob_of(&Array::scalar(count)).unwrap().exp();
    let observe = |censoring, at: f64| counts().censored(censoring).log_prob_of(&Array::scalar(at)).unwrap().exp();
    let same = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-14, "{found} {expected}");
    same(observe(Censoring::interval(3.0), 1.0), chance(1.0) + chance(2.0) + chance(3.0));
    same(observe(Censoring::interval(1.0), 1.0), chance(1.0));
    same(observe(Censoring::left(0.0), 1.0), chance(0.0) + chance(1.0));
    same(observe(Censoring::right(0.0), 1.0), 1.0 - chance(0.0) - chance(1.0));
    same(observe(Censoring::interval(f64::INFINITY), 2.0), 1.0 - chance(0.0) - chance(1.0));
}

#[test]
fn a_part_of_a_mixture_keeps_the_weights_of_its_events() {
    let device = Device::flex();
    let weights: Tensor<2> = device.tensor(vec![1.0, 0.0, 0.0, 2.0, -1.0, 1.0], [3, 2]);
    let mixture: Distribution<1> = Mixture::logits(weights, vec![Normal::new(0.0, 1.0), Normal::new(4.0, 1.0)]);
    let values = Array::new(vec![0.5, 1.0, 3.0], vec![3]).unwrap();
    let whole = mixture.log_prob_of(&values).unwrap();
    let first = mixture.part(0..1).log_prob_of(&Array::new(vec![0.5], vec![1]).unwrap()).unwrap();
    let rest = mixture.part(1..3).log_prob_of(&Array::new(vec![1.0, 3.0], vec![2]).unwrap()).unwrap();
    assert!((whole - first - rest).abs() < 1e-14);
    // As many weights as events, and as many cutpoints: they are of one event all the same.
    let weights: Tensor<1> = device.tensor(vec![0.25, 0.75], [2]);
    let pair = Mixture::weights(weights, vec![Normal::new(0.0, 1.0), Normal::new(4.0, 1.0)]).iid([2]);
    let at = |values: &[f64]| Array::new(values.to_vec(), vec![values.len()]).unwrap();
    let parts = [pair.part(0..1).log_prob_of(&at(&[0.5])), pair.part(1..2).log_prob_of(&at(&[3.0]))];
    let [first, second] = parts.map(|part| part.unwrap());
    assert!((pair.log_prob_of(&at(&[0.5, 3.0])).unwrap() - first - second).abs() < 1e-14);
    let (eta, cutpoints) = (device.tensor(vec![0.1, 0.2, 0.3], [3]), device.tensor(vec![-1.0, 0.0, 1.0], [3]));
    let grades = OrderedLogistic::new(eta, cutpoints);
    let parts = [grades.part(0..2).log_prob_of(&at(&[3.0, 0.0])), grades.part(2..3).log_prob_of(&at(&[1.0]))];
    let [first, second] = parts.map(|part| part.unwrap());
    assert!((grades.log_prob_of(&at(&[3.0, 0.0, 1.0])).unwrap() - first - second).abs() < 1e-14);
}

#[test]
fn a_weight_is_how_often_an_event_counts() {
    let device = Device::flex();
    let (counts, weights) = (vec![0.0, 2.0, 5.0], vec![2.0, 0.0, 3.0]);
    let weighted = Poisson::log_rate(0.4).iid([3]).weighted(device.tensor(weights, [3]));
    let found = weighted.log_prob_of(&Array::new(counts, vec![3]).unwrap()).unwrap();
    let repeated = Array::new(vec![0.0, 0.0, 5.0, 5.0, 5.0], vec![5]).unwrap();
    let expected = Poisson::log_rate(0.4).iid([5]).log_prob_of(&repeated).unwrap();
    assert!((found - expected).abs() < 1e-14, "{found} {expected}");
    // Draws are those without weights.
    assert_eq!(weighted.mean().unwrap().unwrap().values, [0.4_f64.exp(); 3]);
}

#[derive(Module, Debug)]
struct Survival {}

impl Model for Survival {
    type Globals = Tensor<1>;
    type Data = [Tensor<1>; 3];

    fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> {
        scope.sample("rate", HalfNormal::new(1.0).truncated(0.2, f64::INFINITY))
    }

    fn local(&self, scope: &mut Scope, rate: &Tensor<1>, data: &[Tensor<1>; 3]) -> Result<()> {
        let [times, status, counts] = data;
        let rows = times.dims()[0];
        scope.plate("patient", rows, |scope, rows| {
            let frailty = scope.sample("frailty", Normal::new(1.0, 0.5).truncated(0.1, 3.0))?;
            let times_of = Exponential::new(rate.clone() * frailty.clone());
            scope.observe("time", times_of.censored(Censoring::right(rows.take(status)?)), rows.take(times)?)?;
            let visits = Poisson::log_rate(frailty.log()).zero_inflated(Chance::logits(rate.clone()));
            scope.observe("visits", visits, rows.take(counts)?)
        })
    }
}

fn data() -> [Tensor<1>; 3] {
    let device = Device::flex();
    [vec![0.4, 1.7, 3.0], vec![1.0, 0.0, 1.0], vec![0.0, 2.0, 1.0]].map(|column| device.tensor(column, [3]))
}

#[test]
fn a_model_of_composites_keeps_the_laws_of_models_and_names_them_in_its_table() {
    let device = Device::flex();
    partita_laws::model(&Survival {}, &device, &data()).unwrap();
    let table = SiteTable::of(&Survival {}, &device, &data()).unwrap();
    let names: Vec<_> = table.sites().iter().map(|site| site.distribution.to_string()).collect();
    let expected = ["Truncated(HalfNormal)", "Truncated(Normal)", "Censored(Exponential)", "ZeroInflated(Poisson)"];
    assert_eq!(names, expected);
    assert_eq!(table.sites()[0].support, Some(Support::GreaterThan(0.2)));
    assert_eq!(table.sites()[1].support, Some(Support::Interval(0.1, 3.0)));
}

#[test]
fn log_likelihoods_of_composites_are_per_observation_and_draws_are_of_the_variable() {
    let (device, data) = (Device::flex(), data());
    let table = SiteTable::of(&Survival {}, &device, &data).unwrap();
    let (globals, locals) = (vec![0.1], vec![vec![0.3, -0.2, 0.0]]);
    let latents = Latents { globals: &globals, locals: &locals };
    let natural = natural_values(&Survival {}, &device, &table, &data, latents).unwrap();
    let value = |name: &str| natural.iter().find(|(site, _)| site == name).unwrap().1.values.clone();
    let (rate, frailty) = (value("rate")[0], value("frailty"));
    let found = pointwise_log_likelihood(&Survival {}, &device, &table, &data, latents).unwrap();
    let (times, status) = ([0.4, 1.7, 3.0], [1.0, 0.0, 1.0]);
    for row in 0..3 {
        let hazard = rate * frailty[row];
        let expected = status[row] * hazard.ln() - hazard * times[row];
        assert!((found[0].1.values[row] - expected).abs() < 1e-13, "{row}");
    }
    let sum: f64 = found.iter().flat_map(|(_, site)| &site.values).sum();
    let joint = LogDensity::new(&Survival {}, &device, &table).local(latents, &data).unwrap().value;
    let prior = Normal::new(1.0, 0.5).truncated(0.1, 3.0).iid([3]);
    let log_det: f64 = locals[0].iter().map(|u: &f64| 2.9_f64.ln() - u.exp().ln_1p() - (-u).exp().ln_1p()).sum();
    let of_prior = prior.log_prob_of(&Array::new(frailty, vec![3]).unwrap()).unwrap() + log_det;
    assert!((joint - sum - of_prior).abs() < 1e-12, "{joint} {sum} {of_prior}");
}
