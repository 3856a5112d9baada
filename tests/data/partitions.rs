//! Claims that every way of splitting rows gives each row to one silo, with exactly the stated skew.

use partita_core::{
    DataError, Fold, Key, Noise, Purpose, Scaling, SmallLarge, distinct_labels, folds, partition_by_class,
    partition_by_k_means, partition_by_key, partition_by_label_skew, partition_by_shards, partition_by_sizes,
    partition_each_row, partition_equally, partition_groups, partition_small_large, stratified_folds,
};

/// Fails unless the silos hold each of `rows` rows exactly once, ascending, and none is empty.
pub(super) fn assert_partition(silos: &[Vec<usize>], rows: usize) {
    assert!(silos.iter().all(|silo| !silo.is_empty() && silo.is_sorted()));
    let mut all = silos.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..rows));
}

/// Points around three centres, `count` around each, and the centre of each.
fn clouds(count: usize) -> (Vec<f64>, Vec<usize>) {
    let mut noise = Noise::new(5).stream(Key::new(Purpose::Prior, 0));
    let centres = [[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]];
    let own: Vec<usize> = (0..3 * count).map(|row| row % 3).collect();
    let point = |own: &usize| centres[*own].map(|centre| centre + 0.5 * noise.standard_normal());
    (own.iter().flat_map(point).collect(), own)
}

fn positives(rows: usize, share: f64) -> Vec<bool> {
    (0..rows).map(|row| ((row * 7919) % rows) as f64 / (rows as f64) < share).collect()
}

#[test]
fn every_way_of_splitting_gives_each_row_to_one_silo_and_depends_on_the_seed_only() {
    let labels: Vec<usize> = (0..613).map(|row| row % 7).collect();
    let positive = positives(613, 0.3);
    let (points, _) = clouds(70);
    let split = SmallLarge { size_imbalance: 0.4, label_imbalance: -0.9 };
    let all = |seed| {
        let noise = Noise::new(seed);
        [
            (613, partition_by_class(&labels, 5, &noise).unwrap()),
            (613, partition_by_class(&labels, 20, &noise).unwrap()),
            (613, partition_by_shards(&labels, 10, 3, &noise).unwrap()),
            (613, partition_small_large(&positive, 8, split, &noise).unwrap()),
            (613, partition_each_row(613).unwrap()),
            (210, partition_by_k_means(&points, 2, 6, Scaling::Standardised, &noise).unwrap()),
            (537, partition_by_key(&labels[..537]).unwrap()),
            (537, partition_equally(537, 10, &noise).unwrap()),
            (537, partition_by_sizes(537, &[300, 237], &noise).unwrap()),
            (537, partition_by_label_skew(&labels[..537], 5, 0.3, &noise).unwrap()),
            (537, partition_groups(&labels[..537], |groups| partition_equally(groups, 3, &noise)).unwrap()),
        ]
    };
    for seed in 0..20 {
        all(seed).iter().for_each(|(rows, silos)| assert_partition(silos, *rows));
        assert_eq!(all(seed), all(seed));
    }
    let (one, two) = (all(1), all(2));
    // For whole classes, single rows and keys nothing is random; seven groups may fall alike.
    assert!([1, 2, 3, 5, 7, 8, 9].iter().all(|way| one[*way].1 != two[*way].1));
}

#[test]
fn small_and_large_silos_have_the_sizes_and_labels_of_the_formula() {
    let positive = positives(1000, 0.2);
    let split = SmallLarge { size_imbalance: 0.5, label_imbalance: -2.0 };
    let silos = partition_small_large(&positive, 6, split, &Noise::new(3)).unwrap();
    let count = |silo: &Vec<usize>| silo.iter().filter(|row| positive[**row]).count();
    // floor(1000 / 6 * 0.5) = 83 rows, floor(83 * (1 - 0.6)) = 33 of them negative.
    assert!(silos[..3].iter().all(|silo| silo.len() == 83 && count(silo) == 50));
    // 751 rows are left over: floor(1000 / 6 * 1.5) = 250 each, and one to the first large silo.
    assert_eq!(silos[3..].iter().map(Vec::len).collect::<Vec<_>>(), [251, 250, 250]);
    assert_eq!(silos[3..].iter().map(count).sum::<usize>(), 200 - 150);
}

#[test]
fn without_imbalance_small_and_large_silos_are_alike() {
    let positive = positives(5000, 0.25);
    let split = SmallLarge { size_imbalance: 0.0, label_imbalance: 0.0 };
    let silos = partition_small_large(&positive, 10, split, &Noise::new(3)).unwrap();
    assert!(silos.iter().all(|silo| silo.len() == 500));
    let share = |silo: &Vec<usize>| silo.iter().filter(|row| positive[**row]).count() as f64 / 500.0;
    assert!(silos[..5].iter().all(|silo| (share(silo) - 0.25).abs() < 1e-12));
    // 5 standard deviations of a share in 500 draws with probability 0.25.
    assert!(silos[5..].iter().all(|silo| (share(silo) - 0.25).abs() < 0.097));
}

#[test]
fn impossible_small_and_large_silos_are_refused_with_the_reason() {
    let positive = positives(100, 0.4);
    let refuse = |silos, size_imbalance, label_imbalance| {
        let split = SmallLarge { size_imbalance, label_imbalance };
        partition_small_large(&positive, silos, split, &Noise::new(1)).unwrap_err()
    };
    let argument = |error: DataError| match error {
        DataError::Argument { argument, .. } => argument,
        other => panic!("{other}"),
    };
    assert_eq!(argument(refuse(5, 0.0, 0.0)), "number of silos");
    assert_eq!(argument(refuse(0, 0.0, 0.0)), "number of silos");
    assert_eq!(argument(refuse(4, 1.0, 0.0)), "size imbalance");
    assert_eq!(argument(refuse(4, f64::NAN, 0.0)), "size imbalance");
    // 0.4 * (1 - kappa) is a share for kappa from -1.5 to 1.
    assert_eq!(argument(refuse(4, 0.0, -1.6)), "label imbalance");
    assert_eq!(argument(refuse(4, 0.0, 1.1)), "label imbalance");
    assert!(matches!(refuse(60, 0.9, 0.0), DataError::EmptySilo { silo: 0, silos: 60, .. }));
    // Two silos of 25 rows without any negative one want 50 of the 40 positive rows.
    let error = refuse(4, 0.0, -1.5);
    assert!(matches!(&error, DataError::Shortage { found: 40, expected: 50, .. }), "{error}");
    assert!(error.to_string().contains("found 40 rows with a positive label, expected at least 50"), "{error}");
}

#[test]
fn k_means_finds_clouds_that_lie_apart() {
    let (points, own) = clouds(50);
    let mut found = 0;
    for seed in 0..20 {
        let silos = partition_by_k_means(&points, 2, 3, Scaling::AsGiven, &Noise::new(seed)).unwrap();
        found += usize::from(distinct_labels(&silos, &own) == [1, 1, 1]);
    }
    // Seeding by squared distance picks a cloud twice with a probability of about 1 in 250 a run; three such runs would
    // be too many.
    assert!(found >= 18, "{found}");
}

#[test]
fn standardised_inputs_do_not_care_about_units() {
    let (points, _) = clouds(40);
    let other: Vec<f64> =
        points.iter().enumerate().map(|(i, x)| if i % 2 == 0 { 1000.0 * x + 5.0 } else { *x }).collect();
    let split = |inputs: &[f64], scaling| partition_by_k_means(inputs, 2, 7, scaling, &Noise::new(2)).unwrap();
    assert_eq!(split(&points, Scaling::Standardised), split(&other, Scaling::Standardised));
    assert_ne!(split(&points, Scaling::AsGiven), split(&other, Scaling::AsGiven));
}

#[test]
fn k_means_leaves_no_silo_empty_and_refuses_what_it_cannot_split() {
    // As many distinct rows as silos: each silo is one of them, whatever was drawn first.
    let inputs = [0.0, 1.0, 1.0, 5.0, 0.0, 7.5];
    let silos = partition_by_k_means(&inputs, 1, 4, Scaling::AsGiven, &Noise::new(1)).unwrap();
    assert_eq!(silos.iter().map(Vec::len).sum::<usize>(), 6);
    assert!(distinct_labels(&silos, &[0, 1, 1, 5, 0, 7]).iter().all(|distinct| *distinct == 1));
    let refuse = |inputs: &[f64], columns, silos| {
        partition_by_k_means(inputs, columns, silos, Scaling::Standardised, &Noise::new(1)).unwrap_err()
    };
    assert!(matches!(refuse(&inputs, 1, 5), DataError::Shortage { found: 4, expected: 5, .. }));
    assert!(matches!(refuse(&[], 1, 1), DataError::Shortage { found: 0, .. }));
    assert!(matches!(refuse(&inputs, 4, 2), DataError::Argument { argument: "number of inputs", .. }));
    assert!(matches!(refuse(&inputs, 0, 2), DataError::Argument { argument: "number of columns", .. }));
    assert!(matches!(refuse(&inputs, 1, 0), DataError::Argument { argument: "number of silos", .. }));
    assert!(matches!(refuse(&[1.0, f64::NAN], 1, 2), DataError::Argument { argument: "an input", .. }));
}

#[test]
fn a_k_means_partition_is_one_that_no_single_row_can_better_by_moving_to_a_nearer_centre() {
    let (points, _) = clouds(60);
    let silos = partition_by_k_means(&points, 2, 9, Scaling::AsGiven, &Noise::new(8)).unwrap();
    let mean = |rows: &Vec<usize>| -> [f64; 2] {
        [0, 1].map(|axis| rows.iter().map(|row| points[2 * row + axis]).sum::<f64>() / rows.len() as f64)
    };
    let centres: Vec<[f64; 2]> = silos.iter().map(mean).collect();
    let far = |row: usize, [x, y]: [f64; 2]| (points[2 * row] - x).hypot(points[2 * row + 1] - y);
    for (silo, rows) in silos.iter().enumerate() {
        for row in rows {
            assert!(centres.iter().all(|centre| far(*row, centres[silo]) <= far(*row, *centre) + 1e-12));
        }
    }
}

#[test]
fn shards_of_sorted_digits_leave_few_digits_a_silo() {
    // As McMahan et al.: 60,000 digits in 200 shards of 300, two to each of 100 silos.
    let digits: Vec<usize> = (0..60_000).map(|row| row % 10).collect();
    let silos = partition_by_shards(&digits, 100, 2, &Noise::new(4)).unwrap();
    assert_partition(&silos, 60_000);
    assert!(silos.iter().all(|silo| silo.len() == 600));
    let held = distinct_labels(&silos, &digits);
    assert!(held.iter().all(|digits| (1..=2).contains(digits)));
    // A silo has two equal digits with probability 19 / 199: 9.5 of 100 on average, and not 30.
    assert!(held.iter().filter(|digits| **digits == 1).count() < 30);
    // Where digits are not equally frequent a shard may lie across a border.
    let uneven: Vec<usize> = (0..6000).map(|row| usize::from(row % 10 == 0) + usize::from(row % 7 == 0)).collect();
    let held = distinct_labels(&partition_by_shards(&uneven, 10, 2, &Noise::new(4)).unwrap(), &uneven);
    assert!(held.iter().all(|labels| *labels <= 3));
}

#[test]
fn shards_that_do_not_exist_are_refused() {
    let refuse =
        |rows: usize, silos, shards| partition_by_shards(&vec![0; rows], silos, shards, &Noise::new(1)).unwrap_err();
    assert!(matches!(refuse(5, 3, 2), DataError::EmptySilo { silo: 2, silos: 3, rows: 5, .. }));
    assert!(matches!(refuse(5, 0, 2), DataError::Argument { argument: "number of silos", .. }));
    assert!(matches!(refuse(5, 2, 0), DataError::Argument { argument: "number of shards a silo", .. }));
}

#[test]
fn a_class_a_silo_is_one_class_a_silo() {
    let labels: Vec<usize> = (0..100).map(|row| row % 4).collect();
    assert_eq!(
        partition_by_class(&labels, 4, &Noise::new(1)).unwrap(),
        partita_core::partition_by_key(&labels).unwrap()
    );
    let many = partition_by_class(&labels, 10, &Noise::new(1)).unwrap();
    assert_eq!(distinct_labels(&many, &labels), [1; 10]);
    // Silos 0, 4 and 8 share class 0, silos 2 and 6 class 2.
    assert_eq!(many.iter().map(Vec::len).collect::<Vec<_>>(), [9, 9, 13, 13, 8, 8, 12, 12, 8, 8]);
    let few = partition_by_class(&labels, 3, &Noise::new(1)).unwrap();
    assert_eq!(distinct_labels(&few, &labels), [2, 1, 1]);
    let error = partition_by_class(&[0, 0, 1], 4, &Noise::new(1)).unwrap_err();
    assert!(matches!(error, DataError::EmptySilo { silo: 3, silos: 4, rows: 3, .. }), "{error}");
    let nothing: [usize; 0] = [];
    assert!(matches!(partition_by_class(&nothing, 4, &Noise::new(1)).unwrap_err(), DataError::Argument { .. }));
    assert!(matches!(partition_each_row(0).unwrap_err(), DataError::Argument { argument: "number of rows", .. }));
}

#[test]
fn every_row_is_a_test_row_once_and_else_a_training_row() {
    let labels: Vec<bool> = (0..918).map(|row| (row * 7919) % 918 < 508).collect();
    for seed in 0..10 {
        let noise = Noise::new(seed);
        let (plain, stratified) = (folds(918, 10, &noise).unwrap(), stratified_folds(&labels, 10, &noise).unwrap());
        assert_eq!(plain, folds(918, 10, &noise).unwrap());
        assert_eq!(stratified, stratified_folds(&labels, 10, &noise).unwrap());
        for folds in [&plain, &stratified] {
            assert_partition(&folds.iter().map(|fold| fold.test.clone()).collect::<Vec<_>>(), 918);
            let whole = |fold: &Fold| vec![fold.training.clone(), fold.test.clone()];
            folds.iter().for_each(|fold| assert_partition(&whole(fold), 918));
            assert!(folds.iter().all(|fold| [91, 92].contains(&fold.test.len())));
        }
        // 508 positive and 410 negative rows dealt to ten folds.
        let positive = |fold: &Fold| fold.test.iter().filter(|row| labels[**row]).count();
        assert!(stratified.iter().all(|fold| [50, 51].contains(&positive(fold))));
        assert!(plain.iter().any(|fold| ![50, 51].contains(&positive(fold))));
    }
    assert_ne!(folds(918, 10, &Noise::new(1)).unwrap(), folds(918, 10, &Noise::new(2)).unwrap());
}

#[test]
fn folds_that_cannot_be_are_refused() {
    let noise = Noise::new(1);
    for count in [0, 1] {
        let errors = [folds(9, count, &noise).unwrap_err(), stratified_folds(&[0; 9], count, &noise).unwrap_err()];
        let refused = |error: &DataError| matches!(error, DataError::Argument { argument: "number of folds", .. });
        assert!(errors.iter().all(refused), "{errors:?}");
    }
    let errors = [folds(4, 5, &noise).unwrap_err(), stratified_folds(&[0; 4], 5, &noise).unwrap_err()];
    assert!(errors.iter().all(|error| matches!(error, DataError::EmptySilo { silos: 5, rows: 4, .. })), "{errors:?}");
}
