//! Gives the Poisson distribution by its log rate.

use super::binomial_batch::log_factorial;
use super::power::{Counts, log_power_sum};
use super::tail::{Tail, tails};
use super::{Batch, Density, Gradient, Term, distribution};
use crate::math::kernel::poisson_log;
use crate::math::special::{log_incomplete_gamma, poisson_kernel};
use crate::noise::NoiseStream;

distribution! {
    /// The Poisson distribution on counts.
    ///
    /// $$ \log p(k) = k\thinspace \eta - e^\eta - \log k!,\qquad k = 0, 1, 2, \dots $$
    /// with $\eta$ = `log_rate`; the mean and the variance are $e^\eta$.
    ///
    /// # Shapes
    /// `log_rate` is a number or a tensor; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// Accurate for counts of any size (Loader's saddle point). Draws at rates above 1e15, where f64 does not hold
    /// every count, are rounded normal draws.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Poisson};
    /// let log_prob = Poisson::log_rate(0.0).log_prob_of(&Array::scalar(2.0))?;
    /// assert!((log_prob + 1.0 + 2.0_f64.ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Loader (2000), *Fast and accurate computation of binomial probabilities*.
    pub struct Poisson: Discrete where |_| Support::Count;

    /// The Poisson distribution whose mean has the logarithm `log_rate`.
    pub fn log_rate(log_rate: R in Real);
}

impl Density for Poisson {
    fn log_prob(&self, value: &[f64], [log_rate, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let rate = log_rate[0].exp();
        gradient.add([0.0, value[0] - rate, 0.0, 0.0]);
        poisson_kernel(value[0], rate, log_rate[0])
    }

    fn on_device(&self, value: Term, [log_rate, ..]: [Term; 3]) -> Option<Vec<Term>> {
        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
        if let Some(fused) = crate::math::kernel::on_device::poisson(&value, &log_rate) {
            return Some(vec![fused]);
        }
        Some(vec![value.clone() * log_rate.clone(), -log_rate.exp(), -(value + 1.0).ln_gamma()])
    }

    fn log_power_integral(&self, power: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        let mode = parameters[0][0].exp().floor();
        let counts = Counts { density: self, parameters, mode, last: f64::INFINITY, ratio: 0.0 };
        log_power_sum(&counts, power, gradient)
    }

    fn draw(&self, [log_rate, ..]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = count_draw(log_rate[0], noise);
    }

    fn mean(&self, [log_rate, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![log_rate[0].exp()])
    }

    fn variance(&self, [log_rate, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![log_rate[0].exp()])
    }

    /// The plain formula for small counts; the saddle point evaluates large ones, for which the plain formula loses
    /// digits.
    fn batch(&self, batch: &mut Batch<'_>) -> Option<f64> {
        let [log_rate, ..] = batch.parameters;
        if !batch.serves(0) {
            return None;
        }
        let constant = log_factorials(batch.values)?;
        batch.value_gradient.fill(0.0);
        let total = poisson_log(log_rate, batch.values, batch.scale, batch.parameter_gradients[0], batch.events);
        for (event, count) in batch.events.iter_mut().zip(batch.values) {
            *event -= log_factorial(*count)?;
        }
        Some(total - constant)
    }

    tails!();
}

impl Poisson {
    fn log_tail(tail: Tail, value: f64, [log_rate, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let count = value.floor();
        if count < 0.0 {
            return tail.below();
        }
        let rate = log_rate[0].exp();
        let (log, _) = tail.other().shapes(&log_incomplete_gamma(count + 1.0, rate));
        gradient.add([0.0, -tail.rate(poisson_kernel(count, rate, log_rate[0]) + log_rate[0], log), 0.0, 0.0]);
        log
    }
}

/// The sum of $\log k!$ over counts; `None` where [`log_factorial`] has none.
fn log_factorials(counts: &[f64]) -> Option<f64> {
    counts.iter().map(|count| log_factorial(*count)).sum()
}

/// One Poisson count at any finite log rate.
pub(super) fn count_draw(log_rate: f64, noise: &mut NoiseStream) -> f64 {
    const NORMAL_FROM: f64 = 1e15;
    let rate = log_rate.exp().min(f64::MAX);
    if rate < f64::MIN_POSITIVE {
        0.0
    } else if rate < NORMAL_FROM {
        noise.poisson(rate)
    } else {
        (rate + rate.sqrt() * noise.standard_normal()).round().min(f64::MAX)
    }
}
