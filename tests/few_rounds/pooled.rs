//! Holds what silos answer to the answer of one silo with all rows, and results to any order of replies.

use fixtures::regression::{self, Regression};
use fixtures::{ConjugateGaussian, ConjugateSettings};
use partita::inference::{Exchange, Message, Outcome, Request, fit_parties, parties};
use partita::models::{Child, MixedLogistic, RepeatedBinary, six_cities};
use partita::{Device, FitOptions, Model};

/// Value, gradient and curvature of a silo's rows.
type Numbers = [Vec<f64>; 3];

/// What each silo answers in the round after the start, to `asked` in place of its coordinator's own request if there is
/// one; and the request.
fn answers<M: Model>(model: &M, silos: &[(String, M::Data)], asked: Option<&Message>) -> (Message, Vec<Numbers>) {
    let (mut algorithm, mut exchange) = parties(model, silos, &Device::flex(), &super::options()).unwrap();
    let start = algorithm.outgoing().unwrap();
    let outcomes = exchange.exchange(start, algorithm.manifest(), None).unwrap();
    algorithm.incoming(outcomes).unwrap();
    let asked = asked.cloned().unwrap_or_else(|| algorithm.outgoing().unwrap().swap_remove(0).message);
    assert_eq!(asked.kind, "few.round");
    let requests = Request::to_all(silos.len(), &asked);
    let outcomes = exchange.exchange(requests, algorithm.manifest(), None).unwrap();
    let numbers = |outcome: Outcome| {
        let reply = outcome.reply("a silo", 1).unwrap();
        let [gradient, curvature] = ["gradient", "curvature"].map(|name| reply.get_floats(name).unwrap());
        [vec![reply.get_number("value").unwrap()], gradient, curvature]
    };
    (asked, outcomes.into_iter().map(numbers).collect())
}

/// Sums over silos are those of all rows in one silo, to 1e-12 of the largest of what silos answer.
fn sums_are_pooled<M: Model>(name: &str, model: &M, silos: &[(String, M::Data)], pooled: &[(String, M::Data)]) {
    let (asked, own) = answers(model, silos, None);
    let all = answers(model, pooled, Some(&asked)).1.swap_remove(0);
    assert_eq!(own.len(), silos.len());
    for (part, what) in ["value", "gradient", "curvature"].into_iter().enumerate() {
        let scale = own.iter().flat_map(|silo| &silo[part]).fold(0.0_f64, |most, value| most.max(value.abs()));
        assert!(scale > 1e-3, "{name}, {what}: {scale}");
        for (place, pooled) in all[part].iter().enumerate() {
            let sum: f64 = own.iter().map(|silo| silo[part][place]).sum();
            assert!((sum - pooled).abs() <= 1e-12 * scale, "{name}, {what} {place}: {sum} and {pooled}");
        }
    }
}

#[test]
fn regressions_over_silos_have_the_sums_of_the_pooled_data() {
    let device = Device::flex();
    for binary in [false, true] {
        for sizes in [vec![50, 30, 40], vec![15, 9, 20, 12, 25, 8, 18, 13]] {
            let silos = regression::silos(&sizes, 3, binary, &device);
            let pooled = regression::pooled(&silos, &device);
            let name = format!("binary: {binary}, {} silos", sizes.len());
            sums_are_pooled(&name, &Regression { columns: 3, binary }, &silos, &pooled);
        }
    }
}

#[test]
fn a_conjugate_hierarchy_over_silos_has_the_sums_of_the_pooled_data() {
    let device = Device::flex();
    let settings = ConjugateSettings { prior_mean: 0.5, prior_sd: 3.0, group_sd: 0.8, noise_sd: 0.4 };
    let groups: Vec<Vec<f64>> =
        (0..24).map(|group| (0..3).map(|t| 1.7 + f64::from(7 * group + 5 * t).sin()).collect()).collect();
    let silos_of = |size: usize| -> Vec<_> {
        let parts = groups.chunks(size).enumerate();
        parts.map(|(index, part)| (format!("silo-{index}"), ConjugateGaussian::data(part, &device).unwrap())).collect()
    };
    for count in [3, 8] {
        let (silos, pooled) = (silos_of(groups.len() / count), silos_of(groups.len()));
        sums_are_pooled(&format!("{count} silos"), &ConjugateGaussian::new(settings), &silos, &pooled);
    }
}

/// The bits of a posterior, its bound and its corrected numbers, where seven silos answer in an order.
fn bits(order: fn(usize) -> Vec<usize>) -> Vec<u64> {
    let (device, model, children) = (Device::flex(), MixedLogistic::new(4), six_cities());
    let silo = |index: usize| {
        let own: Vec<Child> = children.iter().skip(index).step_by(7).copied().collect();
        (format!("silo-{index}"), RepeatedBinary::six_cities(&own, &device).unwrap())
    };
    let silos: Vec<_> = (0..7).map(silo).collect();
    // Silos of several threads answer side by side, in no order.
    let options = FitOptions { threads: 1, ..super::options() };
    let (mut algorithm, exchange) = parties(&model, &silos, &device, &options).unwrap();
    let mut exchange = exchange.with_order(order);
    let report = fit_parties(&model, &device, &options, &mut *algorithm, &mut exchange, None).unwrap().report;
    let mut numbers = algorithm.posterior().parameters.to_vec();
    numbers.push(report.elbo);
    numbers.extend(report.answer().iter().flat_map(|site| [site.mean, site.sd]));
    numbers.into_iter().map(f64::to_bits).collect()
}

#[test]
fn the_order_of_replies_changes_no_bit() {
    let forwards = bits(|count| (0..count).collect());
    assert_eq!(bits(|count| (0..count).rev().collect()), forwards, "the last silo answers first");
    let odd_first = bits(|count| (1..count).step_by(2).chain((0..count).step_by(2)).collect());
    assert_eq!(odd_first, forwards, "silos at odd places answer first");
}
