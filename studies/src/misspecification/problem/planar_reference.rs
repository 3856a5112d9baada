//! Computes posteriors of the clutter problem in the plane without the framework: on a grid.

use super::planar::{PlanarClutter, PlanarCovariance, Whitening};

/// A posterior of the signal's mean in the plane by its moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanarPosterior {
    /// Its mean.
    pub mean: [f64; 2],
    /// Its covariance.
    pub covariance: PlanarCovariance,
}

impl PlanarClutter {
    /// The moments of the exact posterior, by the trapezoidal rule in both directions over two grids. The first reaches
    /// eight prior standard deviations to each side. The second reaches ten of the posterior standard deviations found
    /// by the first, in steps of an eighth of one.
    ///
    /// The second is exact to rounding for smooth densities, apart from the mass outside. The first needs a posterior
    /// whose standard deviations are at least a tenth of the prior's.
    #[must_use]
    pub fn exact(&self, x: &[[f64; 2]]) -> PlanarPosterior {
        let wide = self.on_grid(x, [0.0; 2], [8.0 * self.settings.prior_sd; 2]);
        self.on_grid(x, wide.mean, [0, 1].map(|axis| 10.0 * wide.covariance[axis][axis].sqrt()))
    }

    /// Moments over a grid of this centre and half widths.
    fn on_grid(&self, x: &[[f64; 2]], centre: [f64; 2], reach: [f64; 2]) -> PlanarPosterior {
        const POINTS: i32 = 80;
        let along = |axis: usize| {
            (-POINTS..=POINTS).map(move |k| centre[axis] + reach[axis] * f64::from(k) / f64::from(POINTS))
        };
        let density = self.log_density(x);
        let points: Vec<([f64; 2], f64)> = along(0)
            .flat_map(|first| along(1).map(move |second| [first, second]))
            .map(|theta| (theta, density(theta)))
            .collect();
        let largest = points.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
        let sum = |of: &dyn Fn([f64; 2]) -> f64| {
            points.iter().map(|(theta, log)| of(*theta) * (log - largest).exp()).sum::<f64>()
        };
        let total = sum(&|_| 1.0);
        let mean = [0, 1].map(|axis| sum(&|theta| theta[axis]) / total);
        let cell = |i: usize, j: usize| sum(&|theta| (theta[i] - mean[i]) * (theta[j] - mean[j])) / total;
        PlanarPosterior { mean, covariance: [0, 1].map(|i| [0, 1].map(|j| cell(i, j))) }
    }

    /// The log density of the posterior, up to a constant.
    fn log_density(&self, x: &[[f64; 2]]) -> impl Fn([f64; 2]) -> f64 {
        let own = self.settings;
        let square = |of: Whitening, deviation: [f64; 2]| {
            let first = deviation[0] / of.first;
            first.powi(2) + ((deviation[1] - of.slope * first) / of.second).powi(2)
        };
        let (signal, noise) = (Whitening::new(own.signal_covariance), Whitening::new(own.noise_covariance));
        // Each point's density under the noise does not depend on the signal.
        let from = |x: &[f64; 2], centre: [f64; 2]| [x[0] - centre[0], x[1] - centre[1]];
        let as_noise =
            |x: &[f64; 2]| own.noise_weight * (noise.log_peak() - 0.5 * square(noise, from(x, own.noise_mean))).exp();
        let points: Vec<([f64; 2], f64)> = x.iter().map(|x| (*x, as_noise(x))).collect();
        let peak = (1.0 - own.noise_weight) * signal.log_peak().exp();
        move |theta| {
            let prior = [0, 1].map(|axis| (theta[axis] / own.prior_sd).powi(2));
            let one = |(x, as_noise): &([f64; 2], f64)| {
                let log_signal = -0.5 * square(signal, from(x, theta));
                // Far from the signal and without noise the density itself would underflow to zero.
                if *as_noise > 0.0 { (peak * log_signal.exp() + as_noise).ln() } else { peak.ln() + log_signal }
            };
            -0.5 * (prior[0] + prior[1]) + points.iter().map(one).sum::<f64>()
        }
    }
}

#[cfg(test)]
mod tests {
    use partita::core::{Key, Noise, Purpose};

    use super::super::PlanarClutterSettings;
    use super::*;

    fn points(settings: PlanarClutterSettings, count: usize) -> (PlanarClutter, Vec<[f64; 2]>) {
        let clutter = PlanarClutter::new(settings);
        let x = clutter.draw([1.5, 2.5], count, &mut Noise::new(3).stream(Key::new(Purpose::Check, 0)));
        (clutter, x)
    }

    #[test]
    fn without_clutter_the_grid_finds_the_conjugate_posterior_of_a_correlated_signal() {
        let signal_covariance = [[3.0, 2.5], [2.5, 3.0]];
        let settings =
            PlanarClutterSettings { noise_weight: 0.0, signal_covariance, ..PlanarClutterSettings::isotropic() };
        let (clutter, x) = points(settings, 50);
        // The eigenvectors of the signal's covariance are the diagonals, with the eigenvalues 5.5 and 0.5.
        let variances = [5.5_f64, 0.5].map(|eigenvalue| 1.0 / (50.0 / eigenvalue + 0.1));
        let sums = [x.iter().map(|x| x[0] + x[1]).sum::<f64>(), x.iter().map(|x| x[0] - x[1]).sum::<f64>()];
        let along = [variances[0] * sums[0] / 5.5, variances[1] * sums[1] / 0.5];
        let found = clutter.exact(&x);
        for axis in 0..2 {
            let sign = if axis == 0 { 1.0 } else { -1.0 };
            let mean = 0.5 * (along[0] + sign * along[1]);
            assert!((found.mean[axis] - mean).abs() < 1e-11, "{found:?} against {mean}");
            assert!((found.covariance[axis][axis] - 0.5 * (variances[0] + variances[1])).abs() < 1e-12, "{found:?}");
        }
        assert!((found.covariance[0][1] - 0.5 * (variances[0] - variances[1])).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn what_is_drawn_has_the_moments_of_the_mixture() {
        let settings = PlanarClutterSettings {
            signal_covariance: [[3.0, 2.5], [2.5, 3.0]],
            noise_covariance: [[2.5, -1.8], [-1.8, 2.0]],
            noise_weight: 0.35,
            ..PlanarClutterSettings::isotropic()
        };
        let (_, x) = points(settings, 40_000);
        let mean = |of: &dyn Fn(&[f64; 2]) -> f64| x.iter().map(of).sum::<f64>() / 40_000.0;
        // 0.65 of (1.5, 2.5) and 0.35 of (1, 1); covariances within, and 0.65 * 0.35 times (0.5, 1.5) between.
        let expected = [1.325, 1.975];
        let cell = 0.65 * 2.5 - 0.35 * 1.8 + 0.2275 * 0.75;
        // Five standard errors: standard deviations of at most 1.9, and of at most 6 for products.
        (0..2).for_each(|axis| assert!((mean(&|x| x[axis]) - expected[axis]).abs() < 5.0 * 1.9 / 200.0));
        let product = mean(&|x| (x[0] - expected[0]) * (x[1] - expected[1]));
        assert!((product - cell).abs() < 5.0 * 6.0 / 200.0, "{product} against {cell}");
    }
}
