//! Multiplies a design in single precision: half the memory is read, and twice as many numbers are multiplied at a time.

use std::sync::{Arc, OnceLock};

use super::{Start, TILE, by_coefficient, multiply};
use crate::device::rounded;
use crate::math::kernel::{add_scaled_single, dot_single};

/// The numbers of a design in single precision, made when they are first asked for and shared by clones of the design.
#[derive(Debug, Clone, Default)]
pub(super) struct Single(Arc<OnceLock<Arc<Vec<f32>>>>);

impl Single {
    /// Those of a design with these numbers.
    pub(super) fn of(&self, values: &[f64]) -> Arc<Vec<f32>> {
        Arc::clone(self.0.get_or_init(|| Arc::new(rounded(values))))
    }
}

/// The numbers of a design, column by column, in the precision in which they are multiplied.
#[derive(Debug)]
pub(super) enum Numbers {
    Double(Arc<Vec<f64>>),
    Single(Arc<Vec<f32>>),
}

impl Numbers {
    /// The predictor of each cell.
    pub(super) fn multiply(&self, beta: &[f64], start: Start<'_>, cells: [usize; 3]) -> Vec<f64> {
        match self {
            Self::Double(values) => multiply(values, beta, start, cells),
            Self::Single(values) => multiply_single(values, beta, start, cells),
        }
    }

    /// The derivative by each coefficient, from that by each predictor.
    pub(super) fn by_coefficient(&self, gradient: &[f64], cells: [usize; 3]) -> Vec<f64> {
        match self {
            Self::Double(values) => by_coefficient(values, gradient, cells),
            Self::Single(values) => by_coefficient_single(values, gradient, cells),
        }
    }
}

/// Predictors that are summed over the columns in single precision.
fn multiply_single(values: &[f32], beta: &[f64], start: Start<'_>, [rows, repeats, _]: [usize; 3]) -> Vec<f64> {
    let mut eta = start.cells(rows, repeats);
    let (beta, mut sums) = (rounded(beta), vec![0.0; TILE]);
    for (tile, start) in eta.chunks_mut(TILE).zip((0..).step_by(TILE)) {
        let sums = &mut sums[..tile.len()];
        sums.fill(0.0);
        for (column, coefficient) in values.chunks_exact((rows * repeats).max(1)).zip(&beta) {
            add_scaled_single(sums, *coefficient, &column[start..start + tile.len()]);
        }
        tile.iter_mut().zip(sums).for_each(|(slot, sum)| *slot += f64::from(*sum));
    }
    eta
}

/// Derivatives whose sums over a tile of cells are in single precision, and the sums of these in double precision.
fn by_coefficient_single(values: &[f32], gradient: &[f64], [rows, repeats, columns]: [usize; 3]) -> Vec<f64> {
    let (mut by_coefficient, gradient) = (vec![0.0; columns], rounded(gradient));
    for (tile, start) in gradient.chunks(TILE).zip((0..).step_by(TILE)) {
        for (sum, column) in by_coefficient.iter_mut().zip(values.chunks_exact((rows * repeats).max(1))) {
            *sum += f64::from(dot_single(&column[start..start + tile.len()], tile));
        }
    }
    by_coefficient
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::scattered;

    #[test]
    fn products_in_single_precision_are_those_of_the_rounded_numbers() {
        let cells @ [rows, repeats, columns] = [TILE + 17, 2, 3];
        let values = scattered(rows * repeats * columns, -2.0, 2.0);
        let (beta, levels) = (scattered(columns, -1.0, 1.0), scattered(rows, -1.0, 1.0));
        let gradient = scattered(rows * repeats, -0.5, 0.5);
        let start = Start { intercepts: Some(&levels), places: None };
        let [double, single] =
            [Numbers::Double(Arc::new(values.clone())), Numbers::Single(Single::default().of(&values))]
                .map(|numbers| [numbers.multiply(&beta, start, cells), numbers.by_coefficient(&gradient, cells)]);
        // Three products of numbers below 2, each number, product and sum rounded by 6e-8 of itself.
        assert!(double[0].iter().zip(&single[0]).all(|(a, b)| (a - b).abs() < 3e-6));
        // 4,130 products below 1: two roundings of 6e-8 a factor, and 128 in a row of a lane's sum, which stays below 128.
        assert!(double[1].iter().zip(&single[1]).all(|(a, b)| (a - b).abs() < 4_130.0 * 1e-6), "{double:?}");
        assert!(double[1].iter().zip(&single[1]).all(|(a, b)| a.to_bits() != b.to_bits()));
    }
}
