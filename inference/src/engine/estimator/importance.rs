//! Weighs the draws of a step: equally, or by their importance where they are averaged inside the logarithm.

use partita_core::kernel::add_scaled;
use partita_core::special::log_sum_exp_parts;
use serde::{Deserialize, Serialize};

use super::Estimator;
use crate::engine::error::{Error, Result};
use crate::engine::family::Family;

/// How the gradient of the importance-weighted bound is estimated; see [`Estimator::ImportanceWeighted`].
///
/// With $`\tilde w_k = w_k / \sum_l w_l`$ and a draw's own gradient as [`Estimator`] names it. The gradient by θ is
/// $`\sum_k \tilde w_k \nabla_\theta \log p(y, Z_k)`$ in all three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ImportanceGradient {
    /// The derivative of the sampled bound, $`\sum_k \tilde w_k`$ times the total derivative of draw $`k`$. Unbiased;
    /// its signal falls below its noise like $`1/\sqrt K`$ (Rainforth et al., 2018).
    Total,
    /// $`\sum_k \tilde w_k`$ times the path derivative of draw $`k`$. It leaves out a score whose mean is not zero for
    /// more than one draw: quiet, and biased (Tucker et al., 2019).
    StickingTheLanding,
    /// $`\sum_k \tilde w_k^2`$ times the path derivative of draw $`k`$, the doubly reparameterised gradient. Unbiased;
    /// its signal to noise does not fall with $`K`$ (Tucker et al., 2019). It takes no point masses, which have no
    /// density: weights squared would shrink their gradient.
    DoublyReparameterised,
}

/// What the draws of a bound weigh.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DrawWeights {
    /// The bound that the draws give together, in nats.
    pub(crate) bound: f64,
    /// What multiplies the gradient of each draw by the parameters of the variational family.
    pub(crate) family: Vec<f64>,
    /// What multiplies the gradient of each draw by θ.
    pub(crate) theta: Vec<f64>,
    /// What multiplies all of it.
    pub(crate) share: f64,
}

impl DrawWeights {
    /// Draws of equal weight, with these sampled bounds.
    pub(crate) fn equal(bounds: &[f64]) -> Self {
        let share = 1.0 / bounds.len() as f64;
        let ones = vec![1.0; bounds.len()];
        Self { bound: share * bounds.iter().sum::<f64>(), family: ones.clone(), theta: ones, share }
    }

    /// Draws weighted by the exponential of their sampled bounds.
    fn importance(bounds: &[f64], gradient: ImportanceGradient) -> Self {
        let (largest, rest) = log_sum_exp_parts(bounds);
        let weights: Vec<f64> = bounds.iter().map(|bound| ((bound - largest) - rest).exp()).collect();
        let bound = largest + (rest - (bounds.len() as f64).ln());
        let family = match gradient {
            ImportanceGradient::DoublyReparameterised => weights.iter().map(|weight| weight * weight).collect(),
            ImportanceGradient::Total | ImportanceGradient::StickingTheLanding => weights.clone(),
        };
        Self { bound, family, theta: weights, share: 1.0 }
    }

    /// The draw whose share of the weights this number between 0 and 1 falls on.
    pub(crate) fn chosen(&self, uniform: f64) -> u32 {
        let (mut below, mut place) = (0.0, 0);
        for (weight, index) in self.theta.iter().zip(0..) {
            // A draw without any weight is never chosen, whatever is lost to rounding.
            if *weight > 0.0 && below <= uniform {
                place = index;
            }
            below += weight * self.share;
        }
        place
    }

    /// The gradient of the negative bound by a family's parameters, from that of each draw, block by block.
    pub(crate) fn descent(&self, draws: Vec<Vec<Vec<f64>>>) -> Vec<Vec<f64>> {
        descent(draws, &self.family, self.share)
    }

    /// The gradient of the negative bound by θ, from that of each draw.
    pub(crate) fn theta_descent(&self, draws: Vec<Vec<f64>>) -> Vec<f64> {
        let draws = draws.into_iter().map(|draw| vec![draw]).collect();
        descent(draws, &self.theta, self.share).pop().unwrap_or_default()
    }
}

/// Minus `share` times the sum of the draws' gradients, each times its factor, block by block.
pub(crate) fn descent(draws: Vec<Vec<Vec<f64>>>, factors: &[f64], share: f64) -> Vec<Vec<f64>> {
    // Block by block: the loop over one vector is vectorised, one over a flattened iterator is not.
    let scale = |blocks: &mut Vec<Vec<f64>>, factor: f64| {
        blocks.iter_mut().for_each(|block| block.iter_mut().for_each(|slot| *slot *= factor));
    };
    let mut sum: Vec<Vec<f64>> = Vec::new();
    for (mut gradient, factor) in draws.into_iter().zip(factors) {
        if sum.is_empty() {
            scale(&mut gradient, *factor);
            sum = gradient;
        } else {
            sum.iter_mut().zip(&gradient).for_each(|(sum, own)| add_scaled(sum, *factor, own));
        }
    }
    scale(&mut sum, -share);
    sum
}

/// Refuses the doubly reparameterised gradient where a global, or what else a party draws, is a point mass: its own
/// gradient is a sum with the weights themselves.
pub(crate) fn check_points(estimator: Estimator, globals: &dyn Family, has_others: bool) -> Result<()> {
    let doubly = Estimator::ImportanceWeighted { gradient: ImportanceGradient::DoublyReparameterised };
    let is_served = estimator != doubly || !has_others && !globals.deviations(&globals.initial(1.0)).contains(&0.0);
    let found = "ImportanceGradient::DoublyReparameterised with a point mass";
    let expected = "ImportanceGradient::Total, or a family with a density for every latent";
    Error::unless(is_served, "estimator", found, expected)
}

impl Estimator {
    /// The estimator of a single draw inside the bound.
    pub(crate) fn of_draw(self) -> Self {
        match self {
            Self::ImportanceWeighted { gradient: ImportanceGradient::Total } => Self::Total,
            Self::ImportanceWeighted { .. } => Self::StickingTheLanding,
            Self::LocalReparameterisation => Self::ClosedFormEntropy,
            other => other,
        }
    }

    /// Whether the draws of a step are averaged inside the logarithm, so that parties need each other's to weigh them.
    pub(crate) fn weighs_draws(self) -> bool {
        matches!(self, Self::ImportanceWeighted { .. })
    }

    /// The draws behind one sampled bound, for a step with this many particles.
    pub(crate) fn draws_a_bound(self, particles: usize) -> usize {
        if self.weighs_draws() { particles } else { 1 }
    }

    /// What draws weigh that have these sampled bounds, each summed over all parties.
    pub(crate) fn weigh(self, bounds: &[f64]) -> DrawWeights {
        match self {
            Self::ImportanceWeighted { gradient } => DrawWeights::importance(bounds, gradient),
            _ => DrawWeights::equal(bounds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::family::{Blocks, Delta, FullRankGaussian};

    #[test]
    fn point_masses_are_refused_by_the_gradient_that_squares_weights_alone() {
        let parts: [Box<dyn Family>; 2] = [Box::new(FullRankGaussian::new(2)), Box::new(Delta::new(1))];
        let beside = Blocks::new([vec![0, 2], vec![1]].into_iter().zip(parts).collect());
        let normal = FullRankGaussian::new(2);
        for gradient in [ImportanceGradient::Total, ImportanceGradient::StickingTheLanding] {
            let estimator = Estimator::ImportanceWeighted { gradient };
            check_points(estimator, &beside, true).unwrap();
        }
        let doubly = Estimator::ImportanceWeighted { gradient: ImportanceGradient::DoublyReparameterised };
        check_points(doubly, &normal, false).unwrap();
        for refused in [check_points(doubly, &beside, false), check_points(doubly, &normal, true)] {
            assert!(refused.unwrap_err().to_string().contains("ImportanceGradient::Total"));
        }
    }

    #[test]
    fn a_draw_is_chosen_as_often_as_its_weight_says() {
        let bounds = [1.0_f64.ln(), f64::NEG_INFINITY, 3.0_f64.ln(), 4.0_f64.ln(), f64::NEG_INFINITY];
        let weights =
            Estimator::ImportanceWeighted { gradient: ImportanceGradient::DoublyReparameterised }.weigh(&bounds);
        let mut times = [0; 5];
        (0..1_000).for_each(|place| times[weights.chosen((f64::from(place) + 0.5) / 1_000.0) as usize] += 1);
        assert_eq!(times, [125, 0, 375, 500, 0]);
    }

    #[test]
    fn draws_far_apart_do_not_overflow() {
        let found = Estimator::ImportanceWeighted { gradient: ImportanceGradient::Total }.weigh(&[-5_000.0, 2_000.0]);
        assert_eq!(found.family, [0.0, 1.0]);
        assert!((found.bound - (2_000.0 - 2.0_f64.ln())).abs() < 1e-12);
    }
}
