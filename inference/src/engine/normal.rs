//! Holds a normal distribution by its mean and the lower factor of its covariance, which is never inverted.

use faer::Mat;
use partita_core::kernel::dot;

use crate::engine::family::{Family, FullRankGaussian, HALF_LOG_TWO_PI};
use crate::engine::natural::triangle::{each, pack, pairs};

/// $N(m, LL^\top)$.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Normal {
    pub(crate) mean: Vec<f64>,
    /// $L$, lower triangular with a positive diagonal.
    pub(crate) factor: Mat<f64>,
}

impl Normal {
    /// Independent components of these means, with one standard deviation.
    pub(crate) fn independent(mean: Vec<f64>, scale: f64) -> Self {
        let len = mean.len();
        Self { mean, factor: Mat::from_fn(len, len, |i, j| if i == j { scale } else { 0.0 }) }
    }

    pub(crate) fn len(&self) -> usize {
        self.mean.len()
    }

    /// The numbers of one of so many components.
    pub(crate) fn parameters_of(len: usize) -> usize {
        len + pairs(len)
    }

    /// $m + L\varepsilon$.
    pub(crate) fn draw(&self, noise: &[f64]) -> Vec<f64> {
        (0..self.len()).map(|row| self.mean[row] + self.times(row, noise)).collect()
    }

    fn times(&self, row: usize, noise: &[f64]) -> f64 {
        (0..=row).map(|column| self.factor[(row, column)] * noise[column]).sum()
    }

    /// $L^\top g$.
    pub(crate) fn pull(&self, gradient: &[f64]) -> Vec<f64> {
        let len = self.len();
        (0..len).map(|column| (column..len).map(|row| self.factor[(row, column)] * gradient[row]).sum()).collect()
    }

    /// $L^{-1}(z - m)$.
    pub(crate) fn whiten(&self, latent: &[f64]) -> Vec<f64> {
        let mut white: Vec<f64> = latent.iter().zip(&self.mean).map(|(z, m)| z - m).collect();
        for row in 0..self.len() {
            let known: f64 = (0..row).map(|column| self.factor[(row, column)] * white[column]).sum();
            white[row] = (white[row] - known) / self.factor[(row, row)];
        }
        white
    }

    /// $L^{-\top} g$: the gradient by $z$ of a function whose gradient by $L^{-1}(z - m)$ is `gradient`.
    pub(crate) fn unpull(&self, gradient: &[f64]) -> Vec<f64> {
        let mut solution = gradient.to_vec();
        for row in (0..self.len()).rev() {
            let known: f64 = (row + 1..self.len()).map(|below| self.factor[(below, row)] * solution[below]).sum();
            solution[row] = (solution[row] - known) / self.factor[(row, row)];
        }
        solution
    }

    /// $L^{-1}(m' - m)$ and $L^{-1}L'$: mean and factor of another distribution in the coordinates of this one.
    pub(crate) fn way_to(&self, other: &Self) -> (Vec<f64>, Mat<f64>) {
        let len = self.len();
        let columns: Vec<Vec<f64>> = (0..len)
            .map(|column| {
                let moved: Vec<f64> = (0..len).map(|row| self.mean[row] + other.factor[(row, column)]).collect();
                self.whiten(&moved)
            })
            .collect();
        (self.whiten(&other.mean), Mat::from_fn(len, len, |row, column| columns[column][row]))
    }

    /// The unit vector, in whitened coordinates, along which a number moves with what follows it.
    pub(crate) fn direction(&self, number: usize) -> Vec<f64> {
        let row = |column: usize| if column > number { 0.0 } else { self.factor[(number, column)] };
        let row: Vec<f64> = (0..self.len()).map(row).collect();
        let length = dot(&row, &row).sqrt();
        row.into_iter().map(|own| own / length).collect()
    }

    /// Two places for each number, at which it is so many standard deviations below and above the mean, and the others
    /// where they follow it.
    pub(crate) fn along(&self, deviations: f64) -> Vec<Vec<f64>> {
        let sides = |number: usize| [-deviations, deviations].map(|by| (number, by));
        let place = |(number, by): (usize, f64)| {
            self.draw(&self.direction(number).iter().map(|own| by * own).collect::<Vec<_>>())
        };
        (0..self.len()).flat_map(sides).map(place).collect()
    }

    /// $\log\det L$.
    pub(crate) fn log_det(&self) -> f64 {
        (0..self.len()).map(|row| self.factor[(row, row)].ln()).sum()
    }

    /// The entropy in nats.
    pub(crate) fn entropy(&self) -> f64 {
        self.log_det() + self.len() as f64 * (0.5 + HALF_LOG_TWO_PI)
    }

    /// The same distribution moved by $Lv$, with the covariance $LBB^\top L^\top$.
    pub(crate) fn moved(&self, shift: &[f64], by: &Mat<f64>) -> Self {
        let mean = self.draw(shift);
        // L B = Rᵀ Qᵀ where (L B)ᵀ = Q R, so that Rᵀ is a lower factor of the same covariance.
        let wide = (&self.factor * by).transpose().to_owned();
        let triangle = wide.qr();
        let upper = triangle.R();
        let factor = Mat::from_fn(self.len(), self.len(), |row, column| {
            if column > row { 0.0 } else { upper[(column, row)] * upper[(column, column)].signum() }
        });
        Self { mean, factor }
    }

    /// Mean, and the lower triangle of the factor row by row: every bit, which parameters of a family do not keep.
    pub(crate) fn flat(&self) -> Vec<f64> {
        [self.mean.as_slice(), &pack(&self.factor, 1.0, 1.0)].concat()
    }

    /// From [`Normal::flat`]; `None` if the length is another.
    pub(crate) fn of_flat(values: &[f64], len: usize) -> Option<Self> {
        let (mean, lower) = values.split_at_checked(len).filter(|(_, lower)| lower.len() == pairs(len))?;
        let mut factor = Mat::zeros(len, len);
        each(len).zip(lower).for_each(|(place, entry)| factor[place] = *entry);
        Some(Self { mean: mean.to_vec(), factor })
    }

    /// As parameters of [`FullRankGaussian`].
    pub(crate) fn parameters(&self) -> Vec<f64> {
        FullRankGaussian::of_factor(&self.mean, &self.factor)
    }

    /// From parameters of [`FullRankGaussian`]; `None` if their number is another.
    pub(crate) fn of_parameters(parameters: &[f64], len: usize) -> Option<Self> {
        let family = FullRankGaussian::new(len);
        let is_member = parameters.len() == family.parameter_len();
        is_member.then(|| Self { mean: parameters[..len].to_vec(), factor: family.factor(parameters) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_say_the_same_and_moves_keep_the_covariance() {
        let factor =
            Mat::from_fn(3, 3, |i, j| if j > i { 0.0 } else { [2.0, 0.5, -0.3, 1.5, 0.2, 0.7][i * (i + 1) / 2 + j] });
        let own = Normal { mean: vec![1.0, -2.0, 0.5], factor };
        let back = Normal::of_parameters(&own.parameters(), 3).unwrap();
        assert!((&back.factor - &own.factor).norm_max() < 1e-15 && back.mean == own.mean);
        assert_eq!(Normal::of_flat(&own.flat(), 3), Some(own.clone()));
        let latent = own.draw(&[0.3, -1.0, 2.0]);
        assert!(own.whiten(&latent).iter().zip([0.3, -1.0, 2.0]).all(|(a, b)| (a - b).abs() < 1e-14));
        let by = Mat::from_fn(3, 3, |i, j| {
            f64::from(u8::try_from(3 * i + j).unwrap()).sin() + if i == j { 2.0 } else { 0.0 }
        });
        let moved = own.moved(&[0.0, 0.0, 0.0], &by);
        let all = &own.factor * &by;
        let expected = &all * all.transpose();
        let found = &moved.factor * moved.factor.transpose();
        assert!((found - expected).norm_max() < 1e-12 && moved.factor[(0, 1)] == 0.0);
    }

    #[test]
    fn places_along_a_number_have_it_so_many_deviations_away() {
        let factor = Mat::from_fn(2, 2, |i, j| [[0.5, 0.0], [0.3, 0.4]][i][j]);
        let places = Normal { mean: vec![1.0, -2.0], factor }.along(3.0);
        let expected = [[-0.5, -2.9], [2.5, -1.1], [1.0 - 0.9, -3.5], [1.0 + 0.9, -0.5]];
        assert_eq!(places.len(), 4);
        for (place, expected) in places.iter().zip(expected) {
            assert!(place.iter().zip(expected).all(|(own, expected)| (own - expected).abs() < 1e-14), "{place:?}");
        }
    }
}
