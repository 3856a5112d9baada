//! Gives the categorical log density of classes on a device, with its slopes by the logits.

use burn_cubecl::cubecl::{self, prelude::*};

use super::launch::log_density;
use super::log1p::log1p;
use crate::distribution::Term;

/// The log density of each class as one node; `None` where the device has no kernel, or logits are not one row an event.
///
/// # Shapes
/// Classes `[events, 1]`, logits `[events, classes]`.
pub(crate) fn categorical(classes: &Term, logits: &Term) -> Option<Term> {
    let Term::Tensor(logits) = logits else { return None };
    let [events, _] = logits.dims();
    log_density(classes, logits, [events, 1], |client, groups, group, [classes, logits, log_prob, slope]| {
        categorical_kernel::launch(client, groups, group, classes, logits, log_prob, slope);
    })
}

/// A thread an event. The largest logit is taken out of the sum, so that neither overflows nor cancels.
#[cube(launch)]
fn categorical_kernel(classes: &[f32], logits: &[f32], log_prob: &mut [f32], slope: &mut [f32]) {
    let at = ABSOLUTE_POS;
    if at >= classes.len() {
        terminate!();
    }
    let width = logits.len() / classes.len();
    let start = at * width;
    let class = u32::cast_from(classes[at]) as usize;
    let mut largest = logits[start];
    let mut likeliest = 0usize;
    for column in 1..width {
        let logit = logits[start + column];
        if logit > largest {
            largest = logit;
            likeliest = column;
        }
    }
    // What the likeliest class, whose term is one, leaves of the sum, and what the class itself leaves.
    let mut rest = 0.0f32;
    let mut others = 0.0f32;
    for column in 0..width {
        let term = (logits[start + column] - largest).exp();
        slope[start + column] = -term;
        if column != likeliest {
            rest += term;
        }
        if column != class {
            others += term;
        }
    }
    let total = 1.0f32 + rest;
    for column in 0..width {
        let own = if column == class { others } else { slope[start + column] };
        slope[start + column] = own / total;
    }
    log_prob[at] = logits[start + class] - largest - log1p(rest);
}
