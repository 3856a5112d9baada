//! Holds PVI's schedules to the silos they announce: random and residual order, subsets, and the virtual clock.

use fixtures::partitioned::{LINEAR, Run, conjugate_options, four_silos, settings};
use partita::inference::{Algorithm, Delays, ExponentialFamily, Order};
use partita::{PviOptions, Settings, SiloSchedule};

const SILOS: usize = 4;

/// The silos of each exchange of a run, and the change of the posterior in each, in nats.
fn visits(schedule: SiloSchedule, seed: u64, exchanges: usize) -> Vec<(Vec<usize>, f64)> {
    let options = PviOptions { damping: Some(0.3), ..conjugate_options(schedule) };
    let settings = Settings { seed, ..settings(100_000) };
    let mut run = Run::new(&LINEAR, &four_silos(), &settings, options);
    (0..exchanges)
        .map(|_| {
            let before = run.pvi.natural().to_vec();
            let requests = run.pvi.outgoing().unwrap();
            let silos = requests.iter().map(|request| request.silo).collect();
            let outcomes = run.answers(&requests);
            run.pvi.incoming(outcomes).unwrap();
            (silos, run.pvi.natural_family().kl_divergence(run.pvi.natural(), &before))
        })
        .collect()
}

fn order(schedule: SiloSchedule, seed: u64, exchanges: usize) -> Vec<usize> {
    visits(schedule, seed, exchanges).into_iter().flat_map(|(silos, _)| silos).collect()
}

/// The number of local updates of each silo.
fn counts(order: &[usize]) -> [usize; SILOS] {
    let mut counts = [0; SILOS];
    order.iter().for_each(|silo| counts[*silo] += 1);
    counts
}

#[test]
fn a_random_order_visits_every_silo_once_a_sweep_in_an_order_of_the_seed_that_changes() {
    let schedule = SiloSchedule::Sequential(Order::Random);
    let found = order(schedule, 7, 10 * SILOS);
    let sweeps: Vec<&[usize]> = found.chunks_exact(SILOS).collect();
    for sweep in &sweeps {
        assert_eq!(counts(sweep), [1; SILOS], "{sweep:?}");
    }
    // Ten equal orders of 24 have a probability of 24^-9.
    assert!(sweeps.iter().any(|sweep| *sweep != sweeps[0]), "{sweeps:?}");
    assert_eq!(order(schedule, 7, 10 * SILOS), found);
    assert_ne!(order(schedule, 8, 10 * SILOS), found);
}

#[test]
fn a_residual_order_visits_the_silo_whose_last_visit_moved_the_posterior_most() {
    let mut residuals = [f64::INFINITY; SILOS];
    let found = visits(SiloSchedule::Sequential(Order::Residual), 1, 10 * SILOS);
    for (silos, moved) in &found {
        let [silo] = silos[..] else { panic!("{silos:?}") };
        assert!(residuals.iter().all(|own| residuals[silo] >= *own), "silo {silo} of {residuals:?}");
        residuals[silo] = *moved;
    }
    let order: Vec<usize> = found.iter().flat_map(|(silos, _)| silos.clone()).collect();
    assert_eq!(order[..SILOS], [0, 1, 2, 3], "silos that were not visited come first");
    // This is not a round of the silos.
    assert_ne!(order, (0..10 * SILOS).map(|turn| turn % SILOS).collect::<Vec<_>>());
}

#[test]
fn subsets_are_drawn_anew_without_replacement() {
    let found = visits(SiloSchedule::Subset(2), 3, 60);
    for (silos, _) in &found {
        assert!(silos.len() == 2 && silos[0] < silos[1], "{silos:?}");
    }
    // Each of six pairs is drawn Bin(60, 1/6) times: none of them with probability 2e-5 each, and 31 or more with less.
    let pairs = |a, b| found.iter().filter(|(silos, _)| **silos == [a, b]).count();
    for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        assert!((1..31).contains(&pairs(a, b)), "{a}, {b}: {}", pairs(a, b));
    }
}

#[test]
fn the_virtual_clock_visits_by_the_delays_that_it_is_given() {
    let with = |delays, exchanges| order(SiloSchedule::Asynchronous(delays), 1, exchanges);
    // All equal: in turn.
    let even = Delays { longest: 1.0, straggle: 1.0, loss: 0.0, seed: 1 };
    let found = with(even, 10 * SILOS);
    assert_eq!(found, (0..10 * SILOS).map(|turn| turn % SILOS).collect::<Vec<_>>());
    // Silo m is 1 + 2 m times slower than the first: in a time T it makes T / (1 + 2 m) local updates, give or take
    // one.
    let straggling = Delays { straggle: 7.0, ..even };
    let found = counts(&with(straggling, 400));
    let time = found[0] as f64;
    for (silo, count) in found.iter().enumerate() {
        let expected = time / (1.0 + 2.0 * silo as f64);
        assert!((*count as f64 - expected).abs() <= 1.0, "{found:?}");
    }
    // Uniform delays between 1 and 8: no silo is far behind, and the order is that of the seed.
    let uneven = Delays { longest: 8.0, ..even };
    let found = with(uneven, 400);
    assert!(counts(&found).iter().all(|count| (70..=130).contains(count)), "{:?}", counts(&found));
    assert_ne!(found, (0..400).map(|turn| turn % SILOS).collect::<Vec<_>>());
    assert_eq!(with(uneven, 400), found);
    assert_ne!(with(Delays { seed: 2, ..uneven }, 400), found);
}
