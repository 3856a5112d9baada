//! Computes the Rényi divergence of Gaussian noise on a Poisson sample of rows, by quadrature.

use std::f64::consts::PI;

/// The scale of noise below which a sample counts as all rows.
const LEAST_NOISE: f64 = 0.2;

/// The Rényi divergence of order `order` > 1 of one release with noise of scale `noise` times the clip, over a sample
/// that has each row with probability `rate`.
///
/// $$ R(\alpha) = \frac{1}{\alpha - 1} \log E_{z \sim N(0, \sigma^2)}
///    \big(1 - q + q\, e^{(2z - 1)/2\sigma^2}\big)^\alpha, $$
///
/// $\alpha$ = `order`, $q$ = `rate`, $\sigma$ = `noise`. For $q = 1$ it is $\alpha / 2\sigma^2$.
///
/// # Numerics
/// Below a scale of 0.2 it is taken for that of $q = 1$, which it is never above: one such release has an epsilon beyond 30 at
/// any usual delta, and points as close as such noise are too many. The trapezoidal rule converges geometrically for an integrand that is analytic in a
/// strip and falls off like a Gaussian: steps of σ/32 leave rounding alone. Compared with `dp-accounting` to ten digits.
///
/// # References
/// Mironov, Talwar and Zhang (2019), Rényi differential privacy of the sampled Gaussian mechanism.
pub(crate) fn divergence(order: f64, rate: f64, noise: f64) -> f64 {
    if rate >= 1.0 || noise < LEAST_NOISE {
        return order / (2.0 * noise * noise);
    }
    let (tail, step) = (14.0 * noise, noise / 32.0);
    let points = ((order + 2.0 * tail) / step).ceil() as usize;
    let log_integrand = |at: usize| {
        let z = at as f64 * step - tail;
        let ratio = (2.0 * z - 1.0) / (2.0 * noise * noise);
        // log(1 − q + q eʳ), without overflow for a large ratio.
        let mixture = match ratio > 0.0 {
            true => ratio + (rate + (1.0 - rate) * (-ratio).exp()).ln(),
            false => (rate * ratio.exp_m1()).ln_1p(),
        };
        order * mixture - z * z / (2.0 * noise * noise)
    };
    let largest = (0..=points).map(log_integrand).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = (0..=points).map(|at| (log_integrand(at) - largest).exp()).sum();
    let log_moment = largest + (sum * step / (noise * (2.0 * PI).sqrt())).ln();
    // The moment is at least 1 by Jensen's inequality: rounding alone takes it below.
    log_moment.max(0.0) / (order - 1.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_sample_says_no_more_than_all_rows_down_to_the_least_noise_and_counts_as_them_below() {
        for order in [1.5, 8.0, 64.0] {
            for noise in [super::LEAST_NOISE, 0.5, 1.0] {
                let (sample, all) = (super::divergence(order, 0.4, noise), super::divergence(order, 1.0, noise));
                assert!(sample <= all, "order {order}, noise {noise}: {sample} and {all}");
            }
            let [sample, all] = [0.4, 1.0].map(|rate| super::divergence(order, rate, 1e-9).to_bits());
            assert_eq!(sample, all);
        }
    }

    #[test]
    fn divergences_are_those_of_the_integral_with_thirty_digits() {
        let golden: serde_json::Value = serde_json::from_str(include_str!("../tests/golden/accounting.json")).unwrap();
        for of in golden["divergences"].as_array().unwrap() {
            let number = |name: &str| of[name].as_f64().unwrap();
            let found = super::divergence(number("order"), number("rate"), number("noise"));
            let expected = number("divergence");
            // Relative to the divergence, or to the rounding of a moment near one.
            assert!((found - expected).abs() < 1e-11 * expected + 1e-14, "{of}: {found}");
        }
    }
}
