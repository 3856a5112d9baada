//! Evaluates the densities that a picture of marginals compares, from moments or from draws.

use crate::engine::family::real;
use crate::engine::moments::mean_and_variance;
use crate::engine::report::summary::quantile;

/// A density over one quantity.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Density {
    /// The normal density with this mean and standard deviation.
    Normal {
        /// Its mean.
        mean: f64,
        /// Its standard deviation.
        sd: f64,
    },
    /// The density of the exponential of a normal number with this mean and standard deviation.
    LogNormal {
        /// The mean of the logarithm.
        mean: f64,
        /// The standard deviation of the logarithm.
        sd: f64,
    },
    /// What a Gaussian kernel makes of draws, with the bandwidth of Silverman's rule.
    ///
    /// # References
    /// Silverman (1986), Density estimation for statistics and data analysis, equation 3.31.
    Draws(Vec<f64>),
}

/// Half the width of the normal range that is drawn, in standard deviations: density 0.2 % of its peak.
const REACH: f64 = 3.5;

impl Density {
    /// Whether there is anything to draw: finite numbers with some spread.
    pub(in crate::engine::report) fn is_drawable(&self) -> bool {
        match self {
            Self::Normal { mean, sd } | Self::LogNormal { mean, sd } => mean.is_finite() && sd.is_finite() && *sd > 0.0,
            Self::Draws(draws) => {
                draws.iter().all(|draw| draw.is_finite()) && draws.iter().any(|draw| (draw - draws[0]).abs() > 0.0)
            }
        }
    }

    /// The range that holds nearly all of the mass.
    pub(in crate::engine::report) fn range(&self) -> (f64, f64) {
        match self {
            Self::Normal { mean, sd } => (mean - REACH * sd, mean + REACH * sd),
            Self::LogNormal { mean, sd } => ((mean - REACH * sd).exp(), (mean + REACH * sd).exp()),
            Self::Draws(draws) => {
                let sorted = sorted(draws);
                let margin = bandwidth(&sorted);
                (quantile(&sorted, 0.001) - margin, quantile(&sorted, 0.999) + margin)
            }
        }
    }

    /// The density at each of `places`.
    pub(in crate::engine::report) fn evaluate(&self, places: &[f64]) -> Vec<f64> {
        match self {
            Self::Normal { mean, sd } => places.iter().map(|x| normal((x - mean) / sd) / sd).collect(),
            Self::LogNormal { mean, sd } => {
                let of = |x: &f64| if *x > 0.0 { normal((x.ln() - mean) / sd) / (sd * x) } else { 0.0 };
                places.iter().map(of).collect()
            }
            Self::Draws(draws) => {
                let sorted = sorted(draws);
                let width = bandwidth(&sorted);
                places.iter().map(|&x| kernel_mean(&sorted, x, width)).collect()
            }
        }
    }
}

/// The standard normal density.
fn normal(z: f64) -> f64 {
    (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}

/// The mean of the kernels at `x`; those more than eight widths away add less than 1e-14 of a peak and are left out.
fn kernel_mean(sorted: &[f64], x: f64, width: f64) -> f64 {
    let from = sorted.partition_point(|&draw| draw < x - 8.0 * width);
    let to = sorted.partition_point(|&draw| draw <= x + 8.0 * width);
    let sum: f64 = sorted[from..to].iter().map(|draw| normal((x - draw) / width)).sum();
    sum / (real(sorted.len()) * width)
}

/// Silverman's rule, with the standard deviation alone where half the draws are equal.
fn bandwidth(sorted: &[f64]) -> f64 {
    let sd = mean_and_variance(sorted).1.sqrt();
    let quartiles = (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / 1.34;
    let spread = if quartiles > 0.0 { sd.min(quartiles) } else { sd };
    0.9 * spread * real(sorted.len()).powf(-0.2)
}

fn sorted(draws: &[f64]) -> Vec<f64> {
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2,001 draws at the quantiles of a logistic distribution, which has closed form.
    fn logistic() -> Vec<f64> {
        (1..=2001).map(|k| f64::from(k) / 2002.0).map(|u: f64| (u / (1.0 - u)).ln()).collect()
    }

    fn integral(density: &Density) -> f64 {
        let (low, high) = density.range();
        let step = (high - low) / 1_000.0;
        let places: Vec<f64> = (0..=1_000).map(|k| low + step * f64::from(k)).collect();
        density.evaluate(&places).iter().sum::<f64>() * step
    }

    #[test]
    fn densities_integrate_to_one_over_their_range() {
        let normal = Density::Normal { mean: -3.0, sd: 0.2 };
        // Mass beyond 3.5 standard deviations: 0.00047.
        assert!((integral(&normal) - 1.0).abs() < 1e-3, "{}", integral(&normal));
        let skewed = Density::LogNormal { mean: 1.0, sd: 0.5 };
        assert!((integral(&skewed) - 1.0).abs() < 1e-3, "{}", integral(&skewed));
        let draws = Density::Draws(logistic());
        // Mass beyond the 0.1 % quantiles on both sides: 0.002 and less.
        assert!((integral(&draws) - 1.0).abs() < 3e-3, "{}", integral(&draws));
    }

    #[test]
    fn the_kernel_estimate_is_near_the_density_the_draws_came_from() {
        // The logistic density is 1/4 at 0; the bias of a bandwidth of 0.3 is about f''/2 * 0.09 = 0.006.
        let estimate = Density::Draws(logistic()).evaluate(&[0.0]);
        assert!((estimate[0] - 0.25).abs() < 0.01, "{estimate:?}");
    }

    #[test]
    fn what_has_no_spread_is_not_drawable() {
        for density in [
            Density::Normal { mean: 0.0, sd: 0.0 },
            Density::Normal { mean: f64::NAN, sd: 1.0 },
            Density::Draws(vec![]),
            Density::Draws(vec![2.0, 2.0]),
            Density::Draws(vec![0.0, f64::INFINITY]),
        ] {
            assert!(!density.is_drawable(), "{density:?}");
        }
    }
}
