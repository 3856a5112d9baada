//! Gives the Poisson log density of counts on a device, with its slopes by the log rates.

use burn_cubecl::cubecl::{self, prelude::*};

use super::launch::log_density;
use crate::distribution::Term;

/// The log density of each count as one node; `None` where the device has no kernel, or log rates are not one a count.
pub(crate) fn poisson(counts: &Term, log_rates: &Term) -> Option<Term> {
    let Term::Tensor(log_rates) = log_rates else { return None };
    log_density(counts, log_rates, log_rates.dims(), |client, groups, group, [counts, log_rates, log_prob, slope]| {
        poisson_kernel::launch(client, groups, group, counts, log_rates, log_prob, slope);
    })
}

#[cube(launch)]
fn poisson_kernel(counts: &[f32], log_rates: &[f32], log_prob: &mut [f32], slope: &mut [f32]) {
    let at = ABSOLUTE_POS;
    if at >= log_rates.len() {
        terminate!();
    }
    let count = counts[at];
    let log_rate = log_rates[at];
    let rate = log_rate.exp();
    log_prob[at] = count * log_rate - rate - ln_gamma(count + 1.0f32);
    slope[at] = count - rate;
}

/// $\log\Gamma(x)$ for $x \ge 1$: Stirling's series at $x + 7$, less the logarithms of the factors between, as in
/// [`Term::ln_gamma`]; three terms suffice for single precision.
#[cube]
fn ln_gamma(x: f32) -> f32 {
    let y = x + 7.0f32;
    let reciprocal = 1.0f32 / y;
    // All but the first factor over y, which leaves 6 log y: the product itself overflows.
    let mut ratios = 1.0f32;
    for factor in 1..7u32 {
        ratios *= (x + f32::cast_from(factor)) * reciprocal;
    }
    let square = reciprocal * reciprocal;
    let rest = ((square / 1260.0f32 - 1.0f32 / 360.0f32) * square + 1.0f32 / 12.0f32) * reciprocal;
    (y - 6.5f32) * y.ln() - y + 0.918_938_5f32 - ratios.ln() - x.ln() + rest
}
