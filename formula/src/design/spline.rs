//! Evaluates B-splines as R's `splines::bs`, by the recursion of de Boor over the few that are not zero.

use crate::agree::Boundary;

/// The B-splines of a degree over a range with knots.
#[derive(Debug)]
pub(super) struct BasisSpline {
    degree: usize,
    /// The knots, each end of the range once more than the degree.
    knots: Vec<f64>,
}

impl BasisSpline {
    pub(super) fn new(degree: usize, boundary: &Boundary) -> Self {
        let ends = |end: f64| std::iter::repeat_n(end, degree + 1);
        let knots = ends(boundary.low).chain(boundary.knots.iter().copied()).chain(ends(boundary.high)).collect();
        Self { degree, knots }
    }

    /// The number of functions.
    pub(super) fn len(&self) -> usize {
        self.knots.len() - self.degree - 1
    }

    /// The first function that may not be zero at `x` in the range, and the values from there, `degree + 1` of them.
    pub(super) fn at(&self, x: f64, values: &mut Vec<f64>) -> usize {
        let (degree, knots) = (self.degree, &self.knots);
        // The piece whose knots enclose x; the last one has its upper end too.
        let last = self.len() - 1;
        let piece = (degree..=last).rev().find(|at| knots[*at] <= x && knots[*at] < knots[at + 1]).unwrap_or(degree);
        values.clear();
        values.push(1.0);
        for order in 1..=degree {
            let mut carried = 0.0;
            for index in 0..order {
                let (below, above) = (knots[piece + 1 + index - order], knots[piece + 1 + index]);
                let part = values[index] / (above - below);
                values[index] = carried + (above - x) * part;
                carried = (x - below) * part;
            }
            values.push(carried);
        }
        piece - degree
    }
}
