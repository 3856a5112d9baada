//! Makes Gauss–Hermite rules for the standard normal distribution.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::family::real;

/// Rules that have been found, by their numbers of points.
static KNOWN: Mutex<BTreeMap<usize, Arc<GaussHermite>>> = Mutex::new(BTreeMap::new());

/// A rule on the line for expectations under the standard normal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GaussHermite {
    /// Its points, in increasing order.
    pub(crate) nodes: Vec<f64>,
    /// Their weights, which sum to one.
    pub(crate) weights: Vec<f64>,
}

impl GaussHermite {
    /// The rule of `count` points, which is found once: 255 points take some hundred milliseconds.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(count).or_insert_with(|| Arc::new(Self::find(count))))
    }

    /// The rule of `count` points.
    ///
    /// Nodes are the zeros of the orthonormal Hermite polynomial $p_n$, found between those of $p_{n-1}$ (they
    /// interlace); weights are the Christoffel numbers $1/\sum_{k<n} p_k(t)^2$, a sum without cancellation.
    ///
    /// # References
    /// Golub and Welsch (1969), Math. Comp. 23.
    fn find(count: usize) -> Self {
        let mut nodes = vec![0.0];
        for degree in 2..=count {
            // No zero of p_n is larger than this.
            let edge = 2.0 * real(degree).sqrt();
            let walls: Vec<f64> = std::iter::once(-edge).chain(nodes).chain(std::iter::once(edge)).collect();
            nodes = walls.windows(2).map(|between| zero(degree, between[0], between[1])).collect();
        }
        // Exact symmetry, so that odd moments vanish.
        for index in 0..count / 2 {
            let half = 0.5 * (nodes[count - 1 - index] - nodes[index]);
            (nodes[index], nodes[count - 1 - index]) = (-half, half);
        }
        if count % 2 == 1 {
            nodes[count / 2] = 0.0;
        }
        let weights = nodes.iter().map(|node| 1.0 / polynomials(count, *node).squares).collect();
        Self { nodes, weights }
    }
}

/// The zero of $p_n$ between two walls, by Newton's method with bisection.
fn zero(degree: usize, low: f64, high: f64) -> f64 {
    let (mut low, mut high) = (low, high);
    let is_positive = polynomials(degree, low).value > 0.0;
    let mut at = 0.5 * (low + high);
    for _ in 0..100 {
        let Polynomials { value, before, .. } = polynomials(degree, at);
        if (value > 0.0) == is_positive {
            low = at
        } else {
            high = at
        }
        // p_n' = sqrt(n) p_{n-1}.
        let newton = at - value / (real(degree).sqrt() * before);
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - at).abs() <= 1e-15 * (1.0 + at.abs()) {
            return next;
        }
        at = next;
    }
    at
}

struct Polynomials {
    /// $p_n(t)$.
    value: f64,
    /// $p_{n-1}(t)$.
    before: f64,
    /// $\sum_{k<n} p_k(t)^2$.
    squares: f64,
}

/// Orthonormal Hermite polynomials of the standard normal at `t`, by their recurrence.
fn polynomials(degree: usize, t: f64) -> Polynomials {
    let (mut before, mut value, mut squares) = (0.0, 1.0, 0.0);
    for k in 0..degree {
        squares += value * value;
        let next = (t * value - real(k).sqrt() * before) / real(k + 1).sqrt();
        (before, value) = (value, next);
    }
    Polynomials { value, before, squares }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_standard_normal() {
        for count in [1, 2, 9, 15, 31, 63, 127, 255] {
            let GaussHermite { nodes, weights } = &*GaussHermite::new(count);
            assert!(nodes.windows(2).all(|pair| pair[0] < pair[1]), "{count}");
            let moment = |power: i32| nodes.iter().zip(weights).map(|(t, w)| w * t.powi(power)).sum::<f64>();
            for (power, expected) in [(0, 1.0), (1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0), (8, 105.0)] {
                if usize::try_from(power).unwrap() < 2 * count {
                    let found = moment(power);
                    assert!((found - expected).abs() < 1e-12 * (1.0 + expected), "{count} {power}: {found}");
                }
            }
        }
    }

    #[test]
    fn nodes_and_weights_are_the_published_ones() {
        // Abramowitz and Stegun, table 25.10, n = 3 in the scale of the standard normal.
        let GaussHermite { nodes, weights } = &*GaussHermite::new(3);
        assert!((nodes[2] - 3.0_f64.sqrt()).abs() < 1e-15);
        assert!((weights[1] - 2.0 / 3.0).abs() < 1e-15 && (weights[0] - 1.0 / 6.0).abs() < 1e-15);
    }

    #[test]
    fn a_rule_integrates_even_powers_to_double_factorials() {
        let GaussHermite { nodes, weights } = &*GaussHermite::new(12);
        let mut expected = 1.0;
        for power in 0..12 {
            let found: f64 = nodes.iter().zip(weights).map(|(x, weight)| weight * x.powi(2 * power)).sum();
            assert!((found / expected - 1.0).abs() < 1e-12, "{power}: {found} against {expected}");
            expected *= f64::from(2 * power + 1);
        }
    }
}
