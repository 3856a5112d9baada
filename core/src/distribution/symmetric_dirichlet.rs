//! Gives the Dirichlet distribution with one concentration for all categories, as in priors of topics.

use super::gamma::log_gamma_draw;
use super::{Density, Gradient, Term, distribution};
use crate::math::special::{digamma_difference, ln_gamma, log_sum_exp};
use crate::noise::NoiseStream;

distribution! {
    /// The Dirichlet distribution on vectors of $n$ positive numbers that sum to one, with one concentration for all.
    ///
    /// $$ \log p(x) = \log\Gamma(n\beta) - n\log\Gamma(\beta) + (\beta - 1)\sum_i\log x_i $$
    /// with $\beta$ = `concentration` > 0.
    ///
    /// It is [`super::Dirichlet`] at equal concentrations, for two gamma functions an event instead of $n$.
    ///
    /// # Shapes
    /// `concentration`: one number; value `[..., categories]`.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Density, Dirichlet, Gradient, SymmetricDirichlet};
    /// let value = [0.2, 0.3, 0.5];
    /// let own = SymmetricDirichlet.log_prob(&value, [&[0.7], &[], &[]], &mut Gradient::default());
    /// let general = Dirichlet.log_prob(&value, [&[0.7; 3], &[], &[]], &mut Gradient::default());
    /// assert!((own - general).abs() < 1e-14);
    /// ```
    pub struct SymmetricDirichlet where |_| Support::Simplex, of number(concentration in Positive);
}

impl Density for SymmetricDirichlet {
    fn event_rank(&self) -> usize {
        1
    }

    fn log_prob(&self, value: &[f64], [concentration, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (beta, count) = (concentration[0], count(value));
        let logs: f64 = value.iter().map(|x| x.ln()).sum();
        for (slot, x) in gradient.value.iter_mut().zip(value) {
            *slot += gradient.scale * (beta - 1.0) / x;
        }
        if let [slot] = &mut *gradient.parameters[0] {
            *slot += gradient.scale * (logs + count * digamma_difference(beta, (count - 1.0) * beta));
        }
        ln_gamma(count * beta) - count * ln_gamma(beta) + (beta - 1.0) * logs
    }

    fn on_device(&self, value: Term, [concentration, ..]: [Term; 3]) -> Option<Vec<Term>> {
        let Term::Tensor(x) = &value else { return None };
        let count = x.dims()[1] as f64;
        Some(vec![
            (concentration.clone() * count).ln_gamma(),
            concentration.clone().ln_gamma() * -count,
            (concentration - 1.0) * value.ln(),
        ])
    }

    fn draw(&self, [concentration, ..]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        for slot in &mut *out {
            *slot = log_gamma_draw(concentration[0], noise);
        }
        let log_total = log_sum_exp(out);
        for slot in out {
            *slot = (*slot - log_total).exp().max(f64::MIN_POSITIVE);
        }
    }
}

fn count(value: &[f64]) -> f64 {
    value.len() as f64
}
