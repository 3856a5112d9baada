//! Gives the Wishart distribution of covariance matrices by their Cholesky factors.

use super::{Density, Gradient, distribution};
use crate::math::special::{HALF_LOG_TWO_PI, digamma, ln_gamma, ln_gamma_difference};
use crate::noise::NoiseStream;

use std::f64::consts::LN_2;

distribution! {
    /// The Wishart distribution of a matrix $\Sigma = LL^\top$ of order $k$, by its lower Cholesky factor $L$.
    ///
    /// $$ \log p(L) = \sum_{i=1}^{k}\Big((\nu - i)\log A_{ii} - \tfrac{\nu-i-1}{2}\log 2
    ///    - \log\Gamma\big(\tfrac{\nu-i+1}{2}\big) - i\log S_{ii} - \tfrac{i-1}{2}\log 2\pi\Big)
    ///    - \tfrac12\sum_{i\ge j} A_{ij}^2,\qquad L = S A $$
    /// with $\nu$ = `degrees_of_freedom` > k - 1 and $S$ = `scale_tril`: a density of the lower triangle of $L$, under
    /// which $\Sigma$ has the Wishart distribution with mean $\nu SS^\top$. `wishart_cholesky(ν, S)` of Stan.
    ///
    /// # Shapes
    /// `degrees_of_freedom`: one number; `scale_tril` `[k, k]`; value `[k, k]`.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Density, Gradient, WishartCholesky};
    /// // Of order 1, with one degree of freedom, L is half-normal.
    /// let log_prob = WishartCholesky.log_prob(&[0.5], [&[1.0], &[1.0], &[]], &mut Gradient::default());
    /// assert!((log_prob - (2.0_f64.ln() - 0.125 - 0.918_938_533_204_672_8)).abs() < 1e-14);
    /// ```
    ///
    /// # References
    /// Bartlett (1933), *On the theory of statistical regression*, for the factor $A$.
    pub struct WishartCholesky where |_| Support::CovarianceCholesky,
        of number(degrees_of_freedom in Positive), matrix(scale_tril in CholeskyFactor);
}

impl Density for WishartCholesky {
    fn event_rank(&self) -> usize {
        2
    }

    fn conflict(&self, [degrees, scale_tril, _]: [&[f64]; 3]) -> Option<(&'static str, f64, &'static str)> {
        let order = scale_tril.len().isqrt() as f64;
        (degrees[0] <= order - 1.0).then_some(("degrees_of_freedom", degrees[0], "a number above the order minus 1"))
    }

    fn log_prob(&self, value: &[f64], [degrees, scale_tril, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (order, degrees) = (value.len().isqrt(), degrees[0]);
        let a = solved(scale_tril, value, order);
        let (mut log_prob, mut by_degrees) = (0.0, 0.0);
        for i in 0..order {
            let (place, before) = (i * order + i, i as f64);
            let (log, half) = (a[place].ln(), 0.5 * (degrees - before));
            let square: f64 = a[i * order..=place].iter().map(|a| a * a).sum();
            log_prob += (degrees - before - 1.0) * log + (1.0 - half) * LN_2 - ln_gamma(half) - 0.5 * square;
            log_prob -= (before + 1.0) * scale_tril[place].ln() + before * HALF_LOG_TWO_PI;
            by_degrees += log - 0.5 * LN_2 - 0.5 * digamma(half);
        }
        if gradient.is_wanted() {
            add_gradient(&a, scale_tril, degrees, gradient);
        }
        if let [slot] = &mut *gradient.parameters[0] {
            *slot += gradient.scale * by_degrees;
        }
        log_prob
    }

    /// Bartlett's decomposition.
    fn draw(&self, [degrees, scale_tril, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let order = out.len().isqrt();
        let mut a = vec![0.0; out.len()];
        for i in 0..order {
            noise.normal(&mut a[i * order..i * order + i]);
            a[i * order + i] = (2.0 * noise.gamma(0.5 * (degrees[0] - i as f64))).sqrt().max(f64::MIN_POSITIVE);
        }
        for (place, slot) in out.iter_mut().enumerate() {
            let (i, j) = (place / order, place % order);
            *slot = (j..=i).map(|l| scale_tril[i * order + l] * a[l * order + j]).sum();
        }
    }

    fn mean(&self, [degrees, scale_tril, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let order = scale_tril.len().isqrt();
        let entry = |place: usize| {
            if place % order <= place / order { scale_tril[place] * chi(degrees[0], place % order) } else { 0.0 }
        };
        Some((0..scale_tril.len()).map(entry).collect())
    }

    fn variance(&self, [degrees, scale_tril, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let order = scale_tril.len().isqrt();
        let entry = |place: usize| {
            let (i, j) = (place / order, place % order);
            let of = |l: usize| if l == j { degrees[0] - j as f64 - chi(degrees[0], j).powi(2) } else { 1.0 };
            (j..=i).map(|l| scale_tril[i * order + l].powi(2) * of(l)).sum()
        };
        Some((0..scale_tril.len()).map(entry).collect())
    }
}

/// The mean of the diagonal entry `row` of Bartlett's factor, a number of a chi distribution.
fn chi(degrees: f64, row: usize) -> f64 {
    0.5_f64.mul_add(LN_2, ln_gamma_difference(0.5 * (degrees - row as f64), 0.5)).exp()
}

/// $A = S^{-1}L$, lower triangular.
fn solved(scale_tril: &[f64], value: &[f64], order: usize) -> Vec<f64> {
    let mut a = vec![0.0; value.len()];
    for i in 0..order {
        for j in 0..=i {
            let known: f64 = (j..i).map(|l| scale_tril[i * order + l] * a[l * order + j]).sum();
            a[i * order + j] = (value[i * order + j] - known) / scale_tril[i * order + i];
        }
    }
    a
}

/// With $G = \partial\log p/\partial A$ and $W = S^{-\top}G$: $W$ by $L$ and
/// $-WA^\top - \operatorname{diag}(i/S_{ii})$ by $S$, both on the lower triangle.
fn add_gradient(a: &[f64], scale_tril: &[f64], degrees: f64, gradient: &mut Gradient<'_>) {
    let order = a.len().isqrt();
    let mut w: Vec<f64> = a.iter().map(|a| -a).collect();
    for i in 0..order {
        w[i * order + i] += (degrees - i as f64 - 1.0) / a[i * order + i];
    }
    for i in (0..order).rev() {
        for j in 0..order {
            w[i * order + j] /= scale_tril[i * order + i];
            for l in 0..i {
                w[l * order + j] -= scale_tril[i * order + l] * w[i * order + j];
            }
        }
    }
    for i in 0..order {
        for j in 0..=i {
            let place = i * order + j;
            if let Some(slot) = gradient.value.get_mut(place) {
                *slot += gradient.scale * w[place];
            }
            if let Some(slot) = gradient.parameters[1].get_mut(place) {
                let product: f64 = (0..=j).map(|l| w[i * order + l] * a[j * order + l]).sum();
                let own = if i == j { (i as f64 + 1.0) / scale_tril[place] } else { 0.0 };
                *slot -= gradient.scale * (product + own);
            }
        }
    }
}
