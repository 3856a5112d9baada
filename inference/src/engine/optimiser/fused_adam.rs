//! Runs Adam as one vectorised loop over parameters, gradient and moments.

use partita_core::Device;
use partita_core::kernel::{AdamUpdate, adam};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Optimiser, RowPlaces, UpdateRule, defined, keeps};
use crate::engine::error::Result;

/// Adam (Kingma and Ba, 2015); by default with the customary constants.
///
/// It runs as one fused loop with the operations of Burn's Adam on f64 tensors; its constants are in double precision,
/// where Burn's are rounded to single (`laws::adam` holds it to both claims).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// Decay of the mean of gradients and of their squares.
    pub decay: [f64; 2],
    /// Added to the root of the mean square.
    pub epsilon: f64,
}

impl Default for Adam {
    fn default() -> Self {
        Self { decay: [0.9, 0.999], epsilon: 1e-8 }
    }
}

impl Optimiser for Adam {
    fn start(&self, _: &Device) -> Box<dyn UpdateRule> {
        Box::new(FusedAdam { decay: self.decay, epsilon: self.epsilon, ..FusedAdam::default() })
    }

    fn check(&self) -> Result<()> {
        defined(self, self.decay.into_iter().all(keeps) && self.epsilon > 0.0 && self.epsilon.is_finite())
    }
}

/// Parameters that one thread moves at a time.
const PART: usize = 16_384;

/// Adam's state: running means of gradients and of their squares.
#[derive(Debug, Default)]
struct FusedAdam {
    decay: [f64; 2],
    epsilon: f64,
    time: u64,
    first: Vec<f64>,
    second: Vec<f64>,
    /// Steps of each row, where rows are moved apart from one another.
    row_times: Vec<u64>,
}

impl UpdateRule for FusedAdam {
    fn step(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64]) {
        self.first.resize(parameters.len(), 0.0);
        self.second.resize(parameters.len(), 0.0);
        self.time += 1;
        let update = AdamUpdate::at(self.time, rate, self.decay, self.epsilon);
        if parameters.len() <= PART {
            return adam(parameters, gradient, &mut self.first, &mut self.second, &update);
        }
        let moments = self.first.par_chunks_mut(PART).zip(self.second.par_chunks_mut(PART));
        let parts = parameters.par_chunks_mut(PART).zip(gradient.par_chunks(PART)).zip(moments);
        parts.for_each(|((parameters, gradient), (first, second))| adam(parameters, gradient, first, second, &update));
    }

    fn step_rows(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64], places: &RowPlaces<'_>) {
        self.first.resize(parameters.len(), 0.0);
        self.second.resize(parameters.len(), 0.0);
        self.row_times.resize(places.total, 0);
        for (index, &row) in places.rows.iter().enumerate() {
            self.row_times[row] += 1;
            let update = AdamUpdate::at(self.row_times[row], rate, self.decay, self.epsilon);
            for (all, own) in places.of(index) {
                let moments = (&mut self.first[all.clone()], &mut self.second[all.clone()]);
                adam(&mut parameters[all], &gradient[own], moments.0, moments.1, &update);
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a run has far fewer than 2^52 steps")]
    fn save(&self) -> Vec<(String, Vec<f64>)> {
        let mut state = vec![
            ("time".into(), vec![self.time as f64]),
            ("first".into(), self.first.clone()),
            ("second".into(), self.second.clone()),
        ];
        if !self.row_times.is_empty() {
            state.push(("row_times".into(), self.row_times.iter().map(|time| *time as f64).collect()));
        }
        state
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the time was saved from a u64")]
    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        let mut found = [false; 3];
        self.row_times.clear();
        for (name, values) in state {
            match (name.as_str(), values.as_slice()) {
                ("time", [time]) => (self.time, found[0]) = (*time as u64, true),
                ("first", _) => (self.first, found[1]) = (values, true),
                ("second", _) => (self.second, found[2]) = (values, true),
                ("row_times", times) => self.row_times = times.iter().map(|time| *time as u64).collect(),
                _ => return false,
            }
        }
        found == [true; 3] && self.first.len() == self.second.len()
    }

    /// Moments and times of these rows; empty before the first step.
    #[expect(clippy::cast_precision_loss, reason = "a run has far fewer than 2^52 steps")]
    fn save_rows(&self, places: &RowPlaces<'_>) -> Option<Vec<(String, Vec<f64>)>> {
        let moments = |all: &[f64]| if all.is_empty() { Vec::new() } else { places.gather(all) };
        let times = places.rows.iter().map(|row| self.row_times.get(*row).map_or(0.0, |time| *time as f64));
        let (first, second) = (moments(&self.first), moments(&self.second));
        Some(vec![("first".into(), first), ("second".into(), second), ("row_times".into(), times.collect())])
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the times were saved from u64")]
    fn load_rows(&mut self, places: &RowPlaces<'_>, state: Vec<(String, Vec<f64>)>) -> bool {
        let [(_, first), (_, second), (_, times)] = state.as_slice() else { return false };
        for (all, own) in [(&mut self.first, first), (&mut self.second, second)] {
            if own.is_empty() { all.clear() } else { places.put(own, all) }
        }
        // Rows that were never moved have no times to restore.
        for (row, time) in places.rows.iter().zip(times) {
            if let Some(slot) = self.row_times.get_mut(*row) {
                *slot = *time as u64;
            }
        }
        times.len() == places.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 4;
    /// Two arrays, of two numbers and of one number a row.
    const WIDTHS: [usize; 2] = [2, 1];

    fn places(rows: &[usize]) -> RowPlaces<'_> {
        let arrays = vec![[0, 0, WIDTHS[0]], [ROWS * WIDTHS[0], rows.len() * WIDTHS[0], WIDTHS[1]]];
        RowPlaces { rows, total: ROWS, arrays }
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
            let (state, own) = (rule.save_rows(&places).unwrap(), places.gather(&parameters));
            rule.step_rows(0.1, &mut parameters, &compact(step, rows), &places);
            let (after, moved) = (rule.save(), parameters.clone());
            assert_ne!(moved, at);
            assert!(rule.load_rows(&places, state));
            places.put(&own, &mut parameters);
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
}
