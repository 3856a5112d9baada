//! Says how far the means of a posterior would still move, from the gradients behind the bound of a report.

use serde::{Deserialize, Serialize};

use crate::engine::algorithm::Posterior;
use crate::engine::family::CovarianceMatrix;

/// How far the mean of one global would still move by a natural-gradient step: $`(\Sigma g)_i / \sigma_i`$ with the mean
/// gradient $`g`$ by the means of the posterior, whose covariance is $`\Sigma`$. At the optimum it is zero.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StillMoving {
    /// The global, of those of the unconstrained vector, that would move farthest beyond its error.
    pub component: usize,
    /// How far, in standard deviations of the posterior.
    pub distance: f64,
    /// Its standard error.
    pub error: f64,
}

/// The distance, in standard deviations, that a mean may still have before it.
pub(crate) const SETTLED: f64 = 0.2;
/// Standard errors that are no movement.
pub(crate) const ERRORS: f64 = 4.0;
/// The standard error, in standard deviations, above which gradients say nothing of a movement: the fit still jumps.
pub(crate) const KNOWN: f64 = 0.5;

impl StillMoving {
    /// The distance that is more than its error; infinite where either is no number.
    #[must_use]
    pub fn beyond_error(&self) -> f64 {
        let beyond = self.distance.abs() - ERRORS * self.error;
        if beyond.is_nan() { f64::INFINITY } else { beyond.max(0.0) }
    }

    /// Whether its error is at most half a standard deviation: above that the gradients say nothing, since the fit still
    /// jumps.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.error <= KNOWN
    }

    /// Whether no mean has more than a fifth of a standard deviation before it, as far as that is known.
    #[must_use]
    pub fn has_settled(&self) -> bool {
        self.is_known() && self.beyond_error() <= SETTLED
    }

    /// What orders such movements: those that are not known first, then by distance.
    fn rank(&self) -> f64 {
        if self.is_known() { self.beyond_error() } else { f64::INFINITY }
    }
}

/// Sums over gradients.
#[derive(Debug)]
pub(crate) struct Movement {
    /// The place of each component's mean among the parameters.
    places: Vec<usize>,
    covariance: CovarianceMatrix,
    deviations: Vec<f64>,
    count: f64,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Movement {
    /// That of a posterior; `None` where it has no uncertainty, in whose units things move.
    pub(crate) fn of(posterior: &Posterior<'_>) -> Option<Self> {
        let (family, parameters) = (posterior.family, posterior.parameters);
        let covariance = family.covariance_matrix(parameters);
        let deviations = covariance.deviations();
        if deviations.iter().all(|deviation| *deviation <= 0.0) {
            return None;
        }
        // A family puts means where it likes: here it puts their numbers.
        let mut marked = vec![f64::NAN; parameters.len()];
        let numbers: Vec<f64> = (0_u32..).take(family.len()).map(f64::from).collect();
        family.set_mean(&mut marked, &numbers);
        let mut places = vec![usize::MAX; family.len()];
        for (place, mark) in marked.iter().enumerate().filter(|(_, mark)| !mark.is_nan()) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number put there above")]
            let component = *mark as usize;
            places[component] = place;
        }
        let len = family.len();
        let is_known = places.iter().all(|place| *place < parameters.len());
        is_known.then(|| Self {
            places,
            covariance,
            deviations,
            count: 0.0,
            sums: vec![0.0; len],
            squares: vec![0.0; len],
        })
    }

    /// Adds the gradient by the parameters of one sampled bound.
    pub(crate) fn add(&mut self, gradient: &[f64]) {
        let by_mean: Vec<f64> = self.places.iter().map(|place| gradient[*place]).collect();
        let len = by_mean.len();
        let moved = |index: usize| match &self.covariance {
            CovarianceMatrix::Diagonal(deviations) => deviations[index] * by_mean[index],
            CovarianceMatrix::Full(covariance) => {
                let row = &covariance[index * len..(index + 1) * len];
                row.iter().zip(&by_mean).map(|(c, g)| c * g).sum::<f64>() / self.deviations[index]
            }
        };
        for index in 0..len {
            let own = moved(index);
            self.sums[index] += own;
            self.squares[index] += own * own;
        }
        self.count += 1.0;
    }

    /// The component that would move farthest beyond its error; `None` for fewer than two gradients.
    pub(crate) fn farthest(&self) -> Option<StillMoving> {
        if self.count < 2.0 {
            return None;
        }
        let of = |component: usize| {
            let distance = self.sums[component] / self.count;
            let variance = (self.squares[component] - self.sums[component] * distance) / (self.count - 1.0);
            let variance = if variance.is_nan() { f64::INFINITY } else { variance.max(0.0) };
            StillMoving { component, distance, error: (variance / self.count).sqrt() }
        };
        let all = (0..self.sums.len()).map(of);
        all.max_by(|a, b| a.rank().total_cmp(&b.rank()).then(a.error.total_cmp(&b.error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::family::{DiagonalGaussian, Family, FullRankGaussian};

    fn farthest(family: &dyn Family, parameters: &[f64], gradients: &[Vec<f64>]) -> Option<StillMoving> {
        let mut movement = Movement::of(&Posterior { family, parameters, theta: &[] })?;
        gradients.iter().for_each(|gradient| movement.add(gradient));
        movement.farthest()
    }

    #[test]
    fn a_gradient_is_a_distance_in_standard_deviations() {
        // Standard deviations 2 and 3: a log density of curvature 1/9 whose mode is 0.6 away has the gradient 0.0667.
        let parameters = [0.0, 1.0, 2.0_f64.ln(), 3.0_f64.ln()];
        let gradient = vec![0.0, 0.6 / 9.0, 5.0, 5.0];
        let found = farthest(&DiagonalGaussian::new(2), &parameters, &[gradient.clone(), gradient]).unwrap();
        assert!(found.component == 1 && (found.distance - 0.2).abs() < 1e-12 && found.error < 1e-9, "{found:?}");
    }

    #[test]
    fn a_full_covariance_takes_the_gradient_along() {
        let family = FullRankGaussian::new(2);
        let parameters = family.with_moments(&[0.0, 0.0], &CovarianceMatrix::Full(vec![4.0, 3.0, 3.0, 9.0])).unwrap();
        let mut gradient = vec![0.0; parameters.len()];
        gradient[0] = 0.5;
        let found = farthest(&family, &parameters, &[gradient.clone(), gradient]).unwrap();
        // Σg = (2, 1.5), in standard deviations (1, 0.5).
        assert!(found.component == 0 && (found.distance - 1.0).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn gradients_that_jump_or_are_no_numbers_say_of_no_mean_that_it_has_settled() {
        let family = DiagonalGaussian::new(2);
        let parameters = [0.0; 4];
        // The second mean jumps by 20 standard deviations from draw to draw: its standard error is 2 of 100 draws.
        let jumping: Vec<Vec<f64>> =
            (0..100).map(|k| vec![0.0, if k % 2 == 0 { 20.0 } else { -20.0 }, 0.0, 0.0]).collect();
        let found = farthest(&family, &parameters, &jumping).unwrap();
        assert!(found.component == 1 && found.beyond_error() == 0.0 && !found.has_settled(), "{found:?}");
        for wrong in [f64::NAN, f64::INFINITY, 1e200] {
            let found = farthest(&family, &parameters, &[vec![0.0, wrong, 0.0, 0.0], vec![0.0; 4]]).unwrap();
            assert!(found.component == 1 && !found.has_settled(), "{found:?}");
        }
    }

    #[test]
    fn noise_is_no_movement() {
        let parameters = [0.0, 0.0];
        let gradients: Vec<Vec<f64>> = (0..100).map(|k| vec![if k % 2 == 0 { 1.1 } else { -0.9 }, 0.0]).collect();
        let found = farthest(&DiagonalGaussian::new(1), &parameters, &gradients).unwrap();
        assert!((found.distance - 0.1).abs() < 1e-12 && found.beyond_error() == 0.0, "{found:?}");
    }
}
