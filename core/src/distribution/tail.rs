//! Gives the two tails of univariate densities one form: a logarithm, and its derivatives through a standard variable.

use super::Gradient;
use crate::math::special::{LogTails, log_normal_cumulative, log_one_minus_exp, normal_hazard};

/// One of the two tails of a distribution function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// $F(x)$.
    Lower,
    /// $1 - F(x)$.
    Upper,
}

impl Tail {
    /// 1 for the lower tail, which grows with the value; -1 for the upper one.
    pub(super) fn sign(self) -> f64 {
        match self {
            Self::Lower => 1.0,
            Self::Upper => -1.0,
        }
    }

    /// The one of two numbers that belongs to this tail.
    pub(super) fn of<T>(self, lower: T, upper: T) -> T {
        match self {
            Self::Lower => lower,
            Self::Upper => upper,
        }
    }

    /// The logarithm where the distribution function is zero.
    pub(super) fn below(self) -> f64 {
        self.of(f64::NEG_INFINITY, 0.0)
    }

    /// The logarithm where the distribution function is one.
    pub(super) fn above(self) -> f64 {
        self.of(0.0, f64::NEG_INFINITY)
    }

    /// The logarithm at an infinite value.
    pub(super) fn beyond(self, value: f64) -> Option<f64> {
        value.is_infinite().then(|| if value > 0.0 { self.above() } else { self.below() })
    }

    /// The logarithm of this tail, given both; from the other one where this one is close to one.
    pub(super) fn log(self, lower: f64, upper: f64) -> f64 {
        let (own, other) = self.of((lower, upper), (upper, lower));
        if own < 0.5 { own.ln() } else { (-other).ln_1p() }
    }

    pub(super) fn other(self) -> Self {
        self.of(Self::Upper, Self::Lower)
    }

    /// The derivative of the logarithm `log_tail` by the value, given the log density there.
    pub(super) fn rate(self, log_density: f64, log_tail: f64) -> f64 {
        if log_tail > f64::NEG_INFINITY { self.sign() * (log_density - log_tail).exp() } else { 0.0 }
    }

    /// The logarithm and the derivatives by the two shapes of an incomplete gamma or beta function.
    pub(super) fn shapes(self, tails: &LogTails) -> (f64, [f64; 2]) {
        self.of((tails.lower, tails.lower_by), (tails.upper, tails.upper_by))
    }

    /// The logarithm of this tail of the standard normal distribution and its derivative.
    pub(super) fn normal(self, z: f64) -> (f64, f64) {
        let z = self.sign() * z;
        (log_normal_cumulative(z), self.sign() * normal_hazard(z))
    }

    /// The logarithm of this tail of the standard exponential distribution and its derivative by $\log t$, at $t$ with
    /// the logarithm `log`.
    pub(super) fn exponential(self, t: f64, log: f64) -> (f64, f64) {
        match self {
            Self::Upper => (-t, -t),
            // Below, 1 - e^-t is t (1 - t/2) to the last digit.
            Self::Lower if t < 1e-8 => (log - 0.5 * t, 1.0 - 0.5 * t),
            Self::Lower => (log_one_minus_exp(-t), if t < 700.0 { t / t.exp_m1() } else { 0.0 }),
        }
    }
}

/// A standardised value of a location-scale distribution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standard {
    pub(super) z: f64,
    pub(super) scale: f64,
}

impl Standard {
    /// The derivatives of a tail by value, location and scale, given that by $z$; zero where the tail is flat.
    pub(super) fn partials(self, rate: f64) -> [f64; 3] {
        if rate.abs() > 0.0 {
            let slope = rate / self.scale;
            [slope, -slope, -self.z * slope]
        } else {
            [0.0; 3]
        }
    }

    /// Adds the derivatives of a tail with value, location and scale as arguments; returns the logarithm.
    pub(super) fn add(self, (log, rate): (f64, f64), gradient: &mut Gradient<'_>) -> f64 {
        let [by_value, by_location, by_scale] = self.partials(rate);
        gradient.add([by_value, by_location, by_scale, 0.0]);
        log
    }
}

/// The methods `log_cdf` and `log_survival` of a density by its own function `log_tail` of a [`Tail`] and a value that is
/// not infinite.
macro_rules! tails {
    () => {
        fn log_cdf(
            &self,
            value: f64,
            parameters: [&[f64]; 3],
            gradient: &mut $crate::distribution::Gradient<'_>,
        ) -> Option<f64> {
            use $crate::distribution::tail::Tail::Lower;
            Some(Lower.beyond(value).unwrap_or_else(|| Self::log_tail(Lower, value, parameters, gradient)))
        }

        fn log_survival(
            &self,
            value: f64,
            parameters: [&[f64]; 3],
            gradient: &mut $crate::distribution::Gradient<'_>,
        ) -> Option<f64> {
            use $crate::distribution::tail::Tail::Upper;
            Some(Upper.beyond(value).unwrap_or_else(|| Self::log_tail(Upper, value, parameters, gradient)))
        }
    };
}
pub(super) use tails;
