//! Fits six cities over silos of several shapes: the answer of long chains, in the rounds that the method promises.
#![allow(clippy::print_stderr, reason = "the table of the book is printed")]

use partita::core::{Key, Noise, Purpose};
use partita::inference::{Ending, Exchange, Outcome, parties};
use partita::models::{Child, MixedLogistic, RepeatedBinary, six_cities, six_cities_reference, six_cities_silos};
use partita::{Device, Fit};

use super::moments;

/// Means and sds of the specification, from the same method written in Python (`few_rounds.py`).
const EXPECTED: [[f64; 2]; 5] = [[-3.156, 0.223], [0.462, 0.287], [-0.218, 0.087], [0.106, 0.139], [-0.785, 0.085]];

/// The parts as silos.
fn silos(parts: &[Vec<Child>]) -> Vec<(String, RepeatedBinary)> {
    let device = Device::flex();
    let silo = |(index, children): (usize, &Vec<Child>)| {
        (format!("hospital-{index}"), RepeatedBinary::six_cities(children, &device).unwrap())
    };
    parts.iter().enumerate().map(silo).collect()
}

fn fitted(parts: &[Vec<Child>]) -> Fit {
    super::fitted(&MixedLogistic::new(4), &silos(parts))
}

/// The children dealt to so many silos at random. As they come they are in the order of their answers, so that silos to
/// which they are dealt in turn are more alike than those of any study.
fn at_random(count: usize, seed: u64) -> Vec<Vec<Child>> {
    let mut children = six_cities();
    Noise::new(seed).stream(Key::new(Purpose::Partition, 0)).shuffle(&mut children);
    (0..count).map(|k| children.iter().skip(k).step_by(count).copied().collect()).collect()
}

fn agrees(name: &str, parts: &[Vec<Child>], most_rounds: u64) {
    let fit = fitted(parts);
    let rounds = fit.record.counters.rounds;
    let (means, sds) = moments(&fit);
    eprintln!("{name}: {rounds} exchanges, {:.2} nats, {means:.3?} / {sds:.3?}", fit.report.elbo);
    assert_eq!(fit.record.ending, Ending::Converged, "{name}");
    assert!(rounds <= most_rounds, "{name}: {rounds} rounds, {:?}", fit.record.trace);
    assert!(fit.report.elbo >= -819.42, "{name}: bound {}", fit.report.elbo);
    for (index, [mean, sd]) in EXPECTED.into_iter().enumerate() {
        assert!((means[index] - mean).abs() < 0.02, "{name}: mean {index} {}", means[index]);
        // One per cent, and what three digits leave open.
        assert!((sds[index] - sd).abs() < 0.01 * sd + 0.0005, "{name}: sd {index} {}", sds[index]);
    }
    let largest = largest_answer(parts);
    assert!((1..=1_024).contains(&largest), "{name}: an answer of {largest} bytes");
}

/// The largest answer of a silo before the round of trust, that of the start included, in bytes.
fn largest_answer(parts: &[Vec<Child>]) -> usize {
    let made = parties(&MixedLogistic::new(4), &silos(parts), &Device::flex(), &super::options());
    let (mut algorithm, mut exchange) = made.unwrap();
    let mut largest = 0;
    while algorithm.ended().is_none() {
        let requests = algorithm.outgoing().unwrap();
        let outcomes = exchange.exchange(requests, algorithm.manifest(), None).unwrap();
        for outcome in &outcomes {
            if let Outcome::Reply(reply) = outcome {
                largest = largest.max(reply.size());
            }
        }
        algorithm.incoming(outcomes).unwrap();
    }
    largest
}

#[test]
fn two_silos_need_five_rounds_with_the_bound() {
    agrees("two", &six_cities_silos(), 5);
}

#[test]
fn ten_silos_need_six_rounds() {
    for seed in [1, 2, 3] {
        agrees(&format!("ten, seed {seed}"), &at_random(10, seed), 6);
    }
}

#[test]
fn fifty_silos_of_eleven_children_need_eight_rounds() {
    let children = six_cities();
    let alike: Vec<Vec<Child>> = (0..50).map(|k| children.iter().skip(k).step_by(50).copied().collect()).collect();
    agrees("fifty alike", &alike, 8);
    for seed in [1, 2, 3] {
        agrees(&format!("fifty, seed {seed}"), &at_random(50, seed), 8);
    }
}

#[test]
fn children_who_never_wheezed_may_have_a_silo_of_their_own() {
    let (mut never, mut others): (Vec<Child>, Vec<Child>) =
        six_cities().into_iter().partition(|child| child.wheeze == [false; 4]);
    others.extend(never.split_off(300));
    agrees("never", &[never, others], 8);
}

#[test]
fn smokers_may_have_a_silo_of_their_own() {
    let (smokers, others): (Vec<Child>, Vec<Child>) = six_cities().into_iter().partition(|child| child.smoke);
    agrees("smokers", &[smokers, others], 8);
}

#[test]
fn each_silo_alone_has_the_posterior_of_long_chains() {
    let reference = six_cities_reference().unwrap();
    for (part, alone) in six_cities_silos().into_iter().zip(reference.silos()) {
        assert_eq!(part.len(), alone.children);
        let fit = fitted(&[part]);
        let (means, sds) = moments(&fit);
        let uncorrected: Vec<(f64, f64)> = means.into_iter().zip(sds).collect();
        let corrected = fit.report.answer().iter().map(|site| (site.mean, site.sd)).collect();
        for (name, found) in [("uncorrected", uncorrected), ("corrected", corrected)] {
            assert_eq!(found.len(), alone.mean.len(), "{}, {name}", alone.label);
            for (index, (mean, sd)) in found.into_iter().enumerate() {
                let (off, ratio) = ((mean - alone.mean[index]) / alone.sd[index], sd / alone.sd[index]);
                let near = off.abs() < 0.1 && (ratio - 1.0).abs() < 0.05;
                assert!(near, "{}, {name} {index}: {off} sd, ratio {ratio}", alone.label);
            }
        }
    }
}
