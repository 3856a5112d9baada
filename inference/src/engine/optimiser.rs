//! Chooses how parameters move: Burn's optimisers on host vectors, learning-rate schedules, gradient clipping.

mod burn_rule;
mod fused_adam;
mod schedule;

pub use burn_rule::{AdamW, RmsProp, Sgd};
pub use fused_adam::Adam;
pub use schedule::Schedule;

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

use partita_core::Device;
use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};
use crate::engine::plug::plug;
use crate::engine::trainer::norm;

/// How parameters move: what a user chooses, from which a party starts an [`UpdateRule`] for each vector that it trains.
///
/// The rules that come with the crate are Burn's, of the same names.
///
/// # Laws
/// Those of the rules that it starts: `laws::update_rule`.
///
/// # Example
/// ```
/// use partita_inference::{Adam, Optimiser, Settings, Sgd};
/// let settings = Settings { optimiser: Sgd { momentum: 0.9 }.into(), ..Settings::default() };
/// assert!(settings.optimiser.check().is_ok() && settings.optimiser != Adam::default().into());
/// ```
pub trait Optimiser: Any + Debug + Send + Sync {
    /// A fresh rule for one vector of parameters.
    fn start(&self, device: &Device) -> Box<dyn UpdateRule>;

    /// Refuses constants with which the rule is not defined.
    ///
    /// # Errors
    /// [`Error::Setting`].
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

plug! {
    Optimiser, "an optimiser",
    names {},
    values { Adam: Adam, AdamW: AdamW, Sgd: Sgd, RmsProp: RmsProp }
}

/// Refuses an optimiser whose constants are out of their ranges.
fn defined(optimiser: &dyn Optimiser, is_defined: bool) -> Result<()> {
    let expected = "0 <= decay < 1, 0 <= momentum < 1, epsilon > 0 and weight decay >= 0, all finite";
    Error::unless(is_defined, "optimiser", format_args!("{optimiser:?}"), expected)
}

/// Whether a mean that forgets keeps this share of what it was.
fn keeps(share: f64) -> bool {
    (0.0..1.0).contains(&share)
}

/// Moves one vector of parameters against a gradient, keeping what it needs between steps.
///
/// # Laws
/// After `load(save())` further steps give the same bits as without; `laws::update_rule` checks it.
pub trait UpdateRule: Send + Sync {
    /// Moves `parameters` one step of size `rate` down `gradient`.
    fn step(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64]);

    /// Moves the parameters of some rows only; `gradient` holds those of these rows.
    ///
    /// Adam moves a row as an Adam of the row's own would that takes a step whenever the row is evaluated: moments and
    /// bias correction of the other rows wait, and a step costs what these rows cost. Rules without such a way see a
    /// gradient of zero for the other rows, which may go on moving by momentum.
    fn step_rows(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64], places: &RowPlaces<'_>) {
        self.step(rate, parameters, &places.scatter(gradient, parameters.len()));
    }

    /// The state as named vectors.
    fn save(&self) -> Vec<(String, Vec<f64>)>;

    /// Restores a saved state; false if it is not one of this rule.
    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool;

    /// What [`UpdateRule::step_rows`] may change of the state, so that a step on few of many rows can be undone at its
    /// own cost; `None`, for any rows, where it may also move other rows, and the whole has to be saved.
    fn save_rows(&self, _places: &RowPlaces<'_>) -> Option<Vec<(String, Vec<f64>)>> {
        None
    }

    /// Restores what [`UpdateRule::save_rows`] gave for these places; false if it is not of this rule.
    fn load_rows(&mut self, _places: &RowPlaces<'_>, _state: Vec<(String, Vec<f64>)>) -> bool {
        false
    }
}

impl std::fmt::Debug for dyn UpdateRule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("UpdateRule")
    }
}

/// Where the numbers of some rows stand among those of all rows.
#[derive(Debug, Clone)]
pub struct RowPlaces<'a> {
    /// The rows, none twice.
    pub rows: &'a [usize],
    /// The number of all rows.
    pub total: usize,
    /// For each array: where it starts among the numbers of all rows, where among those of `rows`, and numbers a row.
    pub arrays: Vec<[usize; 3]>,
}

impl RowPlaces<'_> {
    /// Where the numbers of the `index`-th row stand, array by array: among those of all rows, and of these rows.
    pub(crate) fn of(&self, index: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let row = self.rows[index];
        let places = self.arrays.iter().filter(|[.., width]| *width > 0);
        places.map(move |[all, own, width]| {
            (all + row * width..all + (row + 1) * width, own + index * width..own + (index + 1) * width)
        })
    }

    /// Numbers of these rows at their places among zeros.
    pub(crate) fn scatter(&self, values: &[f64], length: usize) -> Vec<f64> {
        let mut out = vec![0.0; length];
        self.put(values, &mut out);
        out
    }

    /// Writes numbers of these rows at their places among those of all rows.
    pub(crate) fn put<T: Copy>(&self, values: &[T], all_rows: &mut [T]) {
        for (all, own) in (0..self.rows.len()).flat_map(|index| self.of(index)) {
            all_rows[all].copy_from_slice(&values[own]);
        }
    }

    /// The numbers of these rows among those of all rows.
    pub(crate) fn gather<T: Copy + Default>(&self, all_rows: &[T]) -> Vec<T> {
        let mut out = vec![T::default(); self.rows.len() * self.arrays.iter().map(|[.., width]| width).sum::<usize>()];
        for (all, own) in (0..self.rows.len()).flat_map(|index| self.of(index)) {
            out[own].copy_from_slice(&all_rows[all]);
        }
        out
    }
}

/// Limits the Euclidean norm of a gradient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Clip {
    /// The largest norm let through unchanged.
    pub norm: f64,
}

impl Clip {
    /// Scales `gradient` down to the norm if it is longer, and says whether it did.
    #[must_use = "clipping changes the gradient and must be reported"]
    pub fn apply(self, gradient: &mut [f64]) -> bool {
        let mut length = norm(gradient);
        if length <= self.norm {
            return false;
        }
        if length.is_infinite() {
            // Squares of numbers beyond 1e154 overflow: those in units of the largest do not.
            let largest = gradient.iter().fold(0.0, |largest: f64, g| largest.max(g.abs()));
            let in_units: Vec<f64> = gradient.iter().map(|g| g / largest).collect();
            length = norm(&in_units);
            if length * largest <= self.norm {
                return false;
            }
            gradient.copy_from_slice(&in_units);
        }
        gradient.iter_mut().for_each(|g| *g *= self.norm / length);
        true
    }

    /// Refuses a limit that is not positive.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(self) -> Result<()> {
        Error::unless(self.norm > 0.0, "clip.norm", self.norm, "a number > 0, such as 10")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gradient_whose_square_overflows_is_clipped_to_its_direction() {
        let clipped = |norm: f64, mut gradient: Vec<f64>| {
            let is_clipped = Clip { norm }.apply(&mut gradient);
            (is_clipped, gradient)
        };
        assert_eq!(clipped(1.0, vec![1e200, 0.0]), (true, vec![1.0, 0.0]));
        let (is_clipped, gradient) = clipped(10.0, vec![-3e180, 4e180]);
        assert!(is_clipped && (gradient[0] + 6.0).abs() < 1e-12 && (gradient[1] - 8.0).abs() < 1e-12, "{gradient:?}");
        assert_eq!(clipped(1e201, vec![1e200, 0.0]), (false, vec![1e200, 0.0]));
        assert_eq!(clipped(1.0, vec![3.0, 4.0]), (true, vec![3.0 * (1.0 / 5.0), 4.0 * (1.0 / 5.0)]));
    }
}
