//! Fits six cities over silos of several shapes: the answer of long chains, in the rounds that the method promises.

use partita::inference::Ending;
use partita::models::{Child, MixedLogistic, RepeatedBinary, six_cities, six_cities_silos};
use partita::{Device, Fit};

use super::moments;

/// Means and sds of the specification, from the same method written in Python (`few_rounds.py`).
const EXPECTED: [[f64; 2]; 5] = [[-3.156, 0.223], [0.462, 0.287], [-0.218, 0.087], [0.106, 0.139], [-0.785, 0.085]];

fn fitted(parts: &[Vec<Child>]) -> Fit {
    let device = Device::flex();
    let silos: Vec<_> = parts
        .iter()
        .enumerate()
        .map(|(index, children)| (format!("hospital-{index}"), RepeatedBinary::six_cities(children, &device).unwrap()))
        .collect();
    super::fitted(&MixedLogistic::new(4), &silos)
}

fn agrees(name: &str, parts: &[Vec<Child>], most_rounds: u64) {
    let fit = fitted(parts);
    let rounds = fit.record.counters.rounds;
    let (means, sds) = moments(&fit);
    assert_eq!(fit.record.ending, Ending::Converged, "{name}");
    assert!(rounds <= most_rounds, "{name}: {rounds} rounds");
    assert!(fit.report.elbo >= -819.42 - 3.0 * fit.report.elbo_se, "{name}: bound {}", fit.report.elbo);
    for (index, [mean, sd]) in EXPECTED.into_iter().enumerate() {
        assert!((means[index] - mean).abs() < 0.02 * sd.max(1.0), "{name}: mean {index} {}", means[index]);
        assert!((sds[index] / sd - 1.0).abs() < 0.012, "{name}: sd {index} {}", sds[index]);
    }
}

#[test]
fn two_silos_need_five_rounds_with_the_bound() {
    agrees("two", &six_cities_silos(), 5);
}

#[test]
fn ten_silos_need_six_rounds() {
    let children = six_cities();
    let parts: Vec<Vec<Child>> = (0..10).map(|k| children.iter().skip(k).step_by(10).copied().collect()).collect();
    agrees("ten", &parts, 6);
}

#[test]
fn fifty_silos_of_eleven_children_need_eight_rounds() {
    let children = six_cities();
    let parts: Vec<Vec<Child>> = (0..50).map(|k| children.iter().skip(k).step_by(50).copied().collect()).collect();
    agrees("fifty", &parts, 8);
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
