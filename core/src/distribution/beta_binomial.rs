//! Gives the beta-binomial distribution: a binomial count whose probability has a beta distribution.

use super::gamma::log_gamma_draw;
use super::tail::{Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::math::special::{LogChance, binomial_kernel, digamma_difference, log_one_minus_exp, sigmoid};
use crate::noise::NoiseStream;

use std::f64::consts::LN_2;

distribution! {
    /// The beta-binomial distribution.
    ///
    /// $$ \log p(k) = \log\binom{n}{k} + \log B(k+a, n-k+b) - \log B(a, b),\qquad k = 0, \dots, n $$
    /// with $n$ = `total`, $a$ = `concentration_one` > 0 and $b$ = `concentration_zero` > 0; `beta_binomial(n, a, b)`
    /// of Stan.
    ///
    /// # Shapes
    /// The three are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// Three saddle points whose large terms cancel beforehand: accurate for totals up to 10⁹
    /// (an error below 1e-7) and for concentrations of any size beside such a total.
    /// The distribution function sums probabilities, at most as many as there are trials, and has no derivative by the
    /// total.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, BetaBinomial};
    /// // With both concentrations 1 all counts are equally probable.
    /// let log_prob = BetaBinomial::new(4.0, 1.0, 1.0).log_prob_of(&Array::scalar(3.0))?;
    /// assert!((log_prob + 5.0_f64.ln()).abs() < 1e-14);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct BetaBinomial: Discrete where |[total, ..]| Support::CountUpTo(total[0]);

    /// The beta-binomial distribution of `total` trials with two concentrations.
    pub fn new(total: N in Count, concentration_one: A in Positive, concentration_zero: B in Positive);
}

impl Density for BetaBinomial {
    fn log_prob(&self, value: &[f64], [total, one, zero]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (total, one, zero) = (total[0], one[0], zero[0]);
        let (successes, failures) = (value[0], total - value[0]);
        let (own_one, own_zero, own) = (successes + one, failures + zero, total + one + zero);
        if gradient.is_wanted() {
            gradient.add([
                0.0,
                digamma_difference(failures + 1.0, successes) - digamma_difference(own_zero, own_one),
                digamma_difference(one, successes) - digamma_difference(one + zero, total),
                digamma_difference(zero, failures) - digamma_difference(one + zero, total),
            ]);
        }
        // At the posterior mean of the probability every kernel is of moderate size.
        let log = LogChance { success: (own_one / own).ln(), failure: (own_zero / own).ln() };
        binomial_kernel(successes, failures, log) + binomial_kernel(one, zero, log)
            - binomial_kernel(own_one, own_zero, log)
            + (own / own_one / own_zero * one * (zero / (one + zero))).ln()
    }

    fn on_device(&self, value: Term, [total, one, zero]: [Term; 3]) -> Option<Vec<Term>> {
        let failures = total.clone() - value.clone();
        Some(vec![
            -(total + 1.0).ln() - (value.clone() + 1.0).ln_beta(failures.clone() + 1.0),
            (value + one.clone()).ln_beta(failures + zero.clone()) - one.ln_beta(zero),
        ])
    }

    fn draw(&self, [total, one, zero]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let log_odds = log_gamma_draw(one[0], noise) - log_gamma_draw(zero[0], noise);
        out[0] = noise.binomial(total[0], sigmoid(log_odds));
    }

    fn mean(&self, [total, one, zero]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![total[0] * (one[0] / (one[0] + zero[0]))])
    }

    fn variance(&self, [total, one, zero]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let (total, sum) = (total[0], one[0] + zero[0]);
        Some(vec![total * (one[0] / sum) * (zero[0] / sum) * ((sum + total) / (sum + 1.0))])
    }

    tails!();
}

impl BetaBinomial {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (count, total) = (value.floor(), parameters[0][0]);
        if count < 0.0 {
            return tail.below();
        }
        if count >= total {
            return tail.above();
        }
        let (log, by) = log_sum(tail.of((0.0, count), (count + 1.0, total)), parameters);
        let (log, [by_one, by_zero]) = if log < -LN_2 {
            (log, by)
        } else {
            // Close to one: from the other tail.
            let (other, by) = log_sum(tail.of((count + 1.0, total), (0.0, count)), parameters);
            let log = log_one_minus_exp(other);
            (log, by.map(|by| -by * (other - log).exp()))
        };
        gradient.add([0.0, 0.0, by_one, by_zero]);
        log
    }
}

/// The logarithm of the summed probabilities of the counts from one to another, and its derivatives by both
/// concentrations.
fn log_sum((first, last): (f64, f64), parameters: [&[f64]; 3]) -> (f64, [f64; 2]) {
    let (mut largest, mut sum, mut weighted) = (f64::NEG_INFINITY, 0.0, [0.0; 2]);
    let mut next = first;
    while next <= last {
        let [mut by_one, mut by_zero] = [[0.0]; 2];
        let slots: [&mut [f64]; 3] = [&mut [], &mut by_one, &mut by_zero];
        let mut own = Gradient { scale: 1.0, value: &mut [], parameters: slots };
        let log_prob = BetaBinomial.log_prob(&[next], parameters, &mut own);
        let rise = log_prob.max(largest);
        let (shrink, term) = ((largest - rise).exp(), (log_prob - rise).exp());
        sum = sum * shrink + term;
        weighted = [weighted[0] * shrink + term * by_one[0], weighted[1] * shrink + term * by_zero[0]];
        largest = rise;
        next += 1.0;
    }
    (largest + sum.ln(), weighted.map(|weighted| weighted / sum))
}
