//! Evaluates many binomial or negative binomial events at once: small counts have their constants from tables.

use std::sync::LazyLock;

use super::Batch;
use crate::math::kernel::{BinomialTerms, at, binomial_logit};
use crate::math::special::ln_gamma;

/// The least count that has no plain formula: parts of that are up to 10⁵ nats, and digits beyond the tenth are lost.
const COUNTS: usize = 10_000;
/// The largest concentration that has one: parts grow with its logarithm.
const MOST: f64 = 1e6;

/// The places that a table has in any case, and those that take as long as one event alone.
const FREE: usize = 100;
const EACH: usize = 16;

/// The place of a small count in a table; `None` if it is too large or not a count.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what is no count is refused")]
fn place(count: f64) -> Option<usize> {
    (count >= 0.0 && count < COUNTS as f64 && count.fract() <= 0.0).then_some(count as usize)
}

/// $\log k!$ of a count; `None` if it is too large for the plain formula or is not a count.
pub(super) fn log_factorial(count: f64) -> Option<f64> {
    static TABLE: LazyLock<Vec<f64>> =
        LazyLock::new(|| (0..COUNTS).map(|count| ln_gamma(count as f64 + 1.0)).collect());
    TABLE.get(place(count)?).copied()
}

/// The log binomial coefficient of a count among so many trials.
fn coefficient(successes: f64, trials: f64) -> Option<f64> {
    Some(log_factorial(trials)? - log_factorial(successes)? - log_factorial(trials - successes)?)
}

/// Binomial events: `parameters` are trials and logits.
pub(super) fn binomial(batch: &mut Batch<'_>) -> Option<f64> {
    let [trials, logits, _] = batch.parameters;
    if !batch.serves(0) || !batch.serves(1) || !batch.parameter_gradients[0].is_empty() {
        return None;
    }
    let events = || batch.values.iter().enumerate();
    let constants: Vec<f64> = events().map(|(event, k)| coefficient(*k, at(trials, event))).collect::<Option<_>>()?;
    let failures: Vec<f64> = events().map(|(event, k)| at(trials, event) - k).collect();
    batch.value_gradient.fill(0.0);
    let (by_logits, by_failures, terms) = (&mut *batch.parameter_gradients[1], &mut [][..], &mut *batch.events);
    let (successes, failures, scale) = (batch.values, failures.as_slice(), batch.scale);
    let sum = binomial_logit(&mut BinomialTerms { logits, successes, failures, scale, by_logits, by_failures, terms });
    terms.iter_mut().zip(&constants).for_each(|(term, constant)| *term += constant);
    Some(sum + constants.iter().sum::<f64>())
}

/// What a count and a concentration $r$ alone give a negative binomial probability.
#[derive(Debug, Clone, Copy, Default)]
struct Rising {
    /// $\log\Gamma(k+r) - \log\Gamma(r) - \log k!$.
    log: f64,
    /// $\psi(k+r) - \psi(r)$.
    slope: f64,
}

/// That of every count up to the largest of `counts`, at one concentration; `None` where that takes longer than they do.
fn rising(counts: &[f64], concentration: f64) -> Option<Vec<Rising>> {
    let mut most = 0;
    for count in counts {
        most = most.max(place(*count)?);
    }
    if most > FREE.max(EACH * counts.len()) {
        return None;
    }
    let next = |before: &mut Rising, count: usize| {
        let (now, count) = (*before, count as f64);
        before.log += ((concentration + count) / (count + 1.0)).ln();
        before.slope += 1.0 / (concentration + count);
        Some(now)
    };
    Some((0..=most).scan(Rising::default(), next).collect())
}

/// Negative binomial events of one concentration: `parameters` are that and logits.
pub(super) fn negative_binomial(batch: &mut Batch<'_>) -> Option<f64> {
    let [concentrations, logits, _] = batch.parameters;
    let concentration = *concentrations.first()?;
    let is_one = batch.serves(0) && concentrations.iter().all(|own| own.to_bits() == concentration.to_bits());
    let is_plain = (f64::MIN_POSITIVE..=MOST).contains(&concentration);
    if !is_one || !is_plain || !batch.serves(1) {
        return None;
    }
    let table = rising(batch.values, concentration)?;
    let of = |count: &f64| place(*count).and_then(|place| table.get(place)).copied().unwrap_or_default();
    batch.value_gradient.fill(0.0);
    let [by_failures, by_logits, _] = &mut batch.parameter_gradients;
    let (successes, failures, scale, terms) = (batch.values, &[concentration][..], batch.scale, &mut *batch.events);
    let mut sum =
        binomial_logit(&mut BinomialTerms { logits, successes, failures, scale, by_logits, by_failures, terms });
    by_failures.iter_mut().zip(successes).for_each(|(slope, count)| *slope += scale * of(count).slope);
    terms.iter_mut().zip(successes).for_each(|(term, count)| *term += of(count).log);
    sum += successes.iter().map(|count| of(count).log).sum::<f64>();
    Some(sum)
}
