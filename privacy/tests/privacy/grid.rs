//! Holds the sum over rows to its sensitivity: one row moves it by at most the clip, exactly and in any order.

use partita_privacy::{DiscreteGaussian, Error, Grid};
use proptest::prelude::*;

use super::Seeded;

/// The squared Euclidean distance, in steps, by which taking out row `at` moves the sum.
fn moved(grid: Grid, length: usize, rows: &[Vec<f64>], at: usize) -> u128 {
    let all = grid.sum(length, rows).unwrap().exact();
    let others = rows.iter().enumerate().filter(|(row, _)| *row != at).map(|(_, row)| row);
    let without = grid.sum(length, others).unwrap().exact();
    all.values.iter().zip(&without.values).map(|(a, b)| (a - b).unsigned_abs().pow(2)).sum()
}

/// Numbers of every size, some of them none.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-1.0..1.0_f64, -12..12_i32).prop_map(|(value, power)| value * 10.0_f64.powi(power)),
        1 => prop_oneof![Just(0.0), Just(f64::MAX), Just(f64::MIN_POSITIVE), Just(-f64::MAX), Just(f64::EPSILON)],
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
    ]
}

fn rows() -> impl Strategy<Value = (usize, Vec<Vec<f64>>)> {
    (1..7_usize).prop_flat_map(|length| {
        (Just(length), proptest::collection::vec(proptest::collection::vec(number(), length), 1..8))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_one_row_moves_the_sum_by_at_most_the_clip(
        (length, rows) in rows(), steps in prop_oneof![1..50_u64, Just(Grid::STEPS), Just(1 << 30)],
        clip in prop_oneof![Just(1.0), Just(1e-6), Just(1e9), 1e-3..1e3_f64],
    ) {
        let grid = Grid::new(clip, steps).unwrap();
        for at in 0..rows.len() {
            let moved = moved(grid, length, &rows, at);
            prop_assert!(moved <= u128::from(steps).pow(2), "row {at} moves the sum by the root of {moved}");
        }
    }

    #[test]
    fn any_order_gives_the_same_bits((length, rows) in rows(), turn in 0..8_usize) {
        let grid = Grid::new(1.0, Grid::STEPS).unwrap();
        let mut other = rows.clone();
        other.rotate_left(turn % rows.len());
        other.reverse();
        prop_assert_eq!(grid.sum(length, &rows).unwrap(), grid.sum(length, &other).unwrap());
    }

    #[test]
    fn short_rows_are_kept_to_a_step_and_long_ones_keep_their_direction(
        row in proptest::collection::vec(-1.0..1.0_f64, 1..6), size in 1e-3..1e3_f64,
    ) {
        let grid = Grid::new(1.0, Grid::STEPS).unwrap();
        let row: Vec<f64> = row.iter().map(|value| value * size).collect();
        let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt();
        let sum = grid.sum(row.len(), [&row]).unwrap();
        let shorter = if sum.clipped == 1 { norm } else { 1.0 };
        prop_assert_eq!(sum.clipped == 1, norm > 1.0 + 1e-5 || sum.clipped == 1 && norm > 1.0 - 1e-5);
        // A step of truncation, and one of shortening.
        for (kept, value) in sum.exact().to_floats().iter().zip(&row) {
            prop_assert!((kept - value / shorter).abs() <= 4.0 * grid.unit() && kept.abs() <= value.abs());
        }
    }
}

#[test]
fn rows_that_are_no_numbers_count_as_zero_and_are_counted_in_the_silo() {
    let grid = Grid::new(2.0, 100).unwrap();
    let sum = grid.sum(2, [[f64::NAN, 1.0], [0.5, 0.5], [f64::MAX, f64::MAX]]).unwrap();
    assert_eq!((sum.rows, sum.clipped, sum.not_finite), (3, 1, 1));
    assert_eq!(sum.exact().values, [25 + 70, 25 + 70]);
}

#[test]
fn what_is_wrong_with_a_grid_or_a_row_is_said() {
    for (clip, steps) in [(0.0, 10), (-1.0, 10), (f64::NAN, 10), (f64::INFINITY, 10), (1.0, 0), (1.0, (1 << 30) + 1)] {
        assert!(matches!(Grid::new(clip, steps), Err(Error::Setting { .. })), "{clip} {steps}");
    }
    let found = Grid::new(1.0, 10).unwrap().sum(2, [vec![1.0]]);
    assert_eq!(found, Err(Error::Length { operation: "a sum over rows", found: 1, expected: 2 }));
}

#[test]
fn noise_is_added_to_every_number_at_its_scale() {
    let grid = Grid::new(1.0, 1000).unwrap();
    let noise = grid.noise(2.0005).unwrap();
    assert_eq!(noise, DiscreteGaussian::new(2001).unwrap());
    let sum = grid.sum(4000, [vec![0.0; 4000]]).unwrap();
    let released = sum.release(noise, &mut Seeded::new(1)).unwrap().to_floats();
    let (count, variance) = (released.len() as f64, 2.001_f64.powi(2));
    let mean = released.iter().sum::<f64>() / count;
    let squares = released.iter().map(|value| value * value).sum::<f64>() / count;
    // Five standard errors: the failure rate of a seed chosen at random would be 6e-7.
    assert!(mean.abs() < 5.0 * (variance / count).sqrt(), "{mean}");
    assert!((squares - variance).abs() < 5.0 * variance * (2.0 / count).sqrt(), "{squares}");
}

#[test]
fn shares_of_noise_have_its_variance_together_and_coarse_ones_are_refused() {
    let steps = Grid::STEPS as f64;
    for (noise, shares) in [(1.0, 1), (7.3, 3), (0.05, 9), (18.1, 10)] {
        let own = Grid::new(2.0, Grid::STEPS).unwrap().share(noise, shares).unwrap().scale() as f64;
        let (together, asked) = (own * own * shares as f64, (noise * steps).powi(2));
        // Each is rounded up to a unit.
        assert!((1.0 - 1e-12..1.001).contains(&(together / asked)), "{shares} of {noise}: {together} of {asked}");
    }
    // What is drawn: the sum of four shares of a clip of 64 units.
    let (own, mut bits) = (Grid::new(1.0, 64).unwrap().share(1.0, 4).unwrap(), Seeded::new(8));
    let mut sum = || (0..4).map(|_| own.draw(&mut bits).unwrap()).sum::<i128>();
    let draws = 20_000;
    let squares: i128 = (0..draws).map(|_| sum().pow(2)).sum();
    let variance = squares as f64 / f64::from(draws) / (64.0 * 64.0);
    // Six standard errors.
    assert!((variance - 1.0).abs() < 6.0 * (2.0 / f64::from(draws)).sqrt(), "{variance}");
    // Three units are too coarse for the sum of two to be a discrete Gaussian to forty digits; one share is one as it is.
    let coarse = Grid::new(1.0, 1).unwrap();
    assert!(coarse.share(3.0, 1).is_ok());
    for (noise, shares) in [(3.0, 2), (3.0, 0)] {
        assert!(matches!(coarse.share(noise, shares), Err(Error::Setting { .. })), "{shares}");
    }
}

#[test]
fn parts_of_a_sum_that_silos_divide_are_whole_multiples_of_a_power_of_two() {
    let (mut bits, two) = (Seeded::new(9), |power: i32| 2.0_f64.powi(power));
    for (clip, unit, steps) in [(0.7, two(-21), 1_468_006), (1.0, two(-20), 1 << 20), (1e-3, two(-30), 1_073_741)] {
        let grid = Grid::dyadic(clip).unwrap();
        assert_eq!((grid.unit(), grid.noise(1.0).unwrap().scale()), (unit, steps));
        // A row that is longer is as long as the clip, and a hair shorter.
        let longest = grid.sum(1, [[1e9]]).unwrap().exact().to_floats()[0];
        assert!(longest <= clip && longest > clip * (1.0 - 2e-6), "{longest} of {clip}");
        // The sum of what is written is what the sum of whole numbers is written as, whatever the parts are.
        let part = |bits: &mut Seeded| {
            let rows = (0..1_000).map(|row| [clip * f64::from(row % 7) / 3.0]);
            grid.sum(1, rows).unwrap().release(grid.share(30.0, 3).unwrap(), bits).unwrap()
        };
        for _ in 0..100 {
            let parts = [part(&mut bits), part(&mut bits)];
            let [sum, whole] = [
                parts.iter().map(|own| own.to_floats()[0]).sum::<f64>(),
                parts.iter().map(|own| own.values[0]).sum::<i128>() as f64 * unit,
            ];
            assert_eq!(sum.to_bits(), whole.to_bits());
        }
    }
    for clip in [1e-10, 0.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(Grid::dyadic(clip), Err(Error::Setting { .. })), "{clip}");
    }
}
