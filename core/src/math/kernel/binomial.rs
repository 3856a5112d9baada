//! Sums the log probability of many counts of successes and failures given their logits, with the derivatives, in one pass.

use super::block::{BLOCK, at, serves, sum_blocks, takes};
use super::polynomial::{exp_below_zero, log1p_of_unit};

/// Trials with their log odds, and where what is found goes.
#[derive(Debug)]
pub struct BinomialTerms<'a> {
    /// Log odds of a success: one an event, or one for all.
    pub logits: &'a [f64],
    /// Successes of each event.
    pub successes: &'a [f64],
    /// Failures, one an event or one for all; no whole number is needed.
    pub failures: &'a [f64],
    /// The factor on derivatives.
    pub scale: f64,
    /// Overwritten with `scale` times the derivative by each log odds, unless empty.
    pub by_logits: &'a mut [f64],
    /// Overwritten with `scale` times the derivative by each number of failures, unless empty.
    pub by_failures: &'a mut [f64],
    /// Overwritten with the terms of the sum, unless empty.
    pub terms: &'a mut [f64],
}

impl BinomialTerms<'_> {
    fn fits(&self) -> bool {
        let count = self.successes.len();
        [self.logits, self.failures].iter().all(|own| serves(own, count))
            && [&self.by_logits, &self.by_failures, &self.terms].iter().all(|own| takes(own, count))
    }
}

dispatch! {
    /// The binomial and negative binomial log probability **without** its binomial coefficient, in nats.
    ///
    /// $$ \sum_i k_i\log\sigma(\ell_i) + f_i\log\sigma(-\ell_i), \qquad
    ///    \frac{\partial}{\partial\ell_i} = k_i\sigma(-\ell_i) - f_i\sigma(\ell_i), \qquad
    ///    \frac{\partial}{\partial f_i} = \log\sigma(-\ell_i) $$
    /// with $k$ = `successes`, $f$ = `failures` and $\ell$ = `logits`. The sum is not multiplied by `scale`.
    ///
    /// # Numerics
    /// Computed from $e^{-|\ell|}$: no overflow at any finite logit. Against the libm loop: sum, terms and derivatives 1e-15, relative to
    /// the size of their parts.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    ///
    /// # Example
    /// ```
    /// use partita_core::kernel::{BinomialTerms, binomial_logit};
    /// let (logits, successes, failures) = (&[0.0], &[2.0, 1.0], &[1.0, 3.0]);
    /// let (by_logits, by_failures, terms): (&mut [f64], &mut [f64], &mut [f64]) = (&mut [], &mut [], &mut []);
    /// let sum = binomial_logit(&mut BinomialTerms { logits, successes, failures, scale: 1.0, by_logits, by_failures, terms });
    /// assert!((sum - 7.0 * 0.5_f64.ln()).abs() < 1e-14);
    /// ```
    binomial_logit(own: &mut BinomialTerms<'_>) -> f64
    where own.fits();
    vector, scalar
}

#[inline(always)]
fn vector(own: &mut BinomialTerms<'_>) -> f64 {
    if own.by_logits.is_empty() && own.by_failures.is_empty() { blocks::<false>(own) } else { blocks::<true>(own) }
}

#[inline(always)]
fn blocks<const DERIVATIVE: bool>(own: &mut BinomialTerms<'_>) -> f64 {
    let BinomialTerms { logits, successes, failures, scale, by_logits, by_failures, terms } = own;
    sum_blocks!(successes.len(), |io, start| {
        let (logit, success, failure) = (io.serve(logits, start), io.load(successes, start), io.serve(failures, start));
        let (mut own, mut slopes, mut by) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        for lane in 0..BLOCK {
            let (l, k, f) = (logit[lane], success[lane], failure[lane]);
            let small = exp_below_zero(-l.abs());
            let positive = l > 0.0;
            let log = log1p_of_unit(small);
            let below = -(log + if positive { l } else { 0.0 });
            own[lane] = f * below - k * (log + if positive { 0.0 } else { -l });
            if DERIVATIVE {
                let far = 1.0 / (1.0 + small);
                let near = small * far;
                let one = if positive { far } else { near };
                let zero = if positive { near } else { far };
                slopes[lane] = *scale * (k * zero - f * one);
                by[lane] = *scale * below;
            }
        }
        if DERIVATIVE {
            io.store(by_logits, start, &slopes);
            io.store(by_failures, start, &by);
        }
        io.store(terms, start, &own);
        own
    })
}

fn scalar(own: &mut BinomialTerms<'_>) -> f64 {
    let BinomialTerms { logits, successes, failures, scale, by_logits, by_failures, terms } = own;
    let mut sum = 0.0;
    for (index, k) in successes.iter().enumerate() {
        let (l, f) = (at(logits, index), at(failures, index));
        let small = (-l.abs()).exp();
        let below = -(small.ln_1p() + if l > 0.0 { l } else { 0.0 });
        let above = -(small.ln_1p() + if l > 0.0 { 0.0 } else { -l });
        let term = k * above + f * below;
        sum += term;
        let (far, near) = (1.0 / (1.0 + small), small / (1.0 + small));
        let (one, zero) = if l > 0.0 { (far, near) } else { (near, far) };
        let found = [term, *scale * (k * zero - f * one), *scale * below];
        for (slots, found) in [&mut **terms, &mut **by_logits, &mut **by_failures].into_iter().zip(found) {
            if let Some(slot) = slots.get_mut(index) {
                *slot = found;
            }
        }
    }
    sum
}
