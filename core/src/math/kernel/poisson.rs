//! Sums the log probability of many counts given their log rates, with the derivatives, in one pass.

use super::block::{BLOCK, serves, sum_blocks, takes};
use super::polynomial::exp;

dispatch! {
    /// The Poisson log probability of `y` given `log_rate` **without** its constant $-\sum_i\log y_i!$, in nats;
    /// writes `scale` times its derivatives.
    ///
    /// $$ \sum_i y_i\eta_i - e^{\eta_i}, \qquad \mathrm{residual}_i = \mathrm{scale}\thinspace (y_i - e^{\eta_i}) $$
    /// with $\eta$ = `log_rate`. The caller subtracts the log factorials, which depend on the data alone. The sum is
    /// not multiplied by `scale`. An empty `residual` asks for the sum alone.
    ///
    /// # Shapes
    /// `log_rate`: `n`, or 1 for all; `y`: `n`; `residual`: `n` or 0.
    ///
    /// # Numerics
    /// Against the libm loop: sum and residuals 2.2e-16, relative to the size of their parts. A log rate above
    /// 709.78 gives minus infinity, as it should.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    poisson_log(log_rate: &[f64], y: &[f64], scale: f64, residual: &mut [f64]) -> f64
    where serves(log_rate, y.len()) && takes(residual, y.len())
}

#[inline(always)]
fn vector(log_rate: &[f64], y: &[f64], scale: f64, residual: &mut [f64]) -> f64 {
    sum_blocks!(y.len(), |io, start| {
        let (log_rates, counts) = (io.serve(log_rate, start), io.load(y, start));
        let (mut terms, mut slopes) = ([0.0; BLOCK], [0.0; BLOCK]);
        for lane in 0..BLOCK {
            let rate = exp(log_rates[lane]);
            terms[lane] = counts[lane] * log_rates[lane] - rate;
            slopes[lane] = scale * (counts[lane] - rate);
        }
        io.store(residual, start, &slopes);
        terms
    })
}

fn scalar(log_rate: &[f64], y: &[f64], scale: f64, residual: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    let shared = log_rate.len() == 1;
    for (index, count) in y.iter().enumerate() {
        let log_rate = log_rate[if shared { 0 } else { index }];
        let rate = log_rate.exp();
        sum += count * log_rate - rate;
        if let Some(slot) = residual.get_mut(index) {
            *slot = scale * (count - rate);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::{LENGTHS, bits, scattered, vectorised, worst};

    fn case(length: usize) -> (Vec<f64>, Vec<f64>) {
        (scattered(length, -20.0, 6.0), scattered(length, 0.0, 50.0).into_iter().map(f64::floor).collect())
    }

    // One unit of exp and one rounding; measured 2.2e-16.
    const TOLERANCE: f64 = 1e-15;

    #[test]
    fn the_vector_loop_agrees_with_libm() {
        for length in LENGTHS {
            let (log_rate, y) = case(length);
            let (mut found, mut expected) = (vec![0.0; length], vec![0.0; length]);
            let sum = poisson_log(&log_rate, &y, 1.0, &mut found);
            let reference = scalar(&log_rate, &y, 1.0, &mut expected);
            let size: f64 = log_rate.iter().zip(&y).map(|(l, y)| (y * l).abs() + l.exp()).sum();
            assert!((sum - reference).abs() <= TOLERANCE * size, "{length}: {sum} {reference}");
            for ((a, b), (l, y)) in found.iter().zip(&expected).zip(log_rate.iter().zip(&y)) {
                assert!((a - b).abs() <= TOLERANCE * y.max(l.exp()), "{l} {y}: {a} {b}");
            }
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        if !vectorised() {
            return;
        }
        let (log_rate, y) = case(2141);
        let (mut wide, mut narrow) = (vec![0.0; y.len()], vec![0.0; y.len()]);
        let sum = poisson_log(&log_rate, &y, 0.3, &mut wide);
        assert_eq!(sum.to_bits(), vector(&log_rate, &y, 0.3, &mut narrow).to_bits());
        assert_eq!(bits(&wide), bits(&narrow));
    }

    #[test]
    fn extreme_rates_behave_as_exp_does() {
        let mut residual = [0.0; 2];
        assert_eq!(poisson_log(&[-800.0, -800.0], &[0.0, 2.0], 1.0, &mut residual).to_bits(), (-1600.0_f64).to_bits());
        assert!(worst(&residual, &[0.0, 2.0], 1.0) < 1e-300);
        assert!(poisson_log(&[710.0], &[3.0], 1.0, &mut []) < f64::MIN);
    }

    #[test]
    fn one_log_rate_serves_all() {
        let (_, y) = case(37);
        let (mut found, mut expected) = (vec![0.0; 37], vec![0.0; 37]);
        let sum = poisson_log(&[0.4], &y, 1.0, &mut found);
        assert_eq!(sum.to_bits(), poisson_log(&[0.4; 37], &y, 1.0, &mut expected).to_bits());
        assert_eq!(bits(&found), bits(&expected));
    }

    #[test]
    fn a_nan_is_not_hidden() {
        for place in [0, 16, 36] {
            let (mut log_rate, y) = case(37);
            log_rate[place] = f64::NAN;
            let mut residual = vec![0.0; 37];
            assert!(poisson_log(&log_rate, &y, 1.0, &mut residual).is_nan() && residual[place].is_nan());
        }
    }
}
