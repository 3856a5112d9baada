//! Runs Adam as one vectorised loop over parameters, gradient and moments.

use partita_core::kernel::{AdamUpdate, adam, adam_single};
use partita_core::{Device, Precision};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Optimiser, RowPlaces, UpdateRule, defined, keeps};
use crate::engine::PART;
use crate::engine::error::Result;
use crate::engine::explosion::{real, whole};

/// Adam (Kingma and Ba, 2015); by default with the customary constants.
///
/// It runs as one fused loop with the operations of Burn's Adam on f64 tensors; its constants are in double precision,
/// where Burn's are rounded to single (`laws::adam` holds it to both claims). On a device of single precision it keeps its
/// running means in that and computes in it, with parameters and gradients in f64.
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
    fn start(&self, device: &Device) -> Box<dyn UpdateRule> {
        let Self { decay, epsilon } = *self;
        match device.precision() {
            Precision::Double => Box::new(FusedAdam::<f64> { decay, epsilon, ..FusedAdam::default() }),
            Precision::Single => Box::new(FusedAdam::<f32> { decay, epsilon, ..FusedAdam::default() }),
        }
    }

    fn check(&self) -> Result<()> {
        defined(self, self.decay.into_iter().all(keeps) && self.epsilon > 0.0 && self.epsilon.is_finite())
    }
}

/// A number that running means are kept in.
trait Mean: Copy + Default + Send + Sync + 'static {
    /// One step down a gradient.
    fn step(parameters: &mut [f64], gradient: &[f64], first: &mut [Self], second: &mut [Self], update: &AdamUpdate);

    /// As a mean of gradients is saved, and one of squares.
    fn saved(first: Self, second: Self) -> [f64; 2];

    /// What [`Mean::saved`] was given.
    fn loaded(first: f64, second: f64) -> [Self; 2];
}

impl Mean for f64 {
    fn step(parameters: &mut [f64], gradient: &[f64], first: &mut [f64], second: &mut [f64], update: &AdamUpdate) {
        adam(parameters, gradient, first, second, update);
    }

    fn saved(first: f64, second: f64) -> [f64; 2] {
        [first, second]
    }

    fn loaded(first: f64, second: f64) -> [f64; 2] {
        [first, second]
    }
}

/// In single precision the roots of mean squares are kept, whose squares double precision holds without rounding.
impl Mean for f32 {
    fn step(parameters: &mut [f64], gradient: &[f64], first: &mut [f32], second: &mut [f32], update: &AdamUpdate) {
        adam_single(parameters, gradient, first, second, update);
    }

    fn saved(first: f32, second: f32) -> [f64; 2] {
        [first.into(), f64::from(second) * f64::from(second)]
    }

    #[expect(clippy::cast_possible_truncation, reason = "what was saved is in single precision")]
    fn loaded(first: f64, second: f64) -> [f32; 2] {
        [first as f32, second.sqrt() as f32]
    }
}

/// Adam's state: running means of gradients and of their squares, in the precision of the device.
#[derive(Debug, Default)]
struct FusedAdam<M> {
    decay: [f64; 2],
    epsilon: f64,
    time: u64,
    first: Vec<M>,
    second: Vec<M>,
    /// Steps of each row, where rows are moved apart from one another.
    row_times: Vec<u64>,
}

impl<M: Mean> FusedAdam<M> {
    /// Makes room for the means of so many parameters.
    fn grow(&mut self, length: usize) {
        self.first.resize(length, M::default());
        self.second.resize(length, M::default());
    }

    /// The means as they are saved.
    fn saved(first: &[M], second: &[M]) -> [Vec<f64>; 2] {
        let each = |place: usize| first.iter().zip(second).map(|(m, v)| M::saved(*m, *v)[place]).collect();
        [each(0), each(1)]
    }

    /// Means of so many parameters that were saved.
    fn loaded(first: &[f64], second: &[f64]) -> [Vec<M>; 2] {
        let each = |place: usize| first.iter().zip(second).map(|(m, v)| M::loaded(*m, *v)[place]).collect();
        [each(0), each(1)]
    }
}

impl<M: Mean> UpdateRule for FusedAdam<M> {
    fn step(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64]) {
        self.grow(parameters.len());
        self.time += 1;
        let update = AdamUpdate::at(self.time, rate, self.decay, self.epsilon);
        if parameters.len() <= PART {
            return M::step(parameters, gradient, &mut self.first, &mut self.second, &update);
        }
        let moments = self.first.par_chunks_mut(PART).zip(self.second.par_chunks_mut(PART));
        let parts = parameters.par_chunks_mut(PART).zip(gradient.par_chunks(PART)).zip(moments);
        parts.for_each(|((parameters, gradient), (first, second))| {
            M::step(parameters, gradient, first, second, &update)
        });
    }

    fn step_rows(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64], places: &RowPlaces<'_>) {
        self.grow(parameters.len());
        self.row_times.resize(places.total, 0);
        for (index, &row) in places.rows.iter().enumerate() {
            self.row_times[row] += 1;
            let update = AdamUpdate::at(self.row_times[row], rate, self.decay, self.epsilon);
            for (all, own) in places.of(index) {
                let moments = (&mut self.first[all.clone()], &mut self.second[all.clone()]);
                M::step(&mut parameters[all], &gradient[own], moments.0, moments.1, &update);
            }
        }
    }

    fn save(&self) -> Vec<(String, Vec<f64>)> {
        let [first, second] = Self::saved(&self.first, &self.second);
        let mut state =
            vec![("time".into(), vec![real(self.time)]), ("first".into(), first), ("second".into(), second)];
        if !self.row_times.is_empty() {
            state.push(("row_times".into(), self.row_times.iter().copied().map(real).collect()));
        }
        state
    }

    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        let (mut is_timed, mut means) = (false, [const { None }; 2]);
        self.row_times.clear();
        for (name, values) in state {
            match (name.as_str(), values.as_slice()) {
                ("time", [time]) => (self.time, is_timed) = (whole(*time), true),
                ("first", _) => means[0] = Some(values),
                ("second", _) => means[1] = Some(values),
                ("row_times", times) => self.row_times = times.iter().copied().map(whole).collect(),
                _ => return false,
            }
        }
        let [Some(first), Some(second)] = means else { return false };
        [self.first, self.second] = Self::loaded(&first, &second);
        is_timed && first.len() == second.len()
    }

    /// Moments and times of these rows; empty before the first step.
    fn save_rows(&self, places: &RowPlaces<'_>) -> Option<Vec<(String, Vec<f64>)>> {
        let moments = |all: &[M]| if all.is_empty() { Vec::new() } else { places.gather(all) };
        let times = places.rows.iter().map(|row| self.row_times.get(*row).map_or(0.0, |time| real(*time)));
        let [first, second] = Self::saved(&moments(&self.first), &moments(&self.second));
        Some(vec![("first".into(), first), ("second".into(), second), ("row_times".into(), times.collect())])
    }

    fn load_rows(&mut self, places: &RowPlaces<'_>, state: Vec<(String, Vec<f64>)>) -> bool {
        let [(_, first), (_, second), (_, times)] = state.as_slice() else { return false };
        let own = Self::loaded(first, second);
        for (all, own) in [&mut self.first, &mut self.second].into_iter().zip(own) {
            if own.is_empty() { all.clear() } else { places.put(&own, all) }
        }
        // Rows that were never moved have no times to restore.
        for (row, time) in places.rows.iter().zip(times) {
            if let Some(slot) = self.row_times.get_mut(*row) {
                *slot = whole(*time);
            }
        }
        times.len() == places.rows.len()
    }
}
