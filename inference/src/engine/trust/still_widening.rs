//! Says how much a deviation of a posterior would still grow or shrink, from the gradients behind the bound of a report.

use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, Side};
use serde::{Deserialize, Serialize};

use super::still_moving::ERRORS;
use crate::engine::algorithm::Posterior;
use crate::engine::family::CovarianceMatrix;
use crate::engine::report::saved::or_nan;

/// By which factor the standard deviation of one global would still change, of a posterior with a factor of each.
///
/// The derivative $`s_i`$ of the bound by the logarithm of the deviation is zero at the optimum, and $`1 - (H\Sigma)_{ii}`$
/// where the log density has the curvature $`H`$ and the posterior the covariance $`\Sigma`$. With $`H`$ a multiple of
/// $`\Sigma^{-1}`$ and $`a = (\Sigma^{-1})_{ii} \Sigma_{ii}`$ the bound is highest at the factor $`x`$ with
/// $`(1 - s_i)(a x^2 + (1 - a) x) = 1`$.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StillWidening {
    /// The global, of those of the unconstrained vector, whose deviation would change most beyond its error.
    pub component: usize,
    /// The factor.
    #[serde(deserialize_with = "or_nan")]
    pub factor: f64,
    /// The factor nearest to one within four standard errors.
    #[serde(deserialize_with = "or_nan")]
    pub at_least: f64,
}

/// The factors that leave a deviation as it is, a quarter more or less.
pub(crate) const SETTLED: [f64; 2] = [0.75, 1.25];

impl StillWidening {
    /// Whether no deviation would change by more than a quarter, as far as that is known.
    #[must_use]
    pub fn has_settled(&self) -> bool {
        (SETTLED[0]..=SETTLED[1]).contains(&self.at_least)
    }
}

/// Sums over gradients.
#[derive(Debug)]
pub(crate) struct Widening {
    /// The place among the parameters of each component's log scale.
    places: Vec<usize>,
    /// $`(\Sigma^{-1})_{ii} \Sigma_{ii}`$.
    conditional: Vec<f64>,
    count: f64,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Widening {
    /// That of a posterior of at most so many globals; `None` where it has no factor of each deviation.
    pub(crate) fn of(posterior: &Posterior<'_>, most: usize) -> Option<Self> {
        let (family, parameters) = (posterior.family, posterior.parameters);
        let len = family.len();
        let places: Vec<usize> = family.log_scales().into_iter().collect::<Option<_>>()?;
        if len == 0 || len > most {
            return None;
        }
        let conditional = match family.covariance_matrix(parameters) {
            CovarianceMatrix::Diagonal(_) => vec![1.0; len],
            CovarianceMatrix::Full(covariance) => {
                let covariance = Mat::from_fn(len, len, |i, j| covariance[i * len + j]);
                let precision = covariance.llt(Side::Lower).ok()?.inverse();
                (0..len).map(|index| precision[(index, index)] * covariance[(index, index)]).collect()
            }
        };
        Some(Self { places, conditional, count: 0.0, sums: vec![0.0; len], squares: vec![0.0; len] })
    }

    /// Adds the gradient by the parameters of one sampled bound.
    pub(crate) fn add(&mut self, gradient: &[f64]) {
        for ((place, sum), square) in self.places.iter().zip(&mut self.sums).zip(&mut self.squares) {
            *sum += gradient[*place];
            *square += gradient[*place] * gradient[*place];
        }
        self.count += 1.0;
    }

    /// The component whose deviation would change most beyond its error; `None` for fewer than two gradients.
    pub(crate) fn farthest(&self) -> Option<StillWidening> {
        if self.count < 2.0 {
            return None;
        }
        let of = |component: usize| {
            let slope = self.sums[component] / self.count;
            let variance = ((self.squares[component] - self.sums[component] * slope) / (self.count - 1.0)).max(0.0);
            let error = ERRORS * (variance / self.count).sqrt();
            let [below, factor, above] =
                [slope - error, slope, slope + error].map(|slope| factor(slope, self.conditional[component]));
            let at_least = if below > 1.0 { below } else { above.min(1.0) };
            StillWidening { component, factor, at_least }
        };
        let all = (0..self.sums.len()).map(of);
        all.max_by(|a, b| a.at_least.ln().abs().total_cmp(&b.at_least.ln().abs()))
    }
}

/// The positive factor $`x`$ with $`(1 - s)(a x^2 + (1 - a) x) = 1`$; infinite where the bound rises for ever.
fn factor(slope: f64, conditional: f64) -> f64 {
    let scale = 1.0 - slope;
    if scale <= 0.0 {
        return f64::INFINITY;
    }
    let rest = 1.0 - conditional;
    (-rest + (rest * rest + 4.0 * conditional / scale).sqrt()) / (2.0 * conditional)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::family::{DiagonalGaussian, Family, FullRankGaussian};

    fn farthest(family: &dyn Family, parameters: &[f64], gradients: &[Vec<f64>]) -> Option<StillWidening> {
        let mut widening = Widening::of(&Posterior { family, parameters, theta: &[] }, 200)?;
        gradients.iter().for_each(|gradient| widening.add(gradient));
        widening.farthest()
    }

    #[test]
    fn the_gradient_of_a_normal_target_gives_the_factor_to_its_deviation() {
        // Deviations 1 and 0.1 of a target with 1 and 0.7: the derivative is 1 - (0.1 / 0.7)².
        let parameters = [0.0, 0.0, 0.0, 0.1_f64.ln()];
        let gradient = vec![3.0, 3.0, 0.0, 1.0 - (0.1_f64 / 0.7).powi(2)];
        let found = farthest(&DiagonalGaussian::new(2), &parameters, &[gradient.clone(), gradient]).unwrap();
        assert!(found.component == 1 && (found.factor - 7.0).abs() < 1e-9, "{found:?}");
        assert!((found.at_least - 7.0).abs() < 1e-6 && !found.has_settled(), "{found:?}");
    }

    #[test]
    fn a_correlated_posterior_of_half_the_deviations_is_to_grow_twofold_in_one_and_less_where_others_hold() {
        // A target with H = Σ⁻¹/4: (HΣ)ᵢᵢ = 1/4. With the other deviation held, x solves a x² + (1 - a) x = 4.
        let family = FullRankGaussian::new(2);
        let parameters = family.with_moments(&[0.0, 0.0], &CovarianceMatrix::Full(vec![4.0, 3.0, 3.0, 9.0])).unwrap();
        let gradient = vec![0.0, 0.0, 0.75, 0.75, 0.0];
        let found = farthest(&family, &parameters, &[gradient.clone(), gradient]).unwrap();
        // a = 36 / 27.
        let (a, x) = (4.0 / 3.0, found.factor);
        assert!((a * x * x + (1.0 - a) * x - 4.0).abs() < 1e-9 && !found.has_settled(), "{found:?}");
    }

    #[test]
    fn noise_is_no_change_and_a_bound_that_rises_for_ever_is_infinite() {
        let family = DiagonalGaussian::new(1);
        let noisy: Vec<Vec<f64>> = (0..100).map(|k| vec![0.0, if k % 2 == 0 { 1.4 } else { -1.0 }]).collect();
        let found = farthest(&family, &[0.0, 0.0], &noisy).unwrap();
        assert!(
            found.at_least.total_cmp(&1.0).is_eq()
                && found.has_settled()
                && (found.factor - 1.25_f64.sqrt()).abs() < 1e-9
        );
        let rising = vec![vec![0.0, 1.5]; 3];
        let found = farthest(&family, &[0.0, 0.0], &rising).unwrap();
        assert!(found.factor.is_infinite() && !found.has_settled(), "{found:?}");
        assert_eq!(farthest(&crate::engine::family::Delta::new(1), &[0.0], &[vec![0.0], vec![0.0]]), None);
    }
}
