//! Keeps the latest steps of a search with the changes of the gradient along them, and what they say of the curvature.

mod line_search;

pub(crate) use line_search::{Along, Search, strong_wolfe};

use crate::engine::natural::dot;

/// Steps and the changes of the gradient along them, latest last.
#[derive(Debug)]
pub(crate) struct Memory {
    pairs: Vec<(Vec<f64>, Vec<f64>)>,
    most: usize,
}

impl Memory {
    /// An empty one of so many pairs at most.
    pub(crate) fn new(most: usize) -> Self {
        Self { pairs: Vec::new(), most }
    }

    /// Whether it knows no curvature.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Forgets all pairs.
    pub(crate) fn clear(&mut self) {
        self.pairs.clear();
    }

    /// Keeps a pair along which the gradient rises, as every accepted step's does.
    pub(crate) fn push(&mut self, step: Vec<f64>, change: Vec<f64>) {
        if dot(&step, &change) > 0.0 {
            if self.pairs.len() == self.most {
                self.pairs.remove(0);
            }
            self.pairs.push((step, change));
        }
    }

    /// Minus the inverse Hessian times a gradient, by the recursion of two loops.
    pub(crate) fn direction(&self, gradient: &[f64]) -> Vec<f64> {
        let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let mut factors = Vec::new();
        for (step, change) in self.pairs.iter().rev() {
            let factor = dot(step, &direction) / dot(step, change);
            direction.iter_mut().zip(change).for_each(|(slot, change)| *slot -= factor * change);
            factors.push(factor);
        }
        if let Some((step, change)) = self.pairs.last() {
            let scale = dot(step, change) / dot(change, change);
            direction.iter_mut().for_each(|slot| *slot *= scale);
        }
        for ((step, change), factor) in self.pairs.iter().zip(factors.iter().rev()) {
            let other = dot(change, &direction) / dot(step, change);
            direction.iter_mut().zip(step).for_each(|(slot, step)| *slot += (factor - other) * step);
        }
        direction
    }
}
