//! Gives the Dirichlet distribution on the simplex.

use super::gamma::log_gamma_draw;
use super::{Density, Gradient, Term, distribution};
use crate::math::special::{digamma_difference, ln_gamma, log_sum_exp};
use crate::noise::NoiseStream;

distribution! {
    /// The Dirichlet distribution on vectors of positive numbers that sum to one.
    ///
    /// $$ \log p(x) = \log\Gamma\Big(\sum_i\alpha_i\Big) - \sum_i\log\Gamma(\alpha_i) + \sum_i(\alpha_i - 1)\log x_i $$
    /// with $\alpha$ = `concentration`, a vector of numbers > 0.
    ///
    /// # Shapes
    /// `concentration` `[..., categories]`, value `[..., categories]`.
    ///
    /// # Numerics
    /// Loses about $\log_{10}\sum_i\alpha_i$ digits in absolute terms, as the gamma functions cancel. The derivative by
    /// the value is that of the formula above, off the simplex too; a bijector to the simplex uses its tangential part
    /// only.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Density, Dirichlet, Gradient};
    /// let uniform = Dirichlet.log_prob(&[0.2, 0.3, 0.5], [&[1.0, 1.0, 1.0], &[], &[]], &mut Gradient::default());
    /// assert!((uniform - 2.0_f64.ln()).abs() < 1e-15);
    /// ```
    pub struct Dirichlet where |_| Support::Simplex, of vector(concentration in Positive);
}

impl Density for Dirichlet {
    fn event_rank(&self) -> usize {
        1
    }

    fn log_prob(&self, value: &[f64], [concentration, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let total: f64 = concentration.iter().sum();
        for (slot, (x, alpha)) in gradient.value.iter_mut().zip(value.iter().zip(concentration)) {
            *slot += gradient.scale * (alpha - 1.0) / x;
        }
        for (slot, (x, alpha)) in gradient.parameters[0].iter_mut().zip(value.iter().zip(concentration)) {
            *slot += gradient.scale * (x.ln() + digamma_difference(*alpha, total - alpha));
        }
        let sum: f64 =
            value.iter().zip(concentration).map(|(x, alpha)| (alpha - 1.0) * x.ln() - ln_gamma(*alpha)).sum();
        sum + ln_gamma(total)
    }

    fn on_device(&self, value: Term, [concentration, ..]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![
            (concentration.clone() - 1.0) * value.ln(),
            -concentration.clone().ln_gamma(),
            concentration.sum_columns().ln_gamma(),
        ])
    }

    fn log_power_integral(
        &self,
        power: f64,
        [concentration, ..]: [&[f64]; 3],
        gradient: &mut Gradient<'_>,
    ) -> Option<f64> {
        let own = |concentration: &f64| power * (concentration - 1.0) + 1.0;
        if concentration.iter().any(|concentration| own(concentration) <= 0.0) {
            return Some(f64::INFINITY);
        }
        let (total, own_total) = (concentration.iter().sum::<f64>(), concentration.iter().map(own).sum::<f64>());
        let mut log_integral = power * ln_gamma(total) - ln_gamma(own_total);
        for concentration in concentration {
            log_integral += ln_gamma(own(concentration)) - power * ln_gamma(*concentration);
        }
        for (slot, concentration) in gradient.parameters[0].iter_mut().zip(concentration) {
            let all = digamma_difference(*concentration, total - concentration);
            *slot +=
                gradient.scale * power * (all - digamma_difference(own(concentration), own_total - own(concentration)));
        }
        Some(log_integral)
    }

    fn draw(&self, [concentration, ..]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        for (slot, alpha) in out.iter_mut().zip(concentration) {
            *slot = log_gamma_draw(*alpha, noise);
        }
        let log_total = log_sum_exp(out);
        for slot in out {
            *slot = (*slot - log_total).exp().max(f64::MIN_POSITIVE);
        }
    }

    fn mean(&self, [concentration, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let total: f64 = concentration.iter().sum();
        Some(concentration.iter().map(|alpha| alpha / total).collect())
    }

    fn variance(&self, [concentration, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let total: f64 = concentration.iter().sum();
        Some(concentration.iter().map(|alpha| alpha / total * ((total - alpha) / total) / (total + 1.0)).collect())
    }
}
