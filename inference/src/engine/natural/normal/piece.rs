//! Holds one part of a normal density: diagonal, isotropic or of any covariance, with its natural parameters.

use std::iter::repeat_n;

use faer::Mat;
use faer::linalg::solvers::{DenseSolveCore, Llt};
use partita_core::NoiseStream;

use crate::engine::family::{CovarianceMatrix, HALF_LOG_TWO_PI, real};
use crate::engine::natural::triangle::{each, pairs, unpack};
use crate::engine::natural::{Impropriety, dot};
use crate::engine::symmetric::Eigen;

/// What the covariance of an independent part of a [`crate::NormalFamily`] may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CovarianceForm {
    /// Independent components, each of its own variance.
    Diagonal,
    /// Independent components of one variance.
    Isotropic,
    /// Any covariance.
    Full,
}

/// Components that are independent of all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) components: Vec<usize>,
    pub(super) form: CovarianceForm,
}

impl Part {
    /// How many components in a row share each variance, where they are independent; `None` for any covariance.
    ///
    /// A second natural parameter is of such a group $`g`$: $`-\tfrac12\lambda_g`$, with the statistic
    /// $`\sum_{i \in g} \theta_i^2`$.
    pub(super) fn group(&self) -> Option<usize> {
        match self.form {
            CovarianceForm::Diagonal => Some(1),
            CovarianceForm::Isotropic => Some(self.components.len().max(1)),
            CovarianceForm::Full => None,
        }
    }

    /// The numbers of its second block of natural parameters.
    pub(super) fn second_len(&self) -> usize {
        let size = self.components.len();
        self.group().map_or_else(|| pairs(size), |group| size.div_ceil(group))
    }
}

/// One part with its share of the natural parameters.
pub(super) struct Piece<'a> {
    pub(super) part: &'a Part,
    pub(super) first: Vec<f64>,
    pub(super) second: &'a [f64],
}

impl Piece<'_> {
    pub(super) fn len(&self) -> usize {
        self.part.components.len()
    }

    /// $`\Lambda`$.
    pub(super) fn precision(&self) -> Mat<f64> {
        let size = self.len();
        match self.part.group() {
            None => unpack(size, self.second, -2.0, -1.0),
            Some(group) => Mat::from_fn(size, size, |i, j| if i == j { -2.0 * self.second[i / group] } else { 0.0 }),
        }
    }

    /// The factor of the precision of a part with any covariance.
    fn cholesky(&self) -> Option<Llt<f64>> {
        Llt::new(self.precision().as_ref(), faer::Side::Lower).ok()
    }

    /// Mean, and covariance or standard deviations; not numbers where the piece is improper.
    pub(super) fn moments(&self) -> (Vec<f64>, CovarianceMatrix) {
        let size = self.len();
        if let Some(group) = self.part.group() {
            let (mut mean, mut deviations) = (Vec::with_capacity(size), Vec::with_capacity(size));
            for (own, second) in self.first.chunks(group).zip(self.second) {
                let precision = -2.0 * second;
                mean.extend(own.iter().map(|first| first / precision));
                deviations.extend(repeat_n(precision.sqrt().recip(), own.len()));
            }
            return (mean, CovarianceMatrix::Diagonal(deviations));
        }
        let Some(cholesky) = self.cholesky() else {
            return (vec![f64::NAN; size], CovarianceMatrix::Full(vec![f64::NAN; size * size]));
        };
        let covariance = cholesky.inverse();
        let mean = (0..size).map(|i| (0..size).map(|j| covariance[(i, j)] * self.first[j]).sum()).collect();
        (mean, CovarianceMatrix::from_matrix(&covariance))
    }

    /// $`\tfrac12 h^\top\mu - \tfrac12\log|\Lambda| + \tfrac n2\log 2\pi`$, where $`n_g`$ components of one variance
    /// have $`n_g\log\lambda_g`$ of the determinant.
    pub(super) fn log_partition(&self) -> f64 {
        let constant = real(self.len()) * HALF_LOG_TWO_PI;
        let (mean, _) = self.moments();
        let half_square = 0.5 * dot(&mean, &self.first);
        if let Some(group) = self.part.group() {
            let groups = self.first.chunks(group).zip(self.second);
            let half_log: f64 = groups.map(|(own, second)| 0.5 * real(own.len()) * (-2.0 * second).ln()).sum();
            return half_square - half_log + constant;
        }
        let half_log = self.cholesky().map_or(f64::NAN, |cholesky| {
            let factor = cholesky.L();
            (0..self.len()).map(|i| factor[(i, i)].ln()).sum()
        });
        half_square - half_log + constant
    }

    /// $`\mu + L^{-\top}\varepsilon`$ with $`\Lambda = LL^\top`$; not numbers where the piece is improper.
    pub(super) fn draw(&self, noise: &mut NoiseStream) -> Vec<f64> {
        let (mut point, spread) = self.moments();
        let mut standard = vec![0.0; point.len()];
        noise.normal(&mut standard);
        match (spread, self.part.group().is_none().then(|| self.cholesky()).flatten()) {
            (CovarianceMatrix::Full(_), Some(cholesky)) => {
                let factor = cholesky.L();
                for row in (0..point.len()).rev() {
                    standard[row] /= factor[(row, row)];
                    let solved = standard[row];
                    (0..row).for_each(|column| standard[column] -= factor[(row, column)] * solved);
                }
            }
            (spread, _) => standard.iter_mut().zip(spread.deviations()).for_each(|(slot, sd)| *slot *= sd),
        }
        point.iter_mut().zip(standard).for_each(|(slot, standard)| *slot += standard);
        point
    }

    /// The first place where the piece is no density; of components with one variance the first stands for all.
    pub(super) fn impropriety(&self) -> Option<Impropriety> {
        let is_proper = |precision: f64| (precision > 0.0) & precision.is_finite();
        let (group, component) = (self.part.group(), |place: usize| self.part.components[place]);
        // Many weights are looked at in one pass without a branch; only where one is improper is it looked for.
        let is_finite = self.first.iter().fold(true, |all, first| all & first.is_finite());
        let all_proper = || self.second.iter().fold(true, |all, second| all & is_proper(-2.0 * second));
        if is_finite && group.is_some() && all_proper() {
            return None;
        }
        if let Some(place) = self.first.iter().position(|first| !first.is_finite()) {
            return Some(Impropriety { component: component(place), found: self.first[place] });
        }
        if let Some(group) = group {
            let place = self.second.iter().position(|second| !is_proper(-2.0 * second))?;
            return Some(Impropriety { component: component(place * group), found: -2.0 * self.second[place] });
        }
        if let Some(place) = self.second.iter().position(|second| !second.is_finite()) {
            let row = each(self.len()).nth(place).map_or(0, |(row, _)| row);
            return Some(Impropriety { component: component(row), found: self.second[place] });
        }
        if self.cholesky().is_some() {
            return None;
        }
        // The direction of the smallest eigenvalue says where the precision is missing.
        let precision = self.precision();
        let Some(Eigen { values, vectors }) = Eigen::of(&precision) else {
            return Some(Impropriety { component: component(0), found: f64::NAN });
        };
        let smallest = (0..self.len()).min_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0);
        let largest = |a: &usize, b: &usize| vectors[(*a, smallest)].abs().total_cmp(&vectors[(*b, smallest)].abs());
        let place = (0..self.len()).max_by(|a, b| largest(a, b)).unwrap_or(0);
        Some(Impropriety { component: component(place), found: values[smallest] })
    }
}
