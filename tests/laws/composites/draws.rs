//! Holds draws of composites against their distribution functions, and log densities against integrals and sums.

use partita_core::{
    Array, Censoring, Chance, Device, Distribution, Exponential, Gamma, Key, Mixture, NegativeBinomial, Noise, Normal,
    Poisson, Purpose,
};

const DRAWS: usize = 20_000;
/// Standard errors of a moment: a correct distribution fails one check with probability 6e-7.
const ERRORS: f64 = 5.0;

fn sorted<S>(name: u64, distribution: &Distribution<1, S>) -> Vec<f64> {
    let mut noise = Noise::new(31).stream(Key::new(Purpose::Check, name));
    let mut draws = distribution.draw(&mut noise).unwrap().values;
    draws.sort_by(f64::total_cmp);
    draws
}

/// The distance of the draws from the distribution function, with the bound of Massart (1990) at probability 1e-6.
fn distance<S>(draws: &[f64], distribution: &Distribution<1, S>) -> (f64, f64) {
    let values = Array::new(draws.to_vec(), vec![draws.len()]).unwrap();
    let (below, above) = (distribution.log_cdf_of(&values).unwrap(), distribution.log_survival_of(&values).unwrap());
    let count = draws.len() as f64;
    let mut furthest = 0.0_f64;
    for (index, draw) in draws.iter().enumerate() {
        let (lower, upper) = (below.values[index].exp(), above.values[index].exp());
        assert!((lower + upper - 1.0).abs() < 1e-10, "tails of {draw}: {lower} {upper}");
        let up_to = draws[index..].partition_point(|other| other <= draw) + index;
        furthest = furthest.max((lower - up_to as f64 / count).abs());
    }
    (furthest, ((2.0 / 1e-6_f64).ln() / (2.0 * count)).sqrt())
}

fn holds<S: Clone>(name: u64, distribution: &Distribution<1, S>) {
    let copies = distribution.clone().iid([DRAWS]);
    let draws = sorted(name, &copies);
    let (found, bound) = distance(&draws, &copies);
    assert!(found <= bound, "{name}: distance {found}, allowed {bound}");
    moments(&format!("{name}"), &draws, distribution);
}

fn moments<S>(name: &str, draws: &[f64], distribution: &Distribution<1, S>) {
    let mean = distribution.mean().unwrap().unwrap().values[0];
    let variance = distribution.variance().unwrap().unwrap().values[0];
    let average = |power: i32| draws.iter().map(|draw| (draw - mean).powi(power)).sum::<f64>() / draws.len() as f64;
    let root = (draws.len() as f64).sqrt();
    assert!(average(1).abs() <= ERRORS * variance.sqrt() / root, "{name}: mean {mean}, off by {}", average(1));
    let error = ERRORS * (average(4) - average(2).powi(2)).max(0.0).sqrt() / root;
    assert!((average(2) - variance).abs() <= error, "{name}: variance {variance}, draws {}", average(2));
}

#[test]
fn draws_of_composites_follow_their_distribution_functions_and_moments() {
    let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
    let logits = |logits: Vec<f64>| Device::flex().tensor(logits, [2]);
    holds(0, &Normal::new(0.3, 1.2).truncated(-0.5, 1.0));
    holds(1, &Normal::new(0.0, 1.0).truncated(8.0, high));
    holds(2, &Normal::new(0.0, 1.0).truncated(low, -30.0));
    holds(3, &Normal::new(0.0, 1.0).truncated(-12.5, -12.0));
    holds(4, &Normal::new(0.0, 1.0).truncated(-0.1, 0.2));
    holds(5, &Gamma::new(0.3, 2.0).truncated(1e-3, 6.0));
    holds(6, &Exponential::new(2.0).truncated(3.0, 3.2));
    holds(7, &Poisson::log_rate(1.0).truncated(1.0, high));
    holds(8, &Poisson::log_rate(1.0).truncated(8.0, high));
    holds(9, &Poisson::log_rate(5.0).truncated(90.0, 120.0));
    holds(10, &NegativeBinomial::logits(2.5, 0.4).zero_inflated(Chance::probability(0.3)));
    holds(11, &Poisson::log_rate(1.2).hurdle(Chance::logits(-0.4)));
    holds(12, &Poisson::log_rate(-4.0).hurdle(Chance::logits(0.4)));
    holds(13, &Mixture::logits(logits(vec![0.3, -0.6]), vec![Normal::new(-2.0, 0.5), Normal::new(1.0, 2.0)]));
    let above = |location: f64| Normal::new(location, 1.0).truncated(0.0, high);
    holds(14, &Mixture::weights(logits(vec![1.0, 2.0]), vec![above(-1.0), above(3.0)]));
    holds(15, &Poisson::log_rate(1.0).truncated(1.0, 5.0).zero_inflated(Chance::probability(0.2)));
    let two = vec![Normal::new(-2.0, 0.5), Normal::new(1.0, 2.0)];
    holds(16, &Mixture::logits(logits(vec![0.3, -0.6]), two).truncated(6.0, high));
}

#[test]
fn draws_of_another_distribution_are_found() {
    let draws = sorted(20, &Normal::new(0.0, 1.0).truncated(8.0, f64::INFINITY).iid([DRAWS]));
    let shifted = Normal::new(0.0, 1.01).truncated(8.0, f64::INFINITY).iid([DRAWS]);
    let (found, bound) = distance(&draws, &Normal::new(0.0, 1.05).truncated(8.0, f64::INFINITY).iid([DRAWS]));
    assert!(found > bound, "{found} {bound}");
    assert!(distance(&draws, &shifted).0 < found);
}

#[test]
fn draws_of_a_hurdle_of_positive_numbers_are_zeros_and_draws_above() {
    let hurdle = Exponential::new(2.0).hurdle(Chance::probability(0.4)).iid([DRAWS]);
    let draws = sorted(21, &hurdle);
    moments("hurdle", &draws, &hurdle);
    let zeros = draws.partition_point(|draw| *draw <= 0.0);
    let error = ERRORS * (0.4 * 0.6 / DRAWS as f64).sqrt();
    assert!((zeros as f64 / DRAWS as f64 - 0.4).abs() < error, "{zeros}");
    let above = Exponential::new(2.0).iid([DRAWS - zeros]);
    let (found, bound) = distance(&draws[zeros..], &above);
    assert!(found <= bound, "{found} {bound}");
}

#[test]
fn draws_of_a_censored_distribution_are_of_the_variable_itself() {
    let times = Exponential::new(2.0).censored(Censoring::right(0.0)).iid([DRAWS]);
    let draws = sorted(22, &times);
    let (found, bound) = distance(&draws, &Exponential::new(2.0).iid([DRAWS]));
    assert!(found <= bound, "{found} {bound}");
}

fn mass<S>(distribution: &Distribution<1, S>, points: &[f64], weights: impl Fn(usize) -> f64) -> f64 {
    let log_prob = |point: f64| distribution.log_prob_of(&Array::scalar(point)).unwrap().exp();
    points.iter().enumerate().map(|(index, point)| weights(index) * log_prob(*point)).sum()
}

/// Simpson's rule with an odd number of points.
fn integral<S>(distribution: &Distribution<1, S>, low: f64, high: f64) -> f64 {
    const STEPS: usize = 4_000;
    let step = (high - low) / STEPS as f64;
    let points: Vec<f64> = (0..=STEPS).map(|index| low + step * index as f64).collect();
    mass(distribution, &points, |index| {
        let factor = if index == 0 || index == STEPS {
            1.0
        } else if index % 2 == 1 {
            4.0
        } else {
            2.0
        };
        factor * step / 3.0
    })
}

fn sum<S>(distribution: &Distribution<1, S>, first: u32, last: u32) -> f64 {
    let counts: Vec<f64> = (first..=last).map(f64::from).collect();
    mass(distribution, &counts, |_| 1.0)
}

#[test]
fn densities_of_composites_integrate_to_one() {
    let high = f64::INFINITY;
    let one = |name: &str, found: f64| assert!((found - 1.0).abs() < 1e-9, "{name}: {found}");
    one("interval", integral(&Normal::new(0.3, 1.2).truncated(-0.5, 1.0), -0.5, 1.0));
    one("tail", integral(&Normal::new(0.0, 1.0).truncated(8.0, high), 8.0, 12.0));
    one("mixture", {
        let logits = Device::flex().tensor(vec![0.3, -0.6], [2]);
        integral(&Mixture::logits(logits, vec![Normal::new(-2.0, 0.5), Normal::new(1.0, 2.0)]), -20.0, 22.0)
    });
    one("hurdle", 0.25 + integral(&Exponential::new(2.0).hurdle(Chance::probability(0.25)), 1e-12, 25.0));
    one("truncated counts", sum(&Poisson::log_rate(1.0).truncated(2.0, 9.0), 2, 9));
    one("zero-inflated", sum(&Poisson::log_rate(1.0).zero_inflated(Chance::logits(0.3)), 0, 60));
    one("hurdle of counts", sum(&Poisson::log_rate(1.0).hurdle(Chance::logits(0.3)), 0, 60));
    let above = Poisson::log_rate(1.0).truncated(1.0, high);
    one("zero-inflated truncated", sum(&above.zero_inflated(Chance::logits(0.3)), 0, 60));
    // A planted fault: an untruncated density does not integrate to one there.
    assert!((integral(&Normal::new(0.3, 1.2), -0.5, 1.0) - 1.0).abs() > 0.1);
}

#[test]
fn draws_of_a_hurdle_whose_zeros_are_frequent_are_as_large_as_they_are() {
    // 92 of 100 counts of this negative binomial are zero, and 15 of 100 that are not are above 2^20.
    let own = || NegativeBinomial::logits(0.005, (1e5_f64 / 0.005).ln());
    let counts = own().hurdle(Chance::probability(0.0)).iid([4000]);
    let mut noise = Noise::new(3).stream(Key::new(Purpose::Check, 77));
    let draws = counts.draw(&mut noise).unwrap().values;
    let most = f64::from(1 << 20);
    let log_survival = |count| own().log_survival_of(&Array::scalar(count)).unwrap().values[0];
    let chance = (log_survival(most) - log_survival(0.0)).exp();
    let found = draws.iter().filter(|count| **count > most).count() as f64 / 4000.0;
    // Four standard deviations of a share of 4,000.
    assert!((found - chance).abs() < 4.0 * (chance * (1.0 - chance) / 4000.0).sqrt(), "{found} {chance}");
}
