//! Claims that the six-cities data rebuilt from its counts are the published data, child by child.

use std::path::Path;

use partita::models::{AGES, Child, six_cities, six_cities_reference, six_cities_silos};

/// Wheezing children at each age, for mothers who did and who did not smoke.
fn wheezes(smoke: bool) -> [usize; 4] {
    let group: Vec<Child> = six_cities().into_iter().filter(|child| child.smoke == smoke).collect();
    std::array::from_fn(|age| group.iter().filter(|child| child.wheeze[age]).count())
}

#[test]
fn totals_by_age_and_smoking_are_the_published_ones() {
    let children = six_cities();
    assert_eq!(children.len(), 537);
    assert_eq!(children.iter().filter(|child| child.smoke).count(), 187);
    assert_eq!(wheezes(false), [56, 52, 50, 37]);
    assert_eq!(wheezes(true), [31, 39, 35, 26]);
}

#[test]
fn children_are_ordered_by_smoking_and_response_pattern() {
    assert!(six_cities().is_sorted());
}

#[test]
fn the_two_silos_are_a_partition_of_300_and_237_children() {
    let [a, b] = six_cities_silos();
    assert_eq!((a.len(), b.len()), (300, 237));
    let mut all = [a, b].concat();
    all.sort();
    assert_eq!(all, six_cities());
}

#[test]
fn the_silos_are_those_the_reference_posterior_was_computed_on() {
    let reference = six_cities_reference().unwrap();
    let children = six_cities();
    let of_the_reference: Vec<Child> = reference.silo_a.iter().map(|id| children[*id]).collect();
    assert_eq!(six_cities_silos()[0], of_the_reference);
    let children = reference.posteriors.each_ref().map(|posterior| posterior.children);
    assert_eq!(children, [537, 300, 237]);
}

#[test]
fn the_reference_posterior_is_a_converged_run() {
    let reference = six_cities_reference().unwrap();
    assert_eq!(reference.names, ["beta0", "beta_smoke", "beta_age", "beta_smoke_age", "omega"]);
    for posterior in &reference.posteriors {
        assert_eq!(posterior.divergences, 0);
        // 1.01 is the usual bound on R-hat (Vehtari et al. 2021); 1,000 effective draws put a mean within 0.03 sd.
        assert!(posterior.rhat.iter().all(|rhat| (0.999..1.01).contains(rhat)), "{}", posterior.label);
        assert!(posterior.ess.iter().all(|&ess| ess > 1_000.0), "{}", posterior.label);
        assert!(posterior.quantiles.is_sorted_by(|low, high| (0..5).all(|k| low.values[k] < high.values[k])));
    }
}

/// The children of a file with the columns id, age, smoke and resp, in the order of their rows.
fn children_of_csv(text: &str) -> Vec<Child> {
    let rows: Vec<Vec<i64>> =
        text.lines().skip(1).map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    let child = |(id, rows): (usize, &[Vec<i64>])| {
        for (row, age) in rows.iter().zip(AGES) {
            assert_eq!((row[0] as usize, row[1] as f64, row[2]), (id, age, rows[0][2]), "rows of child {id}");
        }
        Child { smoke: rows[0][2] == 1, wheeze: std::array::from_fn(|age| rows[age][3] == 1) }
    };
    rows.chunks(AGES.len()).enumerate().map(child).collect()
}

#[test]
fn the_rebuilt_children_equal_the_published_file_row_by_row() {
    let Some(folder) = std::env::var_os("PARTITA_DATA") else {
        fixtures::skip("data", "PARTITA_DATA does not name a folder of staged data files");
        return;
    };
    let path = Path::new(&folder).join("six_cities/six_cities.csv");
    let Ok(text) = std::fs::read_to_string(&path) else {
        fixtures::skip("data", "PARTITA_DATA has no readable file six_cities/six_cities.csv");
        return;
    };
    assert_eq!(children_of_csv(&text), six_cities());
}
