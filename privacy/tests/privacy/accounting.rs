//! Compares what releases cost with published numbers, dp-accounting and privacy loss distributions.

use partita_privacy::{Accountant, Conversion, Cost, Error};

use super::golden;

fn epsilon(cost: Cost, conversion: Conversion) -> f64 {
    Accountant::of([cost]).epsilon(1e-5, conversion).unwrap()
}

/// Whether `found` rounds to `expected` in so many decimals.
fn assert_rounds(found: f64, expected: f64, decimals: i32) {
    let scale = 10.0_f64.powi(decimals);
    assert!(((found * scale).round() - expected * scale).abs() < 1e-6, "{found} does not round to {expected}");
}

#[test]
fn minibatches_cost_what_is_published() {
    // σ, epochs of 60,000 rows in batches of 256, ε by the classic and by the improved conversion. The last is published
    // as 6.319: dp-accounting's series is an upper bound at orders that are not whole, and its orders are tenths apart.
    for (noise, epochs, classic, improved) in [(1.3, 15, 1.19, 0.954), (1.1, 60, 3.01, 2.597), (0.7, 45, 7.10, 6.317)] {
        let cost = Cost::sampled(noise, 256.0 / 60_000.0, epochs * 60_000 / 256).unwrap();
        assert_rounds(epsilon(cost, Conversion::Classic), classic, 2);
        assert_rounds(epsilon(cost, Conversion::Improved), improved, 3);
    }
}

#[test]
fn the_golden_numbers_are_those_that_are_published() {
    let golden = golden();
    let of = |noise: f64, name: &str| {
        let all = golden["epsilons"].as_array().unwrap();
        let own = all.iter().find(|own| own["noise"].as_f64().unwrap() == noise).unwrap();
        own[name].as_f64().unwrap()
    };
    // Noise 0.7 over 45 epochs of samples; twenty sums over all rows at noise 10.
    assert_rounds(of(0.7, "improved"), 6.319, 3);
    assert_rounds(of(10.0, "pld"), 1.760, 3);
}

#[test]
fn noise_of_five_clips_on_samples_of_two_percent_has_the_published_range_of_epsilon() {
    // Sharma et al. (2019) have an epsilon of 0.5 to 1 for q = 0.02 and sigma = 5: that is 1,000 to 3,600 sums.
    for (sums, expected) in [(200, 0.21), (1_000, 0.50), (3_600, 0.99)] {
        assert_rounds(epsilon(Cost::sampled(5.0, 0.02, sums).unwrap(), Conversion::Improved), expected, 2);
    }
}

#[test]
fn a_number_of_one_row_at_every_step_would_need_the_noise_that_keeps_vertical_sums_without_any() {
    // `docs/src/explanation-privacy.md`: 500 numbers of a row at an epsilon of 1, 3 and 10, each, and in their mean.
    for (epsilon, each, of_mean, decimals) in [(1.0, 90.0, 4.0, 1), (3.0, 33.0, 1.5, 1), (10.0, 12.0, 0.53, 2)] {
        let noise = Accountant::noise_for(epsilon, 1e-5, 500).unwrap();
        assert_rounds(noise, each, 0);
        assert_rounds(noise / 500_f64.sqrt(), of_mean, decimals);
    }
    // There, of ten changes of a whole silo.
    assert_rounds(Accountant::noise_for(3.0, 1e-5, 10).unwrap(), 4.7, 1);
}

#[test]
fn full_batches_cost_what_is_published() {
    let one = Cost::new(1.0, 1).unwrap();
    assert_eq!(one.rho(), Some(0.5));
    assert_rounds(epsilon(one, Conversion::Improved), 4.728, 3);
    assert_rounds(epsilon(one, Conversion::Classic), 5.299, 3);
    assert_rounds(epsilon(Cost::new(10.0, 20).unwrap(), Conversion::Improved), 1.914, 3);
    let noise = Accountant::noise_for(1.0, 1e-5, 20).unwrap();
    assert_rounds(noise, 18.1, 1);
    assert_rounds(Cost::new(noise, 20).unwrap().rho().unwrap(), 0.03056, 5);
    let back = epsilon(Cost::new(noise, 20).unwrap(), Conversion::Improved);
    assert!((1.0 - 1e-9..=1.0).contains(&back), "{back}");
}

#[test]
fn epsilons_are_at_most_those_of_dp_accounting_and_at_least_exact_ones() {
    for of in golden()["epsilons"].as_array().unwrap() {
        let number = |name: &str| of[name].as_f64().unwrap();
        let cost = Cost::sampled(number("noise"), number("rate"), of["releases"].as_u64().unwrap()).unwrap();
        for (conversion, name) in [(Conversion::Classic, "classic"), (Conversion::Improved, "improved")] {
            let (found, theirs) = (epsilon(cost, conversion), number(name));
            // Their orders are a grid, ours any number: ours may be less, by what the grid costs them.
            assert!((0.995 * theirs..=theirs * (1.0 + 1e-9)).contains(&found), "{of}: {found}");
            assert!(found >= number("pld"), "{of}: {found}");
        }
    }
}

#[test]
fn releases_compose_in_any_order_and_equal_ones_are_counted_together() {
    let costs = [Cost::new(10.0, 3).unwrap(), Cost::sampled(2.0, 0.1, 5).unwrap(), Cost::new(7.0, 2).unwrap()];
    let forward = Accountant::of(costs).epsilon(1e-5, Conversion::Improved).unwrap();
    let backward = Accountant::of(costs.into_iter().rev()).epsilon(1e-5, Conversion::Improved).unwrap();
    assert!((forward - backward).abs() < 1e-12);
    assert_eq!(Accountant::of([Cost::new(10.0, 3).unwrap(); 2]), Accountant::of([Cost::new(10.0, 6).unwrap()]));
    assert_eq!(Accountant::of([Cost::new(10.0, 0).unwrap()]).epsilon(1e-5, Conversion::Improved), Ok(0.0));
    // Sampling every row is not sampling.
    assert_eq!(Cost::sampled(10.0, 1.0, 3), Cost::new(10.0, 3));
    // Two at noise 10 and 10 are one at 10/√2.
    let (two, one) = (Cost::new(10.0, 2).unwrap(), Cost::new(50.0_f64.sqrt(), 1).unwrap());
    assert!((epsilon(two, Conversion::Improved) - epsilon(one, Conversion::Improved)).abs() < 1e-9);
}

#[test]
fn constants_outside_their_range_are_refused() {
    for found in [Cost::new(0.0, 1), Cost::new(f64::NAN, 1), Cost::sampled(1.0, 0.0, 1), Cost::sampled(1.0, 1.5, 1)] {
        assert!(matches!(found, Err(Error::Setting { .. })), "{found:?}");
    }
    for delta in [0.0, 1.0, f64::NAN] {
        assert!(Accountant::default().epsilon(delta, Conversion::Improved).is_err());
    }
    for (epsilon, releases) in [(0.0, 1), (-1.0, 1), (f64::NAN, 1), (1.0, 0), (f64::INFINITY, 1)] {
        assert!(Accountant::noise_for(epsilon, 1e-5, releases).is_err(), "{epsilon} {releases}");
    }
}
