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
