//! Holds groups of rows to their laws, and keys and groups that cannot be used to clear errors.

use partita::core::{DataError, Groups};

#[test]
fn rows_of_all_groups_are_the_rows_each_once_and_labels_are_in_order_of_appearance() {
    let keys = ["p2", "p10", "p2", "p1", "p10", "p2"];
    let groups = Groups::by_key(&keys).unwrap();
    assert_eq!(
        (groups.groups(), groups.rows(), groups.labels()),
        (3, 6, ["p2", "p10", "p1"].map(String::from).as_slice())
    );
    assert_eq!(groups.index(), [0, 1, 0, 2, 1, 0]);
    let mut all: Vec<usize> = (0..3).flat_map(|group| groups.rows_of(group).to_vec()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..6).collect::<Vec<_>>());
    for (row, key) in keys.iter().enumerate() {
        assert_eq!(groups.labels()[groups.of_row(row)], *key);
        assert!(groups.rows_of(groups.of_row(row)).contains(&row));
    }
    // Numbers are keys too, and no keys are no groups.
    assert_eq!(Groups::by_key(&[3, 1, 3]).unwrap().index(), [0, 1, 0]);
    assert_eq!(Groups::by_key::<&str>(&[]).unwrap().groups(), 0);
    assert_eq!(Groups::of_sizes(&[2, 1, 3]).unwrap().index(), [0, 0, 1, 2, 2, 2]);
}

#[test]
fn groups_of_a_table_keep_its_order() {
    let table = ["p1", "p2", "p10"];
    let groups = Groups::by_key_in(&["p2", "p10", "p2", "p1"], &table).unwrap();
    assert_eq!((groups.index(), groups.labels()), ([1, 2, 1, 0].as_slice(), table.map(String::from).as_slice()));
    let some = Groups::by_key_or_empty(&["p2"], &table).unwrap();
    assert_eq!((some.rows_of(0), some.rows_of(1), some.groups()), ([].as_slice(), [0].as_slice(), 3));
}

#[test]
fn keys_that_are_missing_are_refused_with_their_row() {
    for missing in ["", " ", "NA", "NaN", "?"] {
        let error = Groups::by_key(&["p1", missing]).unwrap_err();
        assert!(matches!(error, DataError::GroupKey { row: 2, .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("row 2 of the rows has {missing:?}")), "{error}");
    }
    let error = Groups::by_key(&[1.0, f64::NAN]).unwrap_err().to_string();
    assert!(error.contains("row 2 of the rows has \"NaN\", expected a key"), "{error}");
}

#[test]
fn keys_and_indices_of_no_group_and_groups_named_twice_are_refused() {
    let unknown = Groups::by_key_in(&["p1", "p3"], &["p1", "p2"]).unwrap_err().to_string();
    assert!(unknown.contains("row 2 of the rows has \"p3\", expected a key among those of the groups"), "{unknown}");
    let twice = Groups::by_key_in(&["p1"], &["p1", "p1"]).unwrap_err().to_string();
    assert!(twice.contains("row 2 of the groups has \"p1\", expected a key that no group before it has"), "{twice}");
    let outside = Groups::new(vec![0, 2], 2).unwrap_err().to_string();
    assert!(outside.contains("row 2 of the rows has \"2\", expected an index below the number of groups"), "{outside}");
}

#[test]
fn a_group_without_rows_is_refused_by_name() {
    let error = Groups::by_key_in(&["p1", "p3"], &["p1", "p17", "p3"]).unwrap_err();
    assert!(matches!(&error, DataError::EmptyGroup { group: 1, label, .. } if label == "p17"), "{error:?}");
    let words = "group 1 (`p17`) has no rows: none of the 2 rows is of it, expected at least one for each of 3 groups";
    assert!(error.to_string().contains(words) && error.to_string().contains("Groups::with_empty"), "{error}");
    assert!(matches!(Groups::of_sizes(&[1, 0]), Err(DataError::EmptyGroup { group: 1, .. })));
    assert!(matches!(Groups::new(vec![1], 2), Err(DataError::EmptyGroup { group: 0, .. })));
}
