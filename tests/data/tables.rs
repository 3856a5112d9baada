//! Claims that tables report every bad cell, that splits keep their word, and that minibatches need no saved state.

use std::io::Write;

use partita_core::{
    BadCell, DataError, Minibatches, Noise, Table, partition_by_key, partition_by_label_skew, partition_by_sizes,
    partition_equally, partition_groups,
};

use super::partitions::assert_partition;

fn table(text: &str) -> Result<Table, DataError> {
    Table::from_reader("towns.csv", text.as_bytes())
}

#[test]
fn a_table_is_read_from_a_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all("\u{feff}x, y ,name\n1,2.5,a\n-3e2,4,\"b, c\"\n".as_bytes()).unwrap();
    let table = Table::from_path(file.path()).unwrap();
    assert_eq!((table.rows(), table.names()), (2, ["x", "y", "name"].map(String::from).as_slice()));
    assert_eq!(table.numbers(["y", "x"]).unwrap(), [vec![2.5, 4.0], vec![1.0, -300.0]]);
    assert_eq!(table.text("name").unwrap(), ["a", "b, c"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Table::from_path("no/such/towns.csv").unwrap_err();
    assert!(matches!(&error, DataError::Unreadable { file, .. } if file == "no/such/towns.csv"));
}

#[test]
fn text_that_is_not_unicode_is_refused() {
    let error = Table::from_reader("towns.csv", [b'x', b'\n', 0xff, b'\n'].as_slice()).unwrap_err();
    assert!(matches!(error, DataError::Unreadable { .. }));
}

#[test]
fn every_bad_cell_is_reported_by_row_line_and_column() {
    let error = table("x,y\n1,NA\n2,3\n,inf\n").unwrap().numbers(["x", "y"]).unwrap_err();
    let cell = |row, line, column: &str, found: &str| BadCell { row, line, column: column.into(), found: found.into() };
    let cells = vec![cell(1, 2, "y", "NA"), cell(3, 4, "x", ""), cell(3, 4, "y", "inf")];
    assert_eq!(error, DataError::BadCells { file: "towns.csv".into(), count: 3, cells });
    assert!(error.to_string().contains(r#"row 1 (line 2), column `y`: "NA""#), "{error}");
}

#[test]
fn lines_are_counted_where_windows_ends_them_and_where_some_are_empty() {
    for text in ["x,y\r\n1,2\r\n3,bad\r\n", "x,y\n\n3,bad\n", "x,y\r\n\r\n3,bad"] {
        let error = table(text).unwrap().numbers(["y"]).unwrap_err();
        assert!(matches!(&error, DataError::BadCells { cells, .. } if cells[0].line == 3), "{text:?}: {error}");
    }
    assert_eq!(table("x\r\n1\r\n2\r\n").unwrap().lines().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_column_that_is_not_asked_for_may_hold_anything() {
    assert_eq!(table("x,y\n1,NA\n").unwrap().numbers(["x"]).unwrap(), [vec![1.0]]);
}

#[test]
fn more_than_twenty_bad_cells_are_counted() {
    let text = format!("x\n{}", "bad\n".repeat(50));
    let error = table(&text).unwrap().numbers(["x"]).unwrap_err();
    assert!(matches!(&error, DataError::BadCells { count: 50, cells, .. } if cells.len() == 20));
    assert!(error.to_string().contains("and 30 more"), "{error}");
}

#[test]
fn all_missing_columns_are_named_with_those_present() {
    let error = table("x,y\n1,2\n").unwrap().numbers(["age", "x", "sex"]).unwrap_err();
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = DataError::MissingColumns {
        file: "towns.csv".into(),
        missing: names(&["age", "sex"]),
        present: names(&["x", "y"]),
    };
    assert_eq!(error, expected);
    assert!(error.to_string().contains("no column `age`, `sex`. It has: `x`, `y`"), "{error}");
}

#[test]
fn ragged_rows_are_listed_by_line() {
    let error = table("x,y\n1,2\n3\n4,5,6\n").unwrap_err();
    let expected =
        DataError::RaggedRows { file: "towns.csv".into(), expected: 2, count: 2, rows: vec![(3, 1), (4, 3)] };
    assert_eq!(error, expected);
}

#[test]
fn empty_files_and_repeated_names_are_refused() {
    assert!(matches!(table("").unwrap_err(), DataError::Empty { found: "nothing", .. }));
    assert!(matches!(table("x,y\n").unwrap_err(), DataError::Empty { found: "column names but no rows", .. }));
    let twice = table("x,y,x\n1,2,3\n").unwrap_err();
    assert!(matches!(&twice, DataError::DuplicateColumn { column, places: [1, 3], .. } if column == "x"), "{twice}");
}

#[test]
fn equal_silos_differ_by_at_most_one_row() {
    let sizes: Vec<usize> = partition_equally(11, 4, &Noise::new(1)).unwrap().iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 3, 3, 2]);
}

#[test]
fn groups_stay_together() {
    let patients: Vec<usize> = (0..60).map(|row| row % 20).collect();
    let silos = partition_groups(&patients, |groups| partition_equally(groups, 4, &Noise::new(3))).unwrap();
    for patient in 0..20 {
        let holders = silos.iter().filter(|silo| silo.iter().any(|row| patients[*row] == patient)).count();
        assert_eq!(holders, 1);
    }
}

#[test]
fn a_group_assigned_twice_is_refused() {
    let error = partition_groups(&[1, 2], |_| Ok(vec![vec![0], vec![0]])).unwrap_err();
    assert!(matches!(error, DataError::Argument { argument: "the assignment", .. }));
}

/// The largest share of label 0 in any silo, of which half would be the same mix everywhere.
fn largest_share(concentration: f64) -> Result<f64, DataError> {
    let labels: Vec<usize> = (0..2000).map(|row| row % 2).collect();
    let silos = partition_by_label_skew(&labels, 4, concentration, &Noise::new(11))?;
    let share = |silo: &Vec<usize>| {
        let zeros = silo.iter().filter(|row| labels[**row] == 0).count();
        zeros as f64 / silo.len() as f64
    };
    Ok(fixtures::largest(silos.iter().map(share)))
}

#[test]
fn low_concentrations_skew_labels_and_high_ones_do_not() {
    assert!(largest_share(0.1).unwrap() > 0.9);
    // Shares of a Dirichlet with concentration 1e6 are within 0.1 % of a quarter.
    assert!((largest_share(1e6).unwrap() - 0.5).abs() < 0.005);
}

#[test]
fn splits_that_leave_a_silo_empty_are_refused() {
    let noise = Noise::new(1);
    assert!(matches!(partition_equally(3, 4, &noise), Err(DataError::EmptySilo { silo: 3, silos: 4, rows: 3, .. })));
    assert!(matches!(partition_by_sizes(3, &[3, 0], &noise), Err(DataError::EmptySilo { silo: 1, .. })));
    assert!(matches!(partition_by_label_skew(&[1], 2, 1.0, &noise), Err(DataError::EmptySilo { .. })));
    // All rows have one label, and a concentration of 1e-9 gives practically all of them to one silo.
    let hopeless = partition_by_label_skew(&[1; 50], 10, 1e-9, &noise);
    assert!(matches!(hopeless, Err(DataError::EmptySilo { silos: 10, rows: 50, .. })));
}

#[test]
fn splits_without_silos_or_rows_or_sense_are_refused() {
    let noise = Noise::new(1);
    let is_argument = |result: Result<Vec<Vec<usize>>, DataError>| matches!(result, Err(DataError::Argument { .. }));
    assert!(is_argument(partition_by_key::<usize>(&[])));
    assert!(is_argument(partition_equally(3, 0, &noise)));
    assert!(is_argument(partition_by_sizes(3, &[], &noise)));
    assert!(is_argument(partition_by_label_skew(&[1], 0, 1.0, &noise)));
    assert!(is_argument(partition_by_label_skew(&[1], 1, f64::NAN, &noise)));
    let sizes = partition_by_sizes(537, &[300, 238], &noise);
    assert!(matches!(sizes, Err(DataError::SizesDoNotAdd { sum: 538, rows: 537, .. })));
}

#[test]
fn an_epoch_of_minibatches_holds_every_row_once() {
    let (batches, noise) = (Minibatches::new(103, 10).unwrap(), Noise::new(5));
    assert_eq!(batches.batches(), 11);
    for epoch in 0..3 {
        let rows: Vec<Vec<usize>> = (0..11).map(|batch| batches.rows_at(epoch * 11 + batch, &noise, 2)).collect();
        assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [vec![10; 10], vec![3]].concat());
        assert_partition(&rows, 103);
    }
}

#[test]
fn minibatches_resume_at_any_step() {
    let noise = Noise::new(5);
    let kept = Minibatches::new(103, 10).unwrap();
    let before: Vec<_> = (0..40).map(|step| kept.rows_at(step, &noise, 0)).collect();
    for step in [39, 0, 17] {
        let resumed = Minibatches::new(103, 10).unwrap();
        assert_eq!(Some(&resumed.rows_at(step, &noise, 0)), before.get(step as usize));
    }
}

#[test]
fn epochs_silos_and_seeds_are_ordered_differently() {
    let batches = Minibatches::new(1000, 100).unwrap();
    let first = batches.rows_at(0, &Noise::new(5), 0);
    assert_ne!(first, batches.rows_at(10, &Noise::new(5), 0));
    assert_ne!(first, batches.rows_at(0, &Noise::new(5), 1));
    assert_ne!(first, batches.rows_at(0, &Noise::new(6), 0));
    assert_eq!(first, batches.rows_at(0, &Noise::new(5), 0));
}

#[test]
fn a_scaled_minibatch_sum_is_unbiased_for_short_batches_too() {
    let (batches, noise) = (Minibatches::new(7, 3).unwrap(), Noise::new(9));
    let scales: Vec<f64> = (0..3).map(|step| batches.scale_at(step)).collect();
    assert_eq!(scales, [7.0 / 3.0, 7.0 / 3.0, 7.0]);
    let value = |row: usize| (row * row) as f64;
    let epochs = 20_000_u64;
    for batch in 0..3 {
        let sums: Vec<f64> = (0..epochs)
            .map(|epoch| {
                let step = epoch * 3 + batch;
                batches.scale_at(step) * batches.rows_at(step, &noise, 0).into_iter().map(value).sum::<f64>()
            })
            .collect();
        let count = epochs as f64;
        let mean = sums.iter().sum::<f64>() / count;
        let variance = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / count;
        // 0 + 1 + 4 + ... + 36 = 91; 5·SE, which fails by chance once in two million.
        assert!((mean - 91.0).abs() < 5.0 * (variance / count).sqrt(), "batch {batch}: {mean}");
    }
}

#[test]
fn a_batch_of_all_rows_is_all_rows_in_order() {
    let batches = Minibatches::new(4, 100).unwrap();
    assert_eq!((batches.batches(), batches.rows_at(3, &Noise::new(1), 0)), (1, vec![0, 1, 2, 3]));
}

#[test]
fn minibatches_of_nothing_are_refused() {
    assert!(matches!(Minibatches::new(0, 5), Err(DataError::Argument { argument: "number of rows", .. })));
    assert!(matches!(Minibatches::new(5, 0), Err(DataError::Argument { argument: "batch size", .. })));
}
