//! Claims that rows of parties are matched by key for any order of their files, without silent dropping or filling.

use std::collections::BTreeSet;

use partita::core::{
    Alignment, DataError, Key, MissingCell, Noise, PartyColumn, PartyKeys, PartyRows, Purpose, RepeatedKey,
};
use proptest::prelude::*;

/// Party `name` with these keys and a column that holds for each row a value of its key at this party.
fn party(name: &str, keys: &[u8]) -> PartyRows {
    let values = keys.iter().map(|key| worth(name, *key)).collect();
    let keys = keys.iter().map(|key| format!("person {key}")).collect();
    PartyRows::new(name, keys, vec![PartyColumn::complete("worth", values)]).unwrap()
}

fn worth(name: &str, key: u8) -> f64 {
    f64::from(key).sqrt() * name.len() as f64
}

/// The keys of three parties: distinct in each, with at least one that all have.
fn three_parties() -> impl Strategy<Value = [Vec<u8>; 3]> {
    let own = || proptest::collection::btree_set(0_u8..40, 0..30);
    (own(), own(), own(), 0_u8..40).prop_map(|(a, b, c, shared)| {
        [a, b, c].map(|mut keys| {
            keys.insert(shared);
            keys.into_iter().collect()
        })
    })
}

const NAMES: [&str; 3] = ["clinic", "insurer", "registry office"];

fn shuffled(keys: &[u8], seed: u64) -> Vec<u8> {
    let mut keys = keys.to_vec();
    Noise::new(seed).stream(Key::new(Purpose::Check, 0)).shuffle(&mut keys);
    keys
}

proptest! {
    #[test]
    fn aligned_rows_have_the_same_bits_after_any_shuffle_of_any_file(keys in three_parties(), seed in 0_u64..1 << 40) {
        let place = |name: &str| name.len() as u64;
        let one: Vec<PartyRows> = NAMES.iter().zip(&keys).map(|(name, keys)| party(name, keys)).collect();
        let two: Vec<PartyRows> =
            NAMES.iter().zip(&keys).map(|(name, keys)| party(name, &shuffled(keys, seed + place(name)))).collect();
        let align = |rows: &[PartyRows]| Alignment::of(&rows.iter().collect::<Vec<_>>()).unwrap();
        prop_assert_eq!(align(&one), align(&two));
        let alignment = align(&one);
        for (one, two) in one.iter().zip(&two) {
            prop_assert_eq!(one.aligned(&alignment).unwrap(), two.aligned(&alignment).unwrap());
        }
    }

    #[test]
    fn kept_keys_are_those_that_all_have_and_counts_are_the_rest(keys in three_parties(), seed in 0_u64..1 << 40) {
        let rows: Vec<PartyRows> =
            NAMES.iter().zip(&keys).map(|(name, keys)| party(name, &shuffled(keys, seed))).collect();
        let alignment = Alignment::of(&rows.iter().collect::<Vec<_>>()).unwrap();
        let shared: BTreeSet<u8> = keys[0].iter().filter(|key| keys[1].contains(key) && keys[2].contains(key)).copied().collect();
        let expected: BTreeSet<String> = shared.iter().map(|key| format!("person {key}")).collect();
        prop_assert_eq!(alignment.keys().to_vec(), expected.into_iter().collect::<Vec<_>>());
        for ((name, unmatched), keys) in alignment.unmatched().iter().zip(&keys) {
            prop_assert_eq!(*unmatched, keys.len() - shared.len(), "{}", name);
        }
        // Each row still has the value of its key.
        for (name, rows) in NAMES.iter().zip(&rows) {
            let aligned = rows.aligned(&alignment).unwrap();
            let number = |key: &String| key.strip_prefix("person ").unwrap().parse::<u8>().unwrap();
            let expected: Vec<f64> = alignment.keys().iter().map(|key| worth(name, number(key))).collect();
            prop_assert_eq!(aligned.column("worth").unwrap(), expected.as_slice());
        }
    }

    #[test]
    fn digests_meet_where_the_keys_they_hide_meet(keys in three_parties(), secret in proptest::collection::vec(any::<u8>(), 0..100)) {
        let clear: Vec<PartyRows> = NAMES.iter().zip(&keys).map(|(name, keys)| party(name, keys)).collect();
        let hidden: Vec<PartyRows> = clear.iter().map(|rows| rows.clone().with_keyed_digests(&secret)).collect();
        let align = |rows: &[PartyRows]| Alignment::of(&rows.iter().collect::<Vec<_>>()).unwrap();
        let (of_keys, of_digests) = (align(&clear), align(&hidden));
        prop_assert_eq!(of_keys.unmatched(), of_digests.unmatched());
        prop_assert!(of_digests.keys().iter().all(|key| key.len() == 64 && !key.contains("person")));
        // The order is another one; the pairs of values are the same.
        let pairs = |rows: &[PartyRows], alignment: &Alignment| {
            let column = |rows: &PartyRows| rows.aligned(alignment).unwrap().column("worth").unwrap().to_vec();
            let mut pairs: Vec<[u64; 2]> =
                column(&rows[0]).iter().zip(column(&rows[1])).map(|(one, two)| [one.to_bits(), two.to_bits()]).collect();
            pairs.sort_unstable();
            pairs
        };
        prop_assert_eq!(pairs(&clear, &of_keys), pairs(&hidden, &of_digests));
    }
}

#[test]
fn repeated_keys_are_named_with_party_and_rows() {
    let keys = ["Ada", "Eva", "Ada", "Tom", "Eva", "Ada"].map(String::from).to_vec();
    let error = PartyRows::new("clinic", keys.clone(), vec![]).unwrap_err();
    let repeated = |key: &str, rows: &[usize]| RepeatedKey { key: key.into(), rows: rows.into() };
    let expected = vec![repeated("Ada", &[1, 3, 6]), repeated("Eva", &[2, 5])];
    assert_eq!(error, DataError::RepeatedKeys { party: "clinic".into(), count: 2, keys: expected });
    assert!(
        error.to_string().contains("party `clinic`: 2 keys occur more than once: `Ada` in rows [1, 3, 6]"),
        "{error}"
    );
    // Keys that were sent pass the same checks.
    let one = vec!["Ada".to_owned()];
    let error =
        Alignment::of_keys(&[PartyKeys { party: "insurer", keys: &one }, PartyKeys { party: "clinic", keys: &keys }])
            .unwrap_err();
    assert!(matches!(&error, DataError::RepeatedKeys { party, .. } if party == "clinic"), "{error}");
}

#[test]
fn a_row_without_a_key_is_refused() {
    for missing in ["", "  ", "NA", "NaN", "?"] {
        let error = PartyRows::new("clinic", vec!["Ada".into(), missing.into()], vec![]).unwrap_err();
        assert_eq!(error, DataError::MissingKey { party: "clinic".into(), row: 2 }, "{missing}");
    }
}

#[test]
fn parties_without_a_row_in_common_are_an_error_that_says_how_many_rows_each_has() {
    let error = Alignment::of(&[&party("clinic", &[1, 2, 3]), &party("insurer", &[4, 5])]).unwrap_err();
    let parties = vec![("clinic".to_owned(), 3), ("insurer".to_owned(), 2)];
    assert_eq!(error, DataError::NoSharedKey { parties });
    assert!(error.to_string().contains("`clinic` 3 rows, `insurer` 2 rows"), "{error}");
    // Other secrets make other digests of the same people.
    let [one, two] =
        [(b"one", "clinic"), (b"two", "insurer")].map(|(secret, name)| party(name, &[1, 2]).with_keyed_digests(secret));
    assert!(matches!(Alignment::of(&[&one, &two]), Err(DataError::NoSharedKey { .. })));
}

#[test]
fn one_party_or_two_of_one_name_are_refused() {
    let clinic = party("clinic", &[1]);
    for parties in [vec![], vec![&clinic], vec![&clinic, &clinic]] {
        let error = Alignment::of(&parties).unwrap_err();
        assert!(matches!(&error, DataError::Argument { argument: "the list of parties", .. }), "{error}");
    }
}

#[test]
fn an_alignment_of_other_rows_is_refused_with_the_keys_that_are_not_there() {
    let (clinic, insurer) = (party("clinic", &[1, 2, 3]), party("insurer", &[1, 2, 3]));
    let alignment = Alignment::of(&[&clinic, &insurer]).unwrap();
    let error = party("clinic", &[1, 5]).aligned(&alignment).unwrap_err();
    let keys = vec!["person 2".to_owned(), "person 3".to_owned()];
    assert_eq!(error, DataError::UnknownKeys { party: "clinic".into(), count: 2, keys });
}

#[test]
fn a_missing_cell_is_an_error_that_names_party_column_and_row() {
    let keys = || ["a", "b", "c"].map(String::from).to_vec();
    for missing in [f64::NAN, f64::INFINITY] {
        let columns = vec![
            PartyColumn::complete("age", vec![1.0, 2.0, 3.0]),
            PartyColumn::complete("dose", vec![1.0, missing, 3.0]),
        ];
        let error = PartyRows::new("clinic", keys(), columns).unwrap_err();
        let cells = vec![MissingCell { column: "dose".into(), row: 2, found: missing.to_string() }];
        assert_eq!(error, DataError::MissingCells { party: "clinic".into(), count: 1, cells });
        for words in ["party `clinic`", "column `dose`, row 2", "with_missing"] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    // Infinity is not a missing cell, declared or not.
    let declared = PartyColumn::with_missing("dose", vec![None, Some(f64::INFINITY), Some(1.0)]);
    assert!(matches!(PartyRows::new("clinic", keys(), vec![declared]), Err(DataError::MissingCells { count: 1, .. })));
}

#[test]
fn columns_of_another_length_or_of_one_name_are_refused() {
    let rows = |columns| PartyRows::new("clinic", vec!["a".into(), "b".into()], columns).unwrap_err();
    let error = rows(vec![PartyColumn::complete("age", vec![1.0])]);
    assert!(matches!(&error, DataError::Argument { argument: "a column", .. }), "{error}");
    let twice = || PartyColumn::complete("age", vec![1.0, 2.0]);
    let error = rows(vec![twice(), twice()]);
    assert!(matches!(&error, DataError::DuplicateColumn { column, .. } if column == "age"), "{error}");
    let dose = PartyColumn::with_missing("dose", vec![None, Some(1.0)]);
    let error = rows(vec![twice(), dose.clone(), twice()]);
    assert!(matches!(&error, DataError::DuplicateColumn { places: [1, 3], .. }), "{error}");
    // The column that marks missing doses has its name too.
    let error = rows(vec![dose, PartyColumn::complete("dose is missing", vec![1.0, 2.0])]);
    assert!(matches!(&error, DataError::DuplicateColumn { column, .. } if column == "dose is missing"), "{error}");
}
