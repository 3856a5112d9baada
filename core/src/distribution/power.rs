//! Sums powers of the probabilities of counts: the normalising integrals of robust losses that have no closed form.

use super::{Density, Gradient};

/// The largest number of counts of a sum: 30 ms an observation.
const MOST: usize = 1 << 20;
/// The largest remainder of a sum, relative to the sum.
const REST: f64 = 1e-17;

/// A distribution of counts, and the start and end of the sum over them.
pub(super) struct Counts<'a> {
    pub(super) density: &'a dyn Density,
    pub(super) parameters: [&'a [f64]; 3],
    /// The start of the sum: a count of the largest probability.
    pub(super) mode: f64,
    /// The last count.
    pub(super) last: f64,
    /// An upper bound for the ratio of successive terms of the tail.
    pub(super) ratio: f64,
}

/// $\log\sum_k p(k)^\beta$ with $\beta$ = `power`, over all counts from 0 to `last`.
///
/// Adds the derivatives by the parameters, all of which are numbers. The sum starts at `mode`. From there the ratio of
/// successive terms must not rise in either direction, except towards `ratio`, its upper bound in the tail. Stops when
/// a geometric series bounds the remainder by 1e-17 of the sum; `None` if that takes more than a million terms.
pub(super) fn log_power_sum(counts: &Counts<'_>, power: f64, gradient: &mut Gradient<'_>) -> Option<f64> {
    let Counts { density, parameters, mode, last, ratio } = *counts;
    let wanted = gradient.parameters.each_ref().map(|slots| !slots.is_empty());
    let evaluate = |count: f64| {
        let mut slots = [[0.0]; 3];
        let [a, b, c] = &mut slots;
        let [a, b, c] = [(a, wanted[0]), (b, wanted[1]), (c, wanted[2])].map(|(slot, wanted)| {
            let slot: &mut [f64] = if wanted { slot } else { &mut [] };
            slot
        });
        let log_prob =
            density.log_prob(&[count], parameters, &mut Gradient { scale: 1.0, value: &mut [], parameters: [a, b, c] });
        (log_prob, slots.map(|[slot]| slot))
    };
    let (at_mode, slopes) = evaluate(mode);
    let (mut sum, mut weighted) = (1.0, slopes);
    let mut terms = 0;
    for step in [1.0, -1.0] {
        let (mut count, mut term) = (mode + step, 1.0);
        let limit = if step > 0.0 { ratio } else { 0.0 };
        while (0.0..=last).contains(&count) {
            terms += 1;
            if terms > MOST {
                return None;
            }
            let (log_prob, slopes) = evaluate(count);
            let next = (power * (log_prob - at_mode)).exp();
            let fall = (next / term).max(limit);
            sum += next;
            weighted.iter_mut().zip(slopes).for_each(|(slot, slope)| *slot += next * slope);
            // A NaN ends the sum as well, and is returned.
            if next <= 0.0 || next.is_nan() || fall < 1.0 && next * fall / (1.0 - fall) < REST * sum {
                break;
            }
            (count, term) = (count + step, next);
        }
    }
    for (slots, weighted) in gradient.parameters.iter_mut().zip(weighted) {
        slots.iter_mut().for_each(|slot| *slot += gradient.scale * power * weighted / sum);
    }
    Some(power * at_mode + sum.ln())
}
