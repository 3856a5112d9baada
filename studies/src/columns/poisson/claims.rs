//! Judges the paper's claims of section 5.2, with tolerances that were fixed before the first full run.

use super::study::{Found, How};
use super::world::{MEANS, World};
use crate::harness::{Claim, largest, mean};
use crate::measures::fisher_rao_distance;

/// The file of the tolerances.
pub(crate) const FILE: &str = file!();

/// A mean of coefficients is recovered if it lies within this many posterior standard deviations of the truth.
const DEVIATIONS: f64 = 3.0;

/// A coefficient of the true model is aligned with the truth if its posterior mean differs by at most this.
const ALIGNED: f64 = 0.05;

/// Chains with a larger R-hat than this are in different modes, or have not left their starting points.
const DISAGREE: f64 = 1.05;

/// All claims for the fits that were made.
pub(crate) fn judge(found: &[Found], world: &World) -> Vec<Claim> {
    let mut verdicts = Vec::new();
    for one in found {
        let place = match one.how.rho() {
            Some(rho) => format!("{}, rho {rho}", one.how.name()),
            None => one.how.name(),
        };
        // P1: every fit recovers the means of the coefficients.
        let away = one.moments.iter().zip(&world.mu).map(|((mean, sd), truth)| (mean - truth).abs() / sd);
        let worst = largest(away);
        let words = format!("means at most {worst:.2} sd from the truth");
        verdicts.push(Claim::new("P1", worst < DEVIATIONS).at(place.clone()).by(words));
        let coefficients = one.moments[MEANS..].iter().zip(&world.beta);
        let worst = largest(coefficients.map(|((mean, _), truth)| (mean - truth).abs()));
        match one.how {
            // P2: the true model is aligned with the true coefficients.
            How::TrueSampled | How::TrueMeanField => {
                let found = format!("coefficients at most {worst:.4} from the truth");
                verdicts.push(Claim::new("P2", worst < ALIGNED).at(place).by(found));
            }
            // P3: the sampler on the augmented model fails to converge.
            How::AugmentedSampled { .. } => {
                let (r_hat, divergences, cut) = one.quality.unwrap_or_default();
                let found = format!("R-hat {r_hat:.3}, {divergences} divergences, {cut} trees cut");
                verdicts.push(Claim::new("P3", r_hat > DISAGREE).at(place).by(found));
            }
            // P4: the amortised family is nearer to the true model's coefficients than the sampler is.
            How::AugmentedAmortised { rho } => {
                let by = |how: How| found.iter().find(|other| other.how == how);
                if let (Some(truth), Some(sampled)) = (by(How::TrueSampled), by(How::AugmentedSampled { rho })) {
                    let (own, other) = (distance(one, truth), distance(sampled, truth));
                    let found = format!("distance from the true model {own:.2}, of the sampler {other:.2}");
                    verdicts.push(Claim::new("P4", own < other).at(place).by(found));
                }
            }
        }
    }
    verdicts
}

/// The mean Fisher-Rao distance of the coefficients' marginals, as normal densities.
fn distance(one: &Found, other: &Found) -> f64 {
    let pairs = one.moments[MEANS..].iter().zip(&other.moments[MEANS..]);
    mean(&pairs.map(|(own, other)| fisher_rao_distance(*own, *other).unwrap_or(f64::INFINITY)).collect::<Vec<f64>>())
}
