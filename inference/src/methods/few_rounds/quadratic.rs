//! Holds what is said of a log likelihood around a normal distribution: a quadratic in its coordinates.

use faer::Mat;

use super::step::{Share, without_rise};
use crate::engine::error::Result;
use crate::engine::natural::triangle::{pack, pairs, unpack};
use crate::engine::normal::Normal;

/// $g^\top w + \tfrac12 w^\top A w$ with $w = L^{-1}(z - m)$, the coordinates in which `around` is standard normal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Quadratic {
    pub(super) around: Normal,
    pub(super) gradient: Vec<f64>,
    pub(super) curvature: Mat<f64>,
}

impl Quadratic {
    /// That of a share around `around`, without directions in which the curvature rises.
    ///
    /// # Errors
    /// As for [`without_rise`].
    pub(super) fn new(around: Normal, share: &Share) -> Result<Self> {
        // By its lower triangle, as it is saved and sent.
        let curvature = pack(&without_rise(&share.matrix())?, 1.0, 1.0);
        Ok(Self { gradient: share.gradient.clone(), curvature: unpack(around.len(), &curvature, 1.0, 1.0), around })
    }

    /// Value and gradient at a point.
    pub(super) fn at(&self, globals: &[f64]) -> (f64, Vec<f64>) {
        let white = self.around.whiten(globals);
        let len = white.len();
        let bent: Vec<f64> =
            (0..len).map(|i| (0..len).map(|j| self.curvature[(i, j)] * white[j]).sum::<f64>()).collect();
        let slope: Vec<f64> = self.gradient.iter().zip(&bent).map(|(g, b)| g + b).collect();
        let value = white.iter().zip(&self.gradient).zip(&bent).map(|((w, g), b)| w * (g + 0.5 * b)).sum();
        (value, self.around.unpull(&slope))
    }

    /// The same in the coordinates of `now`, but for a constant.
    ///
    /// With $w = L^{-1}(m' - m)$ and $B = L^{-1}L'$ it has the gradient $B^\top(g + Aw)$ and the curvature $B^\top A B$.
    pub(super) fn seen_from(&self, now: &Normal) -> Self {
        let len = now.len();
        let (shift, by) = self.around.way_to(now);
        let slope: Vec<f64> = (0..len)
            .map(|i| self.gradient[i] + (0..len).map(|j| self.curvature[(i, j)] * shift[j]).sum::<f64>())
            .collect();
        Self { around: now.clone(), gradient: pulled(&by, &slope), curvature: by.transpose() * &self.curvature * &by }
    }

    /// The sum of this and another one around the same distribution, times `factor`.
    pub(super) fn plus(mut self, factor: f64, other: &Self) -> Self {
        self.gradient.iter_mut().zip(&other.gradient).for_each(|(slot, own)| *slot += factor * own);
        self.curvature += faer::Scale(factor) * &other.curvature;
        self
    }

    /// Gradient and lower triangle of the curvature.
    pub(super) fn numbers(&self) -> Vec<f64> {
        [self.gradient.clone(), pack(&self.curvature, 1.0, 1.0)].concat()
    }

    /// From [`Quadratic::numbers`], around a distribution; `None` if there are not as many.
    pub(super) fn of_numbers(around: Normal, numbers: &[f64]) -> Option<Self> {
        let len = around.len();
        let (gradient, curvature) = numbers.split_at_checked(len)?;
        let curvature = (curvature.len() == pairs(len)).then(|| unpack(len, curvature, 1.0, 1.0))?;
        Some(Self { around, gradient: gradient.into(), curvature })
    }

    /// All numbers in one vector.
    pub(super) fn flat(&self) -> Vec<f64> {
        [self.around.flat(), self.numbers()].concat()
    }

    /// From [`Quadratic::flat`] over so many globals; `None` for another length.
    pub(super) fn of_flat(values: &[f64], len: usize) -> Option<Self> {
        let (around, numbers) = values.split_at_checked(len + pairs(len))?;
        Self::of_numbers(Normal::of_flat(around, len)?, numbers)
    }
}

/// $B^\top v$.
pub(super) fn pulled(by: &Mat<f64>, vector: &[f64]) -> Vec<f64> {
    by.col_iter().map(|column| column.iter().zip(vector).map(|(own, v)| own * v).sum()).collect()
}
