//! Finds third derivatives of a log density from its gradients at draws and their twins.

use faer::Mat;

use crate::engine::whitened::Draws;

/// The most globals of which third derivatives are found: their number grows with the cube.
pub(crate) const MOST_GLOBALS: usize = 24;
/// Steps of conjugate gradients. They find first what draws show well: of few draws a fit that leaves nothing over would
/// take what is of fifth order, in few directions, for large third derivatives.
const MOST_STEPS: usize = 8;
/// What may be left of the squared gradient of the sum of squares.
const LEFT: f64 = 1e-20;

/// A symmetric tensor $T_{abc}$ of third derivatives.
#[derive(Debug, Clone)]
pub(super) struct Third {
    len: usize,
    /// All entries, of which symmetric ones are equal.
    entries: Vec<f64>,
}

impl Third {
    pub(super) fn none(len: usize) -> Self {
        Self { len, entries: vec![0.0; len * len * len] }
    }

    /// The tensor for which the even part of the gradient at draw $\varepsilon_k$, less its mean, is
    /// $\tfrac12 T : (\varepsilon_k\varepsilon_k^\top - I)$: nearly: by a few steps towards least squares.
    ///
    /// `even` has the mean of the gradients at each draw and its twin, one pair after the other, and `mean` that of all.
    pub(super) fn of(draws: &Draws, even: &[f64], mean: &[f64]) -> Self {
        let len = mean.len();
        let products: Vec<Mat<f64>> = (0..draws.pairs()).map(|k| less_one(draws.get(k))).collect();
        let mut found = Self::none(len);
        let mut residual: Vec<f64> = even.iter().zip(mean.iter().cycle()).map(|(own, mean)| own - mean).collect();
        let mut slope = Self::transposed(len, &products, &residual);
        let mut direction = slope.clone();
        let first = slope.square();
        let mut before = first;
        for _ in 0..MOST_STEPS {
            let along: Vec<f64> = products.iter().flat_map(|own| direction.bend(own)).collect();
            let square: f64 = along.iter().map(|own| own * own).sum();
            if before <= LEFT * first || square <= 0.0 {
                break;
            }
            let by = before / square;
            found.add(by, &direction);
            residual.iter_mut().zip(&along).for_each(|(slot, own)| *slot -= by * own);
            slope = Self::transposed(len, &products, &residual);
            let after = slope.square();
            let last = std::mem::replace(&mut direction, slope.clone());
            direction.add(after / before, &last);
            before = after;
        }
        found
    }

    /// $\tfrac12 T : M$ for a symmetric matrix.
    pub(super) fn bend(&self, matrix: &Mat<f64>) -> Vec<f64> {
        let plane = self.len * self.len;
        let bent = |own: &[f64]| {
            let rows = own.chunks_exact(self.len).enumerate();
            0.5 * rows
                .map(|(a, row)| row.iter().enumerate().map(|(b, own)| own * matrix[(a, b)]).sum::<f64>())
                .sum::<f64>()
        };
        self.entries.chunks_exact(plane.max(1)).map(bent).collect()
    }

    /// $T v$.
    pub(super) fn along(&self, by: &[f64]) -> Mat<f64> {
        let row = |a: usize, b: usize| &self.entries[(a * self.len + b) * self.len..][..self.len];
        Mat::from_fn(self.len, self.len, |a, b| row(a, b).iter().zip(by).map(|(own, by)| own * by).sum())
    }

    /// The transpose of [`Third::bend`] over all pairs, in symmetric tensors.
    fn transposed(len: usize, products: &[Mat<f64>], residual: &[f64]) -> Self {
        let mut found = Self::none(len);
        for (own, left) in products.iter().zip(residual.chunks_exact(len)) {
            for a in 0..len {
                for b in 0..len {
                    let slots = &mut found.entries[(a * len + b) * len..][..len];
                    for (c, slot) in slots.iter_mut().enumerate() {
                        *slot += (own[(a, b)] * left[c] + own[(b, c)] * left[a] + own[(a, c)] * left[b]) / 6.0;
                    }
                }
            }
        }
        found
    }

    fn add(&mut self, factor: f64, other: &Self) {
        self.entries.iter_mut().zip(&other.entries).for_each(|(slot, own)| *slot += factor * own);
    }

    fn square(&self) -> f64 {
        self.entries.iter().map(|own| own * own).sum()
    }
}

/// $\varepsilon\varepsilon^\top - I$.
fn less_one(draw: &[f64]) -> Mat<f64> {
    Mat::from_fn(draw.len(), draw.len(), |a, b| draw[a] * draw[b] - if a == b { 1.0 } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cubic_is_found_nearly_where_draws_are_enough() {
        // ∇f = g + T : (wwᵀ)/2 with T of f = w₀³/6 · 1.2 - w₀²w₁/2 · 0.7 + w₀w₁w₂ · 0.4.
        let third = |a: usize, b: usize, c: usize| {
            let mut places = [a, b, c];
            places.sort_unstable();
            match places {
                [0, 0, 0] => 1.2,
                [0, 0, 1] => -0.7,
                [0, 1, 2] => 0.4,
                _ => 0.0,
            }
        };
        let draws = Draws::new(5, 3, 16).unwrap();
        let gradient = |w: &[f64]| -> Vec<f64> {
            let bent = |c: usize| {
                let all = (0..3).flat_map(|a| (0..3).map(move |b| (a, b)));
                0.5 * all.map(|(a, b)| third(a, b, c) * w[a] * w[b]).sum::<f64>()
            };
            (0..3).map(|c| 0.3 - 2.0 * w[c] + bent(c)).collect()
        };
        let all: Vec<Vec<f64>> = (0..draws.len()).map(|k| gradient(draws.get(k))).collect();
        let mean: Vec<f64> = (0..3).map(|c| all.iter().map(|own| own[c]).sum::<f64>() / 16.0).collect();
        let even = |k: usize| all[k].iter().zip(&all[k + 8]).map(|(own, twin)| 0.5 * (own + twin)).collect::<Vec<_>>();
        let even: Vec<f64> = (0..draws.pairs()).flat_map(even).collect();
        let found = Third::of(&draws, &even, &mean);
        for (place, entry) in found.entries.iter().enumerate() {
            let expected = third(place / 9, place / 3 % 3, place % 3);
            assert!((entry - expected).abs() < 0.02, "{place}: {entry}, expected {expected}");
        }
        // T : I / 2 and T e₀.
        let bent = found.bend(&Mat::identity(3, 3));
        assert!(bent.iter().zip([0.6, -0.35, 0.0]).all(|(own, expected)| (own - expected).abs() < 0.05), "{bent:?}");
        let along = found.along(&[1.0, 0.0, 0.0]);
        assert!((along[(1, 2)] - 0.4).abs() < 0.02 && (along[(0, 0)] - 1.2).abs() < 0.02);
    }
}
