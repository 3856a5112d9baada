//! Says how much a deviation of a posterior would still grow or shrink, from the gradients behind the bound of a report.

use faer::Side;
use faer::linalg::solvers::DenseSolveCore;
use serde::{Deserialize, Serialize};

use super::still_moving::ERRORS;
use crate::engine::algorithm::Posterior;
use crate::engine::family::CovarianceMatrix;
use crate::engine::report::number;

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
    #[serde(with = "number")]
    pub factor: f64,
    /// The factor nearest to one within four standard errors.
    #[serde(with = "number")]
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

/// Sums of gradients of sampled bounds by the parameters of a posterior, and of their squares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gradients<'a> {
    pub(crate) count: f64,
    pub(crate) sums: &'a [f64],
    pub(crate) squares: &'a [f64],
}

impl StillWidening {
    /// Of the global whose deviation would change most beyond its error, in a posterior of at most so many; `None` where it
    /// has no factor of each deviation, and for fewer than two gradients.
    pub(crate) fn of(posterior: &Posterior<'_>, most: usize, gradients: Gradients<'_>) -> Option<Self> {
        let (family, Gradients { count, sums, squares }) = (posterior.family, gradients);
        if family.len() > most || count < 2.0 {
            return None;
        }
        let places: Vec<usize> = family.log_scales().into_iter().collect::<Option<_>>()?;
        let conditional = conditional(&family.covariance_matrix(posterior.parameters))?;
        let of = |(component, (place, conditional)): (usize, (&usize, f64))| {
            let slope = sums[*place] / count;
            let variance = ((squares[*place] - sums[*place] * slope) / (count - 1.0)).max(0.0);
            let error = ERRORS * (variance / count).sqrt();
            let [below, factor, above] = [slope - error, slope, slope + error].map(|slope| factor(slope, conditional));
            let at_least = if below > 1.0 { below } else { above.min(1.0) };
            Self { component, factor, at_least }
        };
        let all = places.iter().zip(conditional).enumerate().map(of);
        all.max_by(|a, b| a.at_least.ln().abs().total_cmp(&b.at_least.ln().abs()))
    }
}

/// $`(\Sigma^{-1})_{ii} \Sigma_{ii}`$ of each component; `None` for a covariance without an inverse.
fn conditional(covariance: &CovarianceMatrix) -> Option<Vec<f64>> {
    if let CovarianceMatrix::Diagonal(deviations) = covariance {
        return Some(vec![1.0; deviations.len()]);
    }
    let (len, covariance) = (covariance.len(), covariance.matrix());
    let precision = covariance.llt(Side::Lower).ok()?.inverse();
    Some((0..len).map(|index| precision[(index, index)] * covariance[(index, index)]).collect())
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
        let sum = |of: fn(f64) -> f64| -> Vec<f64> {
            (0..parameters.len()).map(|place| gradients.iter().map(|own| of(own[place])).sum()).collect()
        };
        let (sums, squares) = (sum(|own| own), sum(|own| own * own));
        let gradients = Gradients { count: gradients.len() as f64, sums: &sums, squares: &squares };
        StillWidening::of(&Posterior { family, parameters, theta: &[] }, 200, gradients)
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
