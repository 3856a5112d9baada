//! Takes natural-gradient steps in the coordinates in which the present posterior is standard normal.

use faer::Mat;
use partita_core::kernel::add_scaled;

use super::third::MOST_GLOBALS;
use crate::engine::error::{Error, Result};
use crate::engine::natural::triangle::{each, pairs, unpack};
use crate::engine::normal::Normal;
use crate::engine::symmetric::Eigen;
use crate::engine::whitened::Draws;

/// What a log density is on average over the draws of a normal distribution: a sum over silos and the prior.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Share {
    /// $\frac1K\sum_k f(z_k)$, in nats.
    pub(crate) value: f64,
    /// $\frac1K\sum_k L^\top\nabla f(z_k)$.
    pub(crate) gradient: Vec<f64>,
    /// Stein's matrix, the symmetric part of $\frac1K\sum_k \varepsilon_k (L^\top\nabla f(z_k))^\top$: its lower
    /// triangle row by row.
    pub(crate) curvature: Vec<f64>,
    /// $\frac12 L^\top(\nabla f(z_k) + \nabla f(z_{k'}))$ of each draw and its twin, which tells third derivatives; `None`
    /// of more than [`MOST_GLOBALS`], and where a part of a sum has none.
    pub(crate) even: Option<Vec<f64>>,
}

impl Share {
    /// The share of nothing.
    pub(crate) fn none(len: usize) -> Self {
        Self { value: 0.0, gradient: vec![0.0; len], curvature: vec![0.0; pairs(len)], even: None }
    }

    /// From values and gradients at the draws of `at`, in their order.
    pub(crate) fn of(at: &Normal, draws: &Draws, found: &[(f64, Vec<f64>)]) -> Self {
        let len = at.len();
        let mut share = Self::none(len);
        #[expect(clippy::cast_precision_loss, reason = "there are few draws")]
        let weight = 1.0 / found.len() as f64;
        let pairs = draws.pairs();
        let mut even = vec![0.0; pairs * len];
        for (index, (value, gradient)) in found.iter().enumerate() {
            let (noise, pulled) = (draws.get(index), at.pull(gradient));
            share.value += weight * value;
            share.gradient.iter_mut().zip(&pulled).for_each(|(slot, own)| *slot += weight * own);
            add_scaled(&mut even[index % pairs * len..][..len], 0.5, &pulled);
            for ((row, column), slot) in each(len).zip(&mut share.curvature) {
                *slot += 0.5 * weight * (noise[row] * pulled[column] + noise[column] * pulled[row]);
            }
        }
        share.even = (len <= MOST_GLOBALS).then_some(even);
        share
    }

    pub(crate) fn plus(self, other: &Self) -> Self {
        self.add(1.0, other)
    }

    pub(crate) fn minus(self, other: &Self) -> Self {
        self.add(-1.0, other)
    }

    fn add(mut self, factor: f64, other: &Self) -> Self {
        self.value += factor * other.value;
        add_scaled(&mut self.gradient, factor, &other.gradient);
        add_scaled(&mut self.curvature, factor, &other.curvature);
        self.even = self.even.zip(other.even.as_deref()).map(|(mut own, other)| {
            add_scaled(&mut own, factor, other);
            own
        });
        self
    }

    /// Stein's matrix.
    pub(crate) fn matrix(&self) -> Mat<f64> {
        unpack(self.gradient.len(), &self.curvature, 1.0, 1.0)
    }
}

/// Eigenvalues of the precision below this are held at it, in coordinates where they are one at the optimum.
const LEAST_PRECISION: f64 = 0.05;

/// How often the interval is halved in which the fraction of a step of given length is looked for.
const HALVINGS: usize = 50;

/// The least and the most that is left of a step that was taken back.
const LEAST_LEFT: f64 = 0.1;
const MOST_LEFT: f64 = 0.5;

/// What to leave of a step that changed the bound by `gain`, a loss, where it began with this slope: up to where the
/// parabola through both is highest, and a quarter where the bound was no number.
pub(crate) fn shortened(slope: f64, gain: Option<f64>) -> f64 {
    let slope = slope.max(0.0);
    gain.map_or(0.25, |gain| 0.5 * slope / (slope - gain)).clamp(LEAST_LEFT, MOST_LEFT)
}

/// A curvature without directions in which it rises.
///
/// # Errors
/// [`Error::NotFinite`] if the eigenvalues cannot be computed.
pub(crate) fn without_rise(curvature: &Mat<f64>) -> Result<Mat<f64>> {
    Ok(eigen(curvature)?.function(|value| value.min(0.0)))
}

/// The eigenvalues of a curvature.
fn eigen(matrix: &Mat<f64>) -> Result<Eigen> {
    Eigen::of(matrix).ok_or_else(|| Error::NotFinite {
        who: "the coordinator".into(),
        step: 0,
        quantity: "an eigenvalue of the curvature".into(),
        found: f64::NAN,
    })
}

/// A natural-gradient step from a normal distribution, ready to be taken in part or whole.
#[derive(Debug)]
pub(crate) struct Step {
    vectors: Mat<f64>,
    /// Eigenvalues of minus Stein's matrix, held above a floor.
    precisions: Vec<f64>,
    /// The gradient in the eigenvectors' coordinates.
    gradient: Vec<f64>,
    /// The sum of squared distances of eigenvalues, unheld, from one.
    off: f64,
}

impl Step {
    /// The step that the sum of all shares gives.
    ///
    /// # Errors
    /// [`Error::NotFinite`] if the eigenvalues cannot be computed.
    pub(crate) fn of(share: &Share) -> Result<Self> {
        let len = share.gradient.len();
        let Eigen { vectors, values: found } = eigen(&-share.matrix())?;
        let gradient = (0..len).map(|k| (0..len).map(|row| vectors[(row, k)] * share.gradient[row]).sum()).collect();
        let off = found.iter().map(|value| (value - 1.0).powi(2)).sum();
        let precisions = found.into_iter().map(|value| value.max(LEAST_PRECISION)).collect();
        Ok(Self { vectors, precisions, gradient, off })
    }

    /// The Newton decrement $\tfrac12 g^\top\Lambda^{-1}g$: what is left to gain by the mean, in nats.
    pub(crate) fn decrement(&self) -> f64 {
        0.5 * self.gradient.iter().zip(&self.precisions).map(|(g, p)| g * g / p).sum::<f64>()
    }

    /// How far the whole step moves the mean, in standard deviations.
    pub(crate) fn length(&self) -> f64 {
        self.length_of(1.0)
    }

    /// How far [`Step::take`] moves the mean with this fraction, which grows with it.
    fn length_of(&self, fraction: f64) -> f64 {
        let moves =
            self.gradient.iter().zip(&self.precisions).map(|(g, p)| fraction * g / (1.0 - fraction + fraction * p));
        moves.map(|own| own * own).sum::<f64>().sqrt()
    }

    /// The fraction with which [`Step::take`] moves the mean by `reach` standard deviations, or one where the whole step is no longer.
    ///
    /// It is not `reach` divided by the length of the step: a fraction of a step to a wider distribution has most of its precision
    /// yet, and goes less far than that part of the way.
    pub(crate) fn fraction_within(&self, reach: f64) -> f64 {
        if self.length() <= reach {
            return 1.0;
        }
        let (mut within, mut beyond) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (within + beyond);
            if self.length_of(middle) <= reach {
                within = middle;
            } else {
                beyond = middle;
            }
        }
        within
    }

    /// What is left to gain by mean and covariance, in nats, near the optimum: $\tfrac12 g^\top\Lambda^{-1}g +
    /// \tfrac14\sum_k(\Lambda_{kk} - 1)^2$.
    pub(crate) fn left(&self) -> f64 {
        self.decrement() + 0.25 * self.off
    }

    /// $m + \rho LQ\Lambda_\rho^{-1}Q^\top g$ and $LQ\Lambda_\rho^{-1/2}$ with $\Lambda_\rho = (1-\rho)I + \rho\Lambda$.
    ///
    /// # References
    /// Khan and Rue (2023), The Bayesian learning rule: variational online Newton, in square-root form.
    pub(crate) fn take(&self, from: &Normal, fraction: f64) -> Normal {
        let len = from.len();
        let target: Vec<f64> = self.precisions.iter().map(|p| 1.0 - fraction + fraction * p).collect();
        let shift: Vec<f64> = (0..len)
            .map(|row| fraction * (0..len).map(|k| self.vectors[(row, k)] * self.gradient[k] / target[k]).sum::<f64>())
            .collect();
        let by = Mat::from_fn(len, len, |row, k| self.vectors[(row, k)] / target[k].sqrt());
        from.moved(&shift, &by)
    }
}

#[cfg(test)]
mod tests {
    use partita_core::kernel::dot;

    use super::*;

    #[test]
    fn a_shortened_step_is_as_long_as_its_limit() {
        // Along the first number the distribution is to get three times as wide, along the second half as wide.
        let share = Share { value: 0.0, gradient: vec![9.0, 1.0], curvature: vec![-1.0 / 9.0, 0.0, -4.0], even: None };
        let (step, from) = (Step::of(&share).unwrap(), Normal::independent(vec![0.5, -2.0], 0.1));
        assert!((step.length() - (81.0_f64.powi(2) + 0.25_f64.powi(2)).sqrt()).abs() < 1e-12, "{}", step.length());
        for reach in [0.3, 5.0, 80.0] {
            let shift = from.whiten(&step.take(&from, step.fraction_within(reach)).mean);
            let length = dot(&shift, &shift).sqrt();
            assert!((length / reach - 1.0).abs() < 1e-9, "{length} standard deviations, {reach} expected");
        }
        // The fraction that would be right if the covariance stayed goes less than an eighth of the way to the limit.
        let shift = from.whiten(&step.take(&from, 5.0 / step.length()).mean);
        assert!(dot(&shift, &shift).sqrt() < 5.0 / 8.0, "{shift:?}");
        assert!((step.fraction_within(81.1) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn one_step_solves_a_quadratic_exactly() {
        // f(z) = -½ (z - a)ᵀ P (z - a).
        let (a, precision) = ([1.0e3, -2.0], [[4.0, 1.0], [1.0, 9.0]]);
        let draws = Draws::new(1, 2, 16).unwrap();
        let from = Normal::independent(vec![0.0, 0.0], 3.0);
        let at = |q: &Normal| {
            let found: Vec<(f64, Vec<f64>)> = (0..draws.len())
                .map(|k| {
                    let z = q.draw(draws.get(k));
                    let off = [z[0] - a[0], z[1] - a[1]];
                    let force: Vec<f64> = (0..2).map(|i| precision[i][0] * off[0] + precision[i][1] * off[1]).collect();
                    (-0.5 * (off[0] * force[0] + off[1] * force[1]), force.iter().map(|f| -f).collect())
                })
                .collect();
            Share::of(q, &draws, &found)
        };
        let step = Step::of(&at(&from)).unwrap();
        let to = step.take(&from, 1.0);
        assert!(to.mean.iter().zip(a).all(|(found, a)| (found - a).abs() < 1e-9), "{:?}", to.mean);
        // The inverse of P has determinant 1/35.
        assert!((to.factor[(0, 0)] * to.factor[(1, 1)] - 1.0 / 35.0_f64.sqrt()).abs() < 1e-12);
        let after = Step::of(&at(&to)).unwrap();
        assert!(after.left() < 1e-12 && after.length() < 1e-6 && step.left() > 1.0);
        // The parabola of slope s that has lost s at the end is highest at a quarter.
        assert!((shortened(2.0, Some(-2.0)) - 0.25).abs() < 1e-12 && (shortened(2.0, None) - 0.25).abs() < 1e-12);
        assert!((shortened(2.0, Some(-1e9)) - 0.1).abs() < 1e-12 && (shortened(-1.0, Some(-1.0)) - 0.1).abs() < 1e-12);
    }
}
