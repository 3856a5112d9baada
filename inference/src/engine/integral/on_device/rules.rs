//! Moves the rules of rows with tensor operations, all rows at once: what `centres.rs` and `reduce.rs` do on the host.

use burn::tensor::{Bool, Tensor};
use partita_core::special::HALF_LOG_TWO_PI;
use partita_core::{Device, Precision};

use super::super::centres::{EDGE, LEAST_SPREAD, LEAST_SQUARE, LevelCentres, RESOLVED, WIDENED};
use super::super::hermite::Rule;
use crate::engine::family::real;

/// A rule on a device.
#[derive(Debug)]
pub(super) struct Points {
    /// The points along each axis, `[1, nodes]`.
    axes: Vec<Tensor<2>>,
    /// As [`Rule::log_factors`], `[1, nodes]`.
    log_factors: Tensor<2>,
    reach: f64,
    gap: f64,
    /// The least scale of a rule, as a part of its centre.
    resolved: f64,
}

/// Where the rules of rows stand at one draw of the globals.
///
/// # Shapes
/// Every tensor is `[rows, 1]`: a centre for each latent, and the lower triangle of the factor, row by row.
#[derive(Debug, Clone)]
pub(super) struct Stand {
    centre: Vec<Tensor<2>>,
    factor: Vec<Vec<Tensor<2>>>,
}

/// What rows have at the nodes of their rules.
#[derive(Debug)]
pub(super) struct Summed {
    /// The log marginal likelihood of each row, `[rows, 1]`.
    pub(super) logs: Tensor<2>,
    /// The normalised weights of nodes, `[rows, nodes]`.
    pub(super) weights: Tensor<2>,
}

/// Rules that have moved.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) stand: Stand,
    /// How far each has, in its own scale, `[rows, 1]`.
    pub(super) far: Tensor<2>,
}

impl Points {
    pub(super) fn of(rule: &Rule, device: &Device) -> Self {
        let axis = |axis: usize| rule.points.iter().skip(axis).step_by(rule.width).copied().collect();
        let row = |numbers: Vec<f64>| device.tensor(numbers, [1, rule.len()]);
        Self {
            axes: (0..rule.width).map(|own| row(axis(own))).collect(),
            log_factors: row(rule.log_factors.clone()),
            reach: rule.reach,
            gap: rule.gap,
            resolved: match device.precision() {
                Precision::Double => RESOLVED,
                Precision::Single => RESOLVED / f64::EPSILON * f64::from(f32::EPSILON),
            },
        }
    }

    /// The variance of one latent to go on with, as on the host.
    fn safe_square(&self, mean: &Tensor<2>, variance: Tensor<2>) -> Tensor<2> {
        let is_outside = mean.clone().abs().greater_elem(EDGE * self.reach);
        let least = variance.zeros_like() + (LEAST_SPREAD * self.gap).powi(2);
        variance.max_pair(least.mask_fill(is_outside, WIDENED * WIDENED))
    }
}

impl Stand {
    /// Those of the rows of a level.
    pub(super) fn of(centres: &LevelCentres, width: usize, device: &Device) -> Self {
        let rows = centres.centre.len() / width;
        let column = |values: &[f64], each: usize, place: usize| {
            device.tensor(values.iter().skip(place).step_by(each).copied().collect(), [rows, 1])
        };
        let centre = (0..width).map(|k| column(&centres.centre, width, k));
        let square = width * width;
        let row = |k: usize| (0..=k).map(|l| column(&centres.factor, square, k * width + l)).collect();
        Self { centre: centre.collect(), factor: (0..width).map(row).collect() }
    }

    /// All numbers, as [`Stand::read`] takes them.
    pub(super) fn flat(&self) -> [Tensor<1>; 2] {
        let width = self.centre.len();
        let zero = self.centre[0].zeros_like();
        let own = |k: usize, l: usize| if l <= k { self.factor[k][l].clone() } else { zero.clone() };
        let factor = (0..width).flat_map(|k| (0..width).map(move |l| (k, l))).map(|(k, l)| own(k, l)).collect();
        [self.centre.clone(), factor].map(|columns| Tensor::cat(columns, 1).flatten(0, 1))
    }

    /// How many numbers those of so many rows are.
    pub(super) fn flat_len(rows: usize, width: usize) -> usize {
        rows * (width + width * width)
    }

    /// The centres and scales of rows from their numbers.
    pub(super) fn read(numbers: &[f64], rows: usize, width: usize) -> LevelCentres {
        let (centre, factor) = numbers.split_at(rows * width);
        LevelCentres { centre: centre.to_vec(), factor: factor.to_vec() }
    }

    /// The nodes $c + St_n$ of every row, a tensor `[rows, nodes]` for each latent.
    pub(super) fn nodes(&self, points: &Points) -> Vec<Tensor<2>> {
        let one = |(centre, factor): (&Tensor<2>, &Vec<Tensor<2>>)| {
            let along = factor.iter().zip(&points.axes).map(|(own, t)| own.clone() * t.clone());
            along.fold(centre.clone(), |sum, own| sum + own)
        };
        self.centre.iter().zip(&self.factor).map(one).collect()
    }

    /// The sums of rows whose log densities at the nodes are `heights`, `[rows, nodes]`. A row that is too narrow for the device's
    /// precision has no number.
    pub(super) fn sum(&self, points: &Points, heights: Tensor<2>) -> Summed {
        let heights = heights + points.log_factors.clone();
        let most = heights.clone().max_dim(1);
        let parts = (heights - most.clone()).exp();
        let sum = parts.clone().sum_dim(1);
        let weights = parts / sum.clone();
        let mut logs = most + sum.log() + real(self.centre.len()) * HALF_LOG_TWO_PI;
        for (centre, factor) in self.centre.iter().zip(&self.factor) {
            let Some(scale) = factor.last() else { continue };
            let is_narrow = scale.clone().lower_equal(centre.clone().abs() * points.resolved);
            logs = (logs + scale.clone().log()).mask_fill(is_narrow, f64::NAN);
        }
        Summed { logs, weights }
    }

    /// Rules at the means and covariances that `weights` give their nodes.
    pub(super) fn moved(&self, points: &Points, weights: &Tensor<2>) -> Moved {
        let means: Vec<Tensor<2>> = points.axes.iter().map(|t| (weights.clone() * t.clone()).sum_dim(1)).collect();
        let away: Vec<Tensor<2>> = points.axes.iter().zip(&means).map(|(t, mean)| t.clone() - mean.clone()).collect();
        let lower = self.cholesky(|row, column| {
            let own = (weights.clone() * away[row].clone() * away[column].clone()).sum_dim(1);
            if row == column { points.safe_square(&means[row], own) } else { own }
        });
        let width = self.centre.len();
        let product = |row: usize, own: &dyn Fn(usize) -> Tensor<2>, columns: std::ops::RangeInclusive<usize>| {
            columns.map(|l| self.factor[row][l].clone() * own(l)).reduce(|sum, own| sum + own)
        };
        let (mut centre, mut factor) = (Vec::with_capacity(width), Vec::with_capacity(width));
        for row in 0..width {
            let step = product(row, &|l| means[l].clone(), 0..=row);
            centre.push(step.map_or_else(|| self.centre[row].clone(), |step| self.centre[row].clone() + step));
            let column = |column: usize| product(row, &|l| lower[l][column].clone(), column..=row);
            factor.push((0..=row).filter_map(column).collect());
        }
        let far = (0..width).flat_map(|k| [means[k].clone().abs(), lower[k][k].clone().log().abs()]);
        let far = far.reduce(Tensor::max_pair).unwrap_or_else(|| self.centre[0].zeros_like());
        Moved { stand: Self { centre, factor }, far }
    }

    /// The lower Cholesky factor of the matrix of each row, whose entries `of` gives.
    fn cholesky(&self, of: impl Fn(usize, usize) -> Tensor<2>) -> Vec<Vec<Tensor<2>>> {
        let mut lower: Vec<Vec<Tensor<2>>> = Vec::with_capacity(self.centre.len());
        for row in 0..self.centre.len() {
            let mut own: Vec<Tensor<2>> = Vec::with_capacity(row + 1);
            for (column, above) in lower.iter().enumerate() {
                let rest = (0..column).fold(of(row, column), |rest, k| rest - own[k].clone() * above[k].clone());
                own.push(rest / above[column].clone());
            }
            let rest = own.iter().fold(of(row, row), |rest, own| rest - own.clone() * own.clone());
            own.push(rest.clamp_min(LEAST_SQUARE).sqrt());
            lower.push(own);
        }
        lower
    }

    /// These, or where `is_held`, `[1, 1]`, is true `others`.
    pub(super) fn unless(self, is_held: &Tensor<2, Bool>, others: &Self) -> Self {
        let own = |(own, other): (Tensor<2>, &Tensor<2>)| held(own, is_held, other);
        let factor = self.factor.into_iter().zip(&others.factor);
        Self {
            centre: self.centre.into_iter().zip(&others.centre).map(own).collect(),
            factor: factor.map(|(row, others)| row.into_iter().zip(others).map(own).collect()).collect(),
        }
    }
}

/// Numbers of rows, or where `is_held`, `[1, 1]`, is true those of another tensor.
pub(super) fn held(own: Tensor<2>, is_held: &Tensor<2, Bool>, other: &Tensor<2>) -> Tensor<2> {
    let mask = is_held.clone().expand(own.dims());
    own.mask_where(mask, other.clone())
}
