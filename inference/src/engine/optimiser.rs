//! Chooses how parameters move: Burn's optimisers on host vectors, learning-rate schedules, gradient clipping.

mod burn_rule;
mod fused_adam;
mod schedule;

pub use schedule::Schedule;

use std::ops::Range;

use partita_core::Device;
use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};

/// The optimiser of a run, in words.
///
/// The rules are Burn's, of the same names. `Adam` runs as one fused loop with the operations of Burn's Adam on f64
/// tensors; its constants are in double precision, where Burn's are rounded to single (`laws::adam` holds it to both
/// claims). The others call Burn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Optimiser {
    /// Adam (Kingma and Ba, 2015).
    Adam {
        /// Decay of the mean of gradients and of their squares.
        decay: [f64; 2],
        /// Added to the root of the mean square.
        epsilon: f64,
    },
    /// Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
    AdamW {
        /// How strongly parameters are drawn to zero.
        weight_decay: f32,
    },
    /// Stochastic gradient descent.
    Sgd {
        /// Momentum; 0 for none.
        momentum: f64,
    },
    /// RMSProp.
    RmsProp {
        /// Momentum; 0 for none.
        momentum: f32,
    },
}

impl Optimiser {
    /// Adam with the customary constants.
    #[must_use]
    pub fn adam() -> Self {
        Self::Adam { decay: [0.9, 0.999], epsilon: 1e-8 }
    }

    /// A fresh rule of this kind for one vector of parameters.
    #[must_use]
    pub fn start(self, device: &Device) -> Box<dyn UpdateRule> {
        match self {
            Self::Adam { decay, epsilon } => Box::new(fused_adam::FusedAdam::new(decay, epsilon)),
            Self::AdamW { weight_decay } => burn_rule::adam_w(weight_decay, device),
            Self::Sgd { momentum } => burn_rule::sgd(momentum, device),
            Self::RmsProp { momentum } => burn_rule::rms_prop(momentum, device),
        }
    }

    /// Refuses constants with which the rule is not defined.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(self) -> Result<()> {
        let keeps = |share: f64| (0.0..1.0).contains(&share);
        let is_defined = match self {
            Self::Adam { decay, epsilon } => decay.into_iter().all(keeps) && epsilon > 0.0 && epsilon.is_finite(),
            Self::AdamW { weight_decay } => weight_decay >= 0.0 && weight_decay.is_finite(),
            Self::Sgd { momentum } => keeps(momentum),
            Self::RmsProp { momentum } => keeps(f64::from(momentum)),
        };
        if is_defined {
            return Ok(());
        }
        Err(Error::Setting {
            setting: "optimiser",
            found: format!("{self:?}"),
            expected: "0 <= decay < 1, 0 <= momentum < 1, epsilon > 0 and weight decay >= 0, all finite",
        })
    }
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
    /// own cost; `None` where it may also move other rows, and the whole has to be saved.
    fn save_rows(&self, _places: &RowPlaces<'_>) -> Option<Vec<(String, Vec<f64>)>> {
        None
    }

    /// Restores what [`UpdateRule::save_rows`] gave for these places; false if it is not of this rule.
    fn load_rows(&mut self, _places: &RowPlaces<'_>, _state: Vec<(String, Vec<f64>)>) -> bool {
        false
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
    pub(crate) fn put(&self, values: &[f64], all_rows: &mut [f64]) {
        for (all, own) in (0..self.rows.len()).flat_map(|index| self.of(index)) {
            all_rows[all].copy_from_slice(&values[own]);
        }
    }

    /// The numbers of these rows among those of all rows.
    pub(crate) fn gather(&self, all_rows: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.rows.len() * self.arrays.iter().map(|[.., width]| width).sum::<usize>()];
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
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        if norm <= self.norm {
            return false;
        }
        gradient.iter_mut().for_each(|g| *g *= self.norm / norm);
        true
    }

    /// Refuses a limit that is not positive.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(self) -> Result<()> {
        if self.norm > 0.0 {
            return Ok(());
        }
        Err(Error::Setting { setting: "clip.norm", found: self.norm.to_string(), expected: "a number > 0, such as 10" })
    }
}
