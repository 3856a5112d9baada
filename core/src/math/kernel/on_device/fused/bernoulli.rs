//! Gives the Bernoulli log density of outcomes on a device, with its slopes by the log odds.

use burn_cubecl::cubecl::{self, prelude::*};

use super::launch::Cells;
use super::log1p::log1p;
use crate::distribution::Term;
use crate::math::operation::{Slope, sloped};

/// The log density of each outcome as one node; `None` where the device has no kernel, or log odds are not one an outcome.
pub(crate) fn bernoulli(outcomes: &Term, logits: &Term) -> Option<Term> {
    let (Term::Tensor(outcomes), Term::Tensor(logits)) = (outcomes, logits) else { return None };
    let [given, odds] = [Cells::of(outcomes, logits.dims())?, Cells::of(logits, logits.dims())?];
    let [log_prob, slope] = [odds.blank(), odds.blank()];
    if let Some((groups, group)) = odds.threads(odds.count()) {
        bernoulli_kernel::launch(
            odds.client(),
            groups,
            group,
            given.argument(),
            odds.argument(),
            log_prob.argument(),
            slope.argument(),
        );
    }
    Some(Term::Tensor(sloped(log_prob.tensor(), vec![Slope { by: logits.clone(), slope: slope.tensor() }])))
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
