//! Gives the divergence of two normal densities with independent components in one pass, for the many weights of a network.

use partita_core::kernel::logarithm;
use rayon::prelude::*;

use crate::engine::PART;

/// $`\mathrm{KL}(q\,\|\,p) = \tfrac12\sum_i r_i - 1 - \log r_i + \lambda_{p,i}(\mu_{q,i} - \mu_{p,i})^2`$ in nats with
/// $`r = \lambda_p/\lambda_q`$, of natural parameters $`(\lambda\mu, -\tfrac12\lambda)`$; not a number where either is no density.
///
/// Parts are evaluated in parallel and summed in order.
pub(super) fn kl_divergence(q: &[f64], p: &[f64]) -> f64 {
    let [(first_q, second_q), (first_p, second_p)] = [q, p].map(|natural| natural.split_at(natural.len() / 2));
    let firsts = first_q.par_chunks(PART).zip(first_p.par_chunks(PART));
    let parts = firsts.zip(second_q.par_chunks(PART).zip(second_p.par_chunks(PART)));
    let sums: Vec<f64> = parts.map(|((first_q, first_p), seconds)| part([first_q, first_p], seconds.into())).collect();
    sums.iter().sum()
}

/// Numbers of a part whose logarithms are taken at once.
const FEW: usize = 1_024;

fn part([first_q, first_p]: [&[f64]; 2], [second_q, second_p]: [&[f64]; 2]) -> f64 {
    let mut ratios = [0.0; FEW];
    let mut total = 0.0;
    let firsts = first_q.chunks(FEW).zip(first_p.chunks(FEW));
    for ((first_q, first_p), (second_q, second_p)) in firsts.zip(second_q.chunks(FEW).zip(second_p.chunks(FEW))) {
        let each = || first_q.iter().zip(first_p).zip(second_q.iter().zip(second_p));
        let ratios = &mut ratios[..first_q.len()];
        for (slot, (firsts, (second_q, second_p))) in ratios.iter_mut().zip(each()) {
            let (of_q, of_p) = (-2.0 * second_q, -2.0 * second_p);
            let ratio = if of_q > 0.0 && of_p > 0.0 { of_p / of_q } else { f64::NAN };
            let distance = firsts.0 / of_q - firsts.1 / of_p;
            total += 0.5 * (ratio - 1.0 + of_p * distance * distance);
            *slot = ratio;
        }
        logarithm(ratios);
        total -= 0.5 * ratios.iter().sum::<f64>();
    }
    total
}

/// Whether independent components with these natural parameters have a density.
pub(super) fn is_proper(natural: &[f64]) -> bool {
    let (first, second) = natural.split_at(natural.len() / 2);
    first.par_chunks(PART).zip(second.par_chunks(PART)).all(|(first, second)| {
        first.iter().zip(second).fold(true, |all, (first, second)| {
            let precision = -2.0 * second;
            all & first.is_finite() & (precision > 0.0) & precision.is_finite()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::natural::{ExponentialFamily, NormalFamily, kl_by_means};

    #[test]
    fn the_divergence_of_independent_components_is_that_of_mean_parameters() {
        for length in [1, 7, PART + 3] {
            let family = NormalFamily::diagonal(length);
            let natural = |step: f64, scale: f64| -> Vec<f64> {
                let numbers = |step: f64| (0..length).map(move |index| (index as f64 * step).sin());
                let precisions = numbers(1.3 * step).map(|own| -scale * (1.2 + own));
                numbers(step).map(|own| 3.0 * own).chain(precisions).collect()
            };
            let (q, p) = (natural(0.7, 2.0), natural(1.1, 0.4));
            let (found, expected) = (family.kl_divergence(&q, &p), kl_by_means(&family, &q, &p));
            // Sums of logarithms, of which the other is a difference.
            assert!((found - expected).abs() < 1e-12 * expected.abs().max(length as f64), "{found} {expected}");
            assert!(family.kl_divergence(&q, &q).abs() < 1e-15 && family.impropriety(&q).is_none());
            let mut improper = q.clone();
            improper[2 * length - 1] = 0.1;
            for (q, p) in [(&improper, &p), (&p, &improper), (&improper, &improper)] {
                assert!(family.kl_divergence(q, p).is_nan());
            }
            assert_eq!(family.impropriety(&improper).unwrap().component, length - 1);
        }
    }
}
