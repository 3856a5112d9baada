//! Computes reference posteriors of the clutter problem: by a grid, expectation propagation and quadrature.

use super::{Clutter, HALF_LOG_TWO_PI};

/// A posterior of the signal's mean by its moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClutterPosterior {
    /// Its mean.
    pub mean: f64,
    /// Its variance.
    pub variance: f64,
}

/// The tolerance of a sweep: the change of a mean in standard deviations, or the relative change of a variance.
const SETTLED: f64 = 1e-12;
/// The most sweeps of an iteration.
const SWEEPS: usize = 10_000;

impl Clutter {
    /// The moments of the exact posterior, by the trapezoidal rule over ten prior standard deviations to each side.
    #[must_use]
    pub fn exact(&self, x: &[f64]) -> ClutterPosterior {
        const POINTS: i32 = 2_000;
        let (centre, sd) = (self.settings.prior_mean, self.settings.prior_sd);
        let points = (-POINTS..=POINTS).map(|k| centre + 10.0 * sd * f64::from(k) / f64::from(POINTS));
        let log_density = |theta: f64| {
            let prior = -0.5 * ((theta - centre) / sd).powi(2);
            prior + x.iter().map(|x| self.log_likelihood(theta, *x)[0]).sum::<f64>()
        };
        let points: Vec<(f64, f64)> = points.map(|theta| (theta, log_density(theta))).collect();
        let largest = points.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
        let sum =
            |of: &dyn Fn(f64) -> f64| points.iter().map(|(theta, log)| of(*theta) * (log - largest).exp()).sum::<f64>();
        let total = sum(&|_| 1.0);
        let mean = sum(&|theta| theta) / total;
        ClutterPosterior { mean, variance: sum(&|theta| (theta - mean).powi(2)) / total }
    }

    /// Expectation propagation with a factor for each number and moments matched in closed form; `None` if a cavity is
    /// not a density or 10,000 sweeps do not converge.
    ///
    /// With the cavity $N(m, v)$ and $r$ the probability under it that $x$ is signal, the moments to match are
    /// ```math
    /// m + \frac{r v (x - m)}{v + \sigma^2}, \qquad
    /// v - \frac{r v^2}{v + \sigma^2} + r(1 - r)\Bigl(\frac{v (x - m)}{v + \sigma^2}\Bigr)^2.
    /// ```
    ///
    /// # References
    /// Minka (2001), equations 41 to 46.
    #[must_use]
    pub fn expectation_propagation(&self, x: &[f64]) -> Option<ClutterPosterior> {
        self.by_factors(x, |cavity, x| {
            let own = self.settings;
            let spread = cavity.variance + own.signal_sd.powi(2);
            let log_signal = (1.0 - own.noise_weight).ln() + log_normal(x, cavity.mean, spread.sqrt());
            let log_noise = own.noise_weight.ln() + log_normal(x, own.noise_mean, own.noise_sd);
            let signal = 1.0 / (1.0 + (log_noise - log_signal).exp());
            let step = cavity.variance * (x - cavity.mean) / spread;
            let variance =
                cavity.variance - signal * cavity.variance.powi(2) / spread + signal * (1.0 - signal) * step * step;
            Some(ClutterPosterior { mean: cavity.mean + signal * step, variance })
        })
    }

    /// The normal density that minimises $`\mathrm{KL}(q\,\|\,p)`$ to the posterior, started from the exact moments;
    /// `None` if the iteration does not converge.
    #[must_use]
    pub fn variational(&self, x: &[f64]) -> Option<ClutterPosterior> {
        let prior = ClutterPosterior { mean: self.settings.prior_mean, variance: self.settings.prior_sd.powi(2) };
        self.tilted(prior, x, self.exact(x))
    }

    /// Partitioned variational inference with a silo for each number, every local problem solved exactly; `None` as for
    /// [`Clutter::expectation_propagation`].
    #[must_use]
    pub fn partitioned(&self, x: &[f64]) -> Option<ClutterPosterior> {
        self.by_factors(x, |cavity, x| self.tilted(cavity, &[x], cavity))
    }

    /// Sweeps over numbers with a factor each: removes it from the posterior, and replaces it by the result of `solve`
    /// with the rest.
    fn by_factors(
        &self,
        x: &[f64],
        solve: impl Fn(ClutterPosterior, f64) -> Option<ClutterPosterior>,
    ) -> Option<ClutterPosterior> {
        // Precision, and precision times mean.
        let precision = self.settings.prior_sd.powi(-2);
        let mut posterior = [precision, precision * self.settings.prior_mean];
        let mut factors = vec![[0.0; 2]; x.len()];
        for _ in 0..SWEEPS {
            let before = moments(posterior);
            for (factor, x) in factors.iter_mut().zip(x) {
                let cavity = [posterior[0] - factor[0], posterior[1] - factor[1]];
                if cavity[0] <= 0.0 {
                    return None;
                }
                let found = solve(moments(cavity), *x)?;
                posterior = [1.0 / found.variance, found.mean / found.variance];
                *factor = [posterior[0] - cavity[0], posterior[1] - cavity[1]];
            }
            if settled(before, moments(posterior)) {
                return Some(moments(posterior));
            }
        }
        None
    }

    /// The normal density $`q`$ that minimises $`\mathrm{KL}(q\,\|\,\cdot)`$ to `prior` times the likelihood of `x`.
    ///
    /// Its precision is that of the prior less $`\mathrm{E}_q`$ of the second derivative of the log likelihood, and its
    /// mean is where the expected gradients cancel (Opper and Archambeau, 2009). Each step is halved.
    fn tilted(&self, prior: ClutterPosterior, x: &[f64], start: ClutterPosterior) -> Option<ClutterPosterior> {
        let mut q = start;
        for _ in 0..SWEEPS {
            let (mut slope, mut curvature) = (0.0, 0.0);
            for x in x {
                let [first, second] = self.expected_derivatives(q, *x);
                slope += first;
                curvature += second;
            }
            let precision = 0.5 / q.variance + 0.5 * (1.0 / prior.variance - curvature);
            if precision.is_nan() || precision <= 0.0 {
                return None;
            }
            let slope = slope - (q.mean - prior.mean) / prior.variance;
            let next = ClutterPosterior { mean: q.mean + 0.5 * slope / precision, variance: 1.0 / precision };
            if settled(q, next) {
                return Some(next);
            }
            q = next;
        }
        None
    }

    /// $`\mathrm{E}_q`$ of the first and the second derivative of the log likelihood by the signal's mean.
    fn expected_derivatives(&self, q: ClutterPosterior, x: f64) -> [f64; 2] {
        // The trapezoidal rule with steps of a sixth of a standard deviation, exact to rounding for such smooth
        // integrands.
        const POINTS: i32 = 54;
        let (mut sums, mut total) = ([0.0; 2], 0.0);
        for z in (-POINTS..=POINTS).map(|k| f64::from(k) / 6.0) {
            let weight = (-0.5 * z * z).exp();
            let [_, first, second] = self.log_likelihood(q.mean + q.variance.sqrt() * z, x);
            total += weight;
            sums[0] += weight * first;
            sums[1] += weight * second;
        }
        sums.map(|sum| sum / total)
    }

    /// The log likelihood of one number and its first two derivatives by the signal's mean.
    fn log_likelihood(&self, theta: f64, x: f64) -> [f64; 3] {
        let own = self.settings;
        let log_signal = (1.0 - own.noise_weight).ln() + log_normal(x, theta, own.signal_sd);
        let log_noise = own.noise_weight.ln() + log_normal(x, own.noise_mean, own.noise_sd);
        let largest = log_signal.max(log_noise);
        let log_sum = largest + ((log_signal - largest).exp() + (log_noise - largest).exp()).ln();
        let signal = (log_signal - log_sum).exp();
        let pull = (x - theta) / own.signal_sd.powi(2);
        [log_sum, signal * pull, signal * (1.0 - signal) * pull * pull - signal / own.signal_sd.powi(2)]
    }
}

fn log_normal(x: f64, mean: f64, sd: f64) -> f64 {
    -0.5 * ((x - mean) / sd).powi(2) - sd.ln() - HALF_LOG_TWO_PI
}

fn moments([precision, weighted]: [f64; 2]) -> ClutterPosterior {
    ClutterPosterior { mean: weighted / precision, variance: 1.0 / precision }
}

fn settled(before: ClutterPosterior, after: ClutterPosterior) -> bool {
    (after.mean - before.mean).abs() <= SETTLED * after.variance.sqrt()
        && (after.variance / before.variance - 1.0).abs() <= SETTLED
}

#[cfg(test)]
mod tests {
    use partita::core::{Key, Noise, Purpose};

    use super::*;
    use crate::ClutterSettings;

    fn numbers(settings: ClutterSettings, signal: f64, seed: u64) -> (Clutter, Vec<f64>) {
        let clutter = Clutter::new(settings);
        let x = clutter.draw(signal, 40, &mut Noise::new(seed).stream(Key::new(Purpose::Check, 0)));
        (clutter, x)
    }

    #[test]
    fn without_clutter_every_method_is_exact() {
        let (clutter, x) = numbers(ClutterSettings { noise_weight: 0.0, ..ClutterSettings::near() }, 2.0, 1);
        let variance = 1.0 / (40.0 + 0.1);
        let mean = variance * x.iter().sum::<f64>();
        let found = [
            clutter.exact(&x),
            clutter.expectation_propagation(&x).unwrap(),
            clutter.variational(&x).unwrap(),
            clutter.partitioned(&x).unwrap(),
        ];
        for found in found {
            assert!((found.mean - mean).abs() < 1e-11 && (found.variance / variance - 1.0).abs() < 1e-11, "{found:?}");
        }
    }

    #[test]
    fn partitioned_inference_with_a_silo_for_each_number_is_variational_inference() {
        for (settings, signal) in [(ClutterSettings::near(), 2.0), (ClutterSettings::far(), 4.0)] {
            for seed in 1..=10 {
                let (clutter, x) = numbers(settings, signal, seed);
                let (whole, parts) = (clutter.variational(&x).unwrap(), clutter.partitioned(&x).unwrap());
                // The book requires 1e-5 standard deviations.
                assert!((whole.mean - parts.mean).abs() < 1e-8 * whole.variance.sqrt(), "{whole:?} {parts:?}");
                assert!((whole.variance / parts.variance - 1.0).abs() < 1e-8, "{whole:?} {parts:?}");
            }
        }
    }

    #[test]
    fn expectation_propagation_and_variational_inference_are_close_to_the_exact_posterior() {
        for (settings, signal) in [(ClutterSettings::near(), 2.0), (ClutterSettings::far(), 4.0)] {
            for seed in 1..=40 {
                let (clutter, x) = numbers(settings, signal, seed);
                let exact = clutter.exact(&x);
                for found in [clutter.expectation_propagation(&x).unwrap(), clutter.variational(&x).unwrap()] {
                    let mean = (found.mean - exact.mean).abs() / exact.variance.sqrt();
                    let variance = (found.variance / exact.variance - 1.0).abs();
                    assert!(mean < 0.01 && variance < 0.03, "{seed}: {exact:?} {found:?}");
                }
            }
        }
    }
}
