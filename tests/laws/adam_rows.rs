//! Claims that Adam moves each row as an Adam of the row's own, and that a step on few rows can be undone.
#![allow(clippy::cast_precision_loss, reason = "steps and rows are few")]

use partita::Device;
use partita::inference::{Adam, Optimiser, RowPlaces};

const ROWS: usize = 4;
/// Two arrays, of two numbers and of one number a row.
const WIDTHS: [usize; 2] = [2, 1];

fn places(rows: &[usize]) -> RowPlaces<'_> {
    let arrays = vec![[0, 0, WIDTHS[0]], [ROWS * WIDTHS[0], rows.len() * WIDTHS[0], WIDTHS[1]]];
    RowPlaces { rows, total: ROWS, arrays }
}

/// Where the numbers of these rows stand among those of all rows.
fn of_all(rows: &[usize]) -> impl Iterator<Item = usize> {
    rows.iter().flat_map(|row| [2 * row, 2 * row + 1]).chain(rows.iter().map(|row| 2 * ROWS + row))
}

fn gather(rows: &[usize], all: &[f64]) -> Vec<f64> {
    of_all(rows).map(|place| all[place]).collect()
}

fn put(rows: &[usize], own: &[f64], all: &mut [f64]) {
    of_all(rows).zip(own).for_each(|(place, own)| all[place] = *own);
}

fn gradient(step: usize, row: usize) -> [f64; 3] {
    [0, 1, 2].map(|k| ((7 * step + 3 * row + k) as f64 * 0.618).sin())
}

fn compact(step: usize, rows: &[usize]) -> Vec<f64> {
    let pairs = rows.iter().flat_map(|row| gradient(step, *row)[..2].to_vec());
    pairs.chain(rows.iter().map(|row| gradient(step, *row)[2])).collect()
}

const BATCHES: [&[usize]; 6] = [&[2, 0], &[1], &[3, 2, 1], &[0], &[2, 3], &[1, 0]];

#[test]
fn every_row_moves_as_by_an_adam_of_its_own() {
    let (mut together, mut parameters) = (Adam::default().start(&Device::flex()), vec![0.5; ROWS * 3]);
    for (step, rows) in BATCHES.into_iter().enumerate() {
        together.step_rows(0.1, &mut parameters, &compact(step, rows), &places(rows));
    }
    for row in 0..ROWS {
        let (mut alone, mut own) = (Adam::default().start(&Device::flex()), [0.5; 3]);
        for (step, _) in BATCHES.into_iter().enumerate().filter(|(_, rows)| rows.contains(&row)) {
            alone.step(0.1, &mut own, &gradient(step, row));
        }
        let found = [parameters[2 * row], parameters[2 * row + 1], parameters[2 * ROWS + row]];
        assert_eq!(found.map(f64::to_bits), own.map(f64::to_bits), "row {row}");
    }
}

#[test]
fn a_step_on_rows_is_undone_by_the_state_of_these_rows() {
    let (mut rule, mut parameters) = (Adam::default().start(&Device::flex()), vec![0.5; ROWS * 3]);
    for (step, rows) in BATCHES.into_iter().enumerate() {
        let (before, at, places) = (rule.save(), parameters.clone(), places(rows));
        let (state, own) = (rule.save_rows(&places).unwrap(), gather(rows, &parameters));
        rule.step_rows(0.1, &mut parameters, &compact(step, rows), &places);
        let (after, moved) = (rule.save(), parameters.clone());
        assert_ne!(moved, at);
        assert!(rule.load_rows(&places, state));
        put(rows, &own, &mut parameters);
        assert_eq!(parameters, at);
        // Before the first step there were no times of rows, which is times of zero.
        assert_eq!(rule.save()[..3], before[..3]);
        rule.step_rows(0.1, &mut parameters, &compact(step, rows), &places);
        assert_eq!((rule.save(), parameters.clone()), (after, moved));
    }
}

#[test]
fn a_restored_state_goes_on_with_the_same_bits() {
    let (mut going_on, mut parameters) = (Adam::default().start(&Device::flex()), vec![0.5; ROWS * 3]);
    let (mut restored, mut own) = (Adam::default().start(&Device::flex()), Vec::new());
    for (step, rows) in BATCHES.into_iter().enumerate() {
        if step == 3 {
            assert!(restored.load(going_on.save()));
            own = parameters.clone();
        }
        going_on.step_rows(0.1, &mut parameters, &compact(step, rows), &places(rows));
        if step >= 3 {
            restored.step_rows(0.1, &mut own, &compact(step, rows), &places(rows));
        }
    }
    assert_eq!(
        own.iter().map(|p| p.to_bits()).collect::<Vec<_>>(),
        parameters.iter().map(|p| p.to_bits()).collect::<Vec<_>>()
    );
}
