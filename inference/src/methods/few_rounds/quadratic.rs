//! Holds what a silo says of its rows in its start: a quadratic around its own posterior.

use faer::Mat;

use super::step::{Share, without_rise};
use crate::engine::error::Result;
use crate::engine::normal::Normal;

/// A silo's log marginal likelihood near its own posterior: $g^\top w + \tfrac12 w^\top A w$ with $w = L^{-1}(z - m)$.
pub(super) struct Quadratic {
    pub(super) around: Normal,
    share: Share,
    /// $A$ without directions in which it rises.
    curvature: Mat<f64>,
}

impl Quadratic {
    /// Of a share around `around`.
    ///
    /// # Errors
    /// As for [`without_rise`].
    pub(super) fn new(around: Normal, share: &Share) -> Result<Self> {
        Ok(Self { around, share: share.clone(), curvature: without_rise(&share.matrix())? })
    }

    /// Value and gradient at a point.
    pub(super) fn at(&self, globals: &[f64]) -> (f64, Vec<f64>) {
        let white = self.around.whiten(globals);
        let len = white.len();
        let bent: Vec<f64> =
            (0..len).map(|i| (0..len).map(|j| self.curvature[(i, j)] * white[j]).sum::<f64>()).collect();
        let slope: Vec<f64> = self.share.gradient.iter().zip(&bent).map(|(g, b)| g + b).collect();
        let value = white.iter().zip(&self.share.gradient).zip(&bent).map(|((w, g), b)| w * (g + 0.5 * b)).sum();
        (value, self.around.unpull(&slope))
    }
}
