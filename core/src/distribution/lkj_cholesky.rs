//! Gives the LKJ distribution of correlation matrices by their Cholesky factors.

use super::gamma::log_gamma_draw;
use super::{Density, Gradient, distribution};
use crate::math::special::{digamma, ln_gamma, sigmoid};
use crate::noise::NoiseStream;

use std::f64::consts::PI;

distribution! {
    /// The LKJ distribution of a correlation matrix $\Omega = LL^\top$ of order $K$, by its lower Cholesky factor $L$.
    ///
    /// $$ \log p(L) = \sum_{i=2}^{K}(K - i + 2\eta - 2)\log L_{ii} - \log c_K(\eta),\qquad
    ///    \log c_K(\eta) = \sum_{j=1}^{K-1}\Big(\tfrac{j}{2}\log\pi + \log\Gamma\big(\eta + \tfrac{K-1-j}{2}\big)
    ///    - \log\Gamma\big(\eta + \tfrac{K-1}{2}\big)\Big) $$
    /// with $\eta$ = `concentration` > 0: a density of the entries below the diagonal, under which $\Omega$ has a
    /// density proportional to $\det(\Omega)^{\eta-1}$. `lkj_corr_cholesky(η)` of Stan. Each correlation is $2b - 1$ with $b$
    /// of a beta distribution whose concentrations are both $\eta - 1 + K/2$.
    ///
    /// # Shapes
    /// `concentration`: one number; value `[..., K, K]`.
    ///
    /// # Numerics
    /// The derivative by the value is that of the formula: it has entries on the diagonal alone.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Density, Gradient, LkjCholesky};
    /// // Of order 2 with concentration 1 the correlation is uniform on (-1, 1).
    /// let factor = [1.0, 0.0, 0.6, 0.8];
    /// let log_prob = LkjCholesky.log_prob(&factor, [&[1.0], &[], &[]], &mut Gradient::default());
    /// assert!((log_prob + 2.0_f64.ln()).abs() < 1e-14);
    /// ```
    ///
    /// # References
    /// Lewandowski, Kurowicka and Joe (2009), *Generating random correlation matrices based on vines and extended onion
    /// method*.
    pub struct LkjCholesky where |_| Support::CorrelationCholesky, of number(concentration in Positive);
}

impl Density for LkjCholesky {
    fn event_rank(&self) -> usize {
        2
    }

    fn log_prob(&self, value: &[f64], [concentration, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (order, concentration) = (value.len().isqrt(), concentration[0]);
        let power = |row: usize| (order - 1 - row) as f64 + 2.0 * (concentration - 1.0);
        let (mut log_prob, mut logs) = (0.0, 0.0);
        for row in 1..order {
            let place = row * order + row;
            let log = value[place].ln();
            log_prob += power(row) * log;
            logs += log;
            if let Some(slot) = gradient.value.get_mut(place) {
                *slot += gradient.scale * power(row) / value[place];
            }
        }
        let most = concentration + 0.5 * (order as f64 - 1.0);
        let shapes = (1..order).map(|j| (0.5 * j as f64, most - 0.5 * j as f64));
        if let [slot] = &mut *gradient.parameters[0] {
            let whole = digamma(most);
            let by_constant: f64 = shapes.clone().map(|(_, shape)| digamma(shape) - whole).sum();
            *slot += gradient.scale * (2.0 * logs - by_constant);
        }
        let whole = ln_gamma(most);
        log_prob - shapes.map(|(half, shape)| half * PI.ln() + ln_gamma(shape) - whole).sum::<f64>()
    }

    /// Row by row: the squared length left of the diagonal has a beta distribution, the direction is uniform.
    fn draw(&self, [concentration, ..]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let order = out.len().isqrt();
        for (row, numbers) in out.chunks_exact_mut(order.max(1)).enumerate() {
            numbers[row..].fill(0.0);
            if row == 0 {
                numbers[0] = 1.0;
                continue;
            }
            let below = concentration[0] + 0.5 * (order - 1 - row) as f64;
            let log_odds = log_gamma_draw(0.5 * row as f64, noise) - log_gamma_draw(below, noise);
            noise.normal(&mut numbers[..row]);
            let length = numbers[..row].iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
            let factor = sigmoid(log_odds).sqrt() / length;
            numbers[..row].iter_mut().for_each(|x| *x *= factor);
            numbers[row] = sigmoid(-log_odds).sqrt().max(f64::MIN_POSITIVE);
        }
    }
}
