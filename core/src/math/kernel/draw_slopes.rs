//! Takes the gradient by draws around a prior's mean back to what the draws were made of, number by number.

use super::block::{BLOCK, Padded, Whole};

/// What the slopes of all draws have in common: $z = \mu + \sigma\tau$ with the prior $N(g, \rho^2)$.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawSlopes {
    /// How the entropy of the draws enters.
    pub entropy: DrawEntropy,
    /// $p$, the weight over $\rho^2$.
    pub precision: f64,
    /// $w$, the weight of the draws' terms.
    pub weight: f64,
}

/// How the entropy of draws enters a gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawEntropy {
    /// In closed form, as the prior does: the prior's pull is that on the mean.
    Closed,
    /// By the path through the draw alone, $\tau/\sigma$.
    Path,
    /// By its whole gradient.
    Total,
}

dispatch! {
    /// The gradients by $\mu$, by $\log\sigma$ and by $g$ as the mean of the prior.
    ///
    /// With $v$ the gradient by $z$ of all else, and $c = \mu$ where the entropy is closed and $c = z$ elsewhere,
    /// $$ \mathrm{pull} = p(c - g), \qquad
    /// \mathrm{by\ mean} = v - \mathrm{pull}\ (+\ w\tau/\sigma\ \text{by the path}) $$
    /// and by $\log\sigma$ $v\sigma\tau + w - p\sigma^2$ (closed), $((v - \mathrm{pull})\sigma + w\tau)\tau$ (path), or
    /// $(v - \mathrm{pull})\sigma\tau + w$ (total).
    ///
    /// # Shapes
    /// `given`: $v$, $g$, $c$, $\sigma$, $\tau$; `out`: by mean, by log scale, pull; all of one length.
    ///
    /// # Numerics
    /// Nothing is fused: the same bits on every machine.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    draw_slopes(slopes: DrawSlopes, given: [&[f64]; 5], out: [&mut [f64]; 3]) -> ()
    where given.iter().all(|own| own.len() == given[0].len()) && out.iter().all(|own| own.len() == given[0].len());
    vector, vector
}

#[inline(always)]
fn vector(slopes: DrawSlopes, given: [&[f64]; 5], out: [&mut [f64]; 3]) {
    match slopes.entropy {
        DrawEntropy::Closed => pass::<true, false>(slopes, given, out),
        DrawEntropy::Path => pass::<false, true>(slopes, given, out),
        DrawEntropy::Total => pass::<false, false>(slopes, given, out),
    }
}

#[inline(always)]
fn load(numbers: &[f64], start: usize) -> [f64; BLOCK] {
    if start + BLOCK <= numbers.len() { Whole.load(numbers, start) } else { Padded.load(numbers, start) }
}

#[inline(always)]
fn store(numbers: &mut [f64], start: usize, block: &[f64; BLOCK]) {
    if start + BLOCK <= numbers.len() {
        Whole.store(numbers, start, block)
    } else {
        Padded.store(numbers, start, block)
    }
}

/// A block is read whole before any of it is written: the compiler need not know that slices do not overlap.
#[inline(always)]
fn pass<const CLOSED: bool, const PATH: bool>(slopes: DrawSlopes, given: [&[f64]; 5], out: [&mut [f64]; 3]) {
    let DrawSlopes { precision, weight, .. } = slopes;
    let ([v, g, centre, scale, tau], [by_mean, by_log_scale, pull]) = (given, out);
    for start in (0..pull.len()).step_by(BLOCK) {
        let (v, g, centre) = (load(v, start), load(g, start), load(centre, start));
        let (scale, tau) = (load(scale, start), load(tau, start));
        let [mut mean, mut log_scale, mut away] = [[0.0; BLOCK]; 3];
        for lane in 0..BLOCK {
            away[lane] = precision * (centre[lane] - g[lane]);
            mean[lane] = v[lane] - away[lane];
            if CLOSED {
                log_scale[lane] = v[lane] * scale[lane] * tau[lane] + weight - precision * scale[lane] * scale[lane];
            } else if PATH {
                let path = mean[lane] * scale[lane];
                mean[lane] += weight * tau[lane] / scale[lane];
                log_scale[lane] = (path + weight * tau[lane]) * tau[lane];
            } else {
                log_scale[lane] = mean[lane] * scale[lane] * tau[lane] + weight;
            }
        }
        store(by_mean, start, &mean);
        store(by_log_scale, start, &log_scale);
        store(pull, start, &away);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::InstructionSet;
    use crate::math::kernel::testing::{LENGTHS, bits, scattered};

    #[test]
    fn slopes_are_those_of_the_formulas_with_the_same_bits_under_every_instruction_set() {
        let (p, w) = (1.7, 0.6);
        for length in LENGTHS {
            let [v, g, c, s, t] = [(-1.0, 2.0), (-3.0, 1.0), (-2.0, 2.0), (0.1, 1.5), (-2.5, 2.5)]
                .map(|(low, high)| scattered(length, low, high));
            for entropy in [DrawEntropy::Closed, DrawEntropy::Path, DrawEntropy::Total] {
                let expected: Vec<[f64; 3]> = (0..length)
                    .map(|i| {
                        let pull = p * (c[i] - g[i]);
                        let (mean, log_scale) = match entropy {
                            DrawEntropy::Closed => (v[i] - pull, v[i] * s[i] * t[i] + w - p * s[i] * s[i]),
                            DrawEntropy::Path => {
                                (v[i] - pull + w * t[i] / s[i], ((v[i] - pull) * s[i] + w * t[i]) * t[i])
                            }
                            DrawEntropy::Total => (v[i] - pull, (v[i] - pull) * s[i] * t[i] + w),
                        };
                        [mean, log_scale, pull]
                    })
                    .collect();
                for set in [InstructionSet::Avx512, InstructionSet::Avx2, InstructionSet::Libm] {
                    let [mut mean, mut log_scale, mut pull] = [(); 3].map(|()| vec![f64::NAN; length]);
                    let slopes = DrawSlopes { entropy, precision: p, weight: w };
                    set.draw_slopes(slopes, [&v, &g, &c, &s, &t], [&mut mean, &mut log_scale, &mut pull]);
                    for (k, found) in [mean, log_scale, pull].iter().enumerate() {
                        let own: Vec<f64> = expected.iter().map(|own| own[k]).collect();
                        assert_eq!(bits(found), bits(&own), "{entropy:?}, {length}, {k}");
                    }
                }
            }
        }
    }
}
