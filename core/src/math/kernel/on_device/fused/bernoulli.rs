//! Gives the Bernoulli log density of outcomes on a device, with its slopes by the log odds.

use burn_cubecl::cubecl::{self, prelude::*};

use super::launch::log_density;
use super::log1p::log1p;
use crate::distribution::Term;

/// The log density of each outcome as one node; `None` where the device has no kernel, or log odds are not one an outcome.
pub(crate) fn bernoulli(outcomes: &Term, logits: &Term) -> Option<Term> {
    let Term::Tensor(logits) = logits else { return None };
    log_density(outcomes, logits, logits.dims(), |client, groups, group, [outcomes, logits, log_prob, slope]| {
        bernoulli_kernel::launch(client, groups, group, outcomes, logits, log_prob, slope);
    })
}

#[cube(launch)]
fn bernoulli_kernel(outcomes: &[f32], logits: &[f32], log_prob: &mut [f32], slope: &mut [f32]) {
    let at = ABSOLUTE_POS;
    if at >= logits.len() {
        terminate!();
    }
    // The log odds of the other outcome: both outcomes then have one formula.
    let sign = 1.0f32 - 2.0f32 * outcomes[at];
    let other = sign * logits[at];
    let small = (-other.abs()).exp();
    log_prob[at] = min(-other, 0.0f32) - log1p(small);
    let sigmoid = if other < 0.0f32 { small } else { 1.0f32 };
    slope[at] = -sign * sigmoid / (1.0f32 + small);
}
