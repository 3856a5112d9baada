//! Sums the log probability of many counts given their log rates, with the derivatives, in one pass.

use super::block::{BLOCK, at, serves, sum_blocks, takes};
use super::polynomial::exp;

dispatch! {
    /// The Poisson log probability of `y` given `log_rate` **without** its constant $-\sum_i\log y_i!$, in nats;
    /// writes `scale` times its derivatives.
    ///
    /// $$ \sum_i y_i\eta_i - e^{\eta_i}, \qquad \mathrm{residual}_i = \mathrm{scale}\thinspace (y_i - e^{\eta_i}) $$
    /// with $\eta$ = `log_rate`. The caller subtracts the log factorials, which depend on the data alone. The sum is
    /// not multiplied by `scale`. `terms` receives its terms. An empty `residual` or `terms` takes nothing.
    ///
    /// # Shapes
    /// `log_rate`: `n`, or 1 for all; `y`: `n`; `residual` and `terms`: `n` or 0.
    ///
    /// # Numerics
    /// Against the libm loop: sum and residuals 2.2e-16, relative to the size of their parts. A log rate above
    /// 709.78 gives minus infinity, as it should.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    poisson_log(log_rate: &[f64], y: &[f64], scale: f64, residual: &mut [f64], terms: &mut [f64]) -> f64
    where serves(log_rate, y.len()) && takes(residual, y.len()) && takes(terms, y.len());
    vector, scalar
}

#[inline(always)]
fn vector(log_rate: &[f64], y: &[f64], scale: f64, residual: &mut [f64], terms: &mut [f64]) -> f64 {
    sum_blocks!(y.len(), |io, start| {
        let (log_rates, counts) = (io.serve(log_rate, start), io.load(y, start));
        let (mut own, mut slopes) = ([0.0; BLOCK], [0.0; BLOCK]);
        for lane in 0..BLOCK {
            let rate = exp(log_rates[lane]);
            own[lane] = counts[lane] * log_rates[lane] - rate;
            slopes[lane] = scale * (counts[lane] - rate);
        }
        io.store(residual, start, &slopes);
        io.store(terms, start, &own);
        own
    })
}

fn scalar(log_rate: &[f64], y: &[f64], scale: f64, residual: &mut [f64], terms: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    for (index, count) in y.iter().enumerate() {
        let log_rate = at(log_rate, index);
        let rate = log_rate.exp();
        let term = count * log_rate - rate;
        sum += term;
        if let Some(slot) = terms.get_mut(index) {
            *slot = term;
        }
        if let Some(slot) = residual.get_mut(index) {
            *slot = scale * (count - rate);
        }
    }
    sum
}
