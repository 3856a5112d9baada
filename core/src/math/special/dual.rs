//! Carries a number with its two partial derivatives through arithmetic, for functions without a derivative formula.

use std::ops::{Add, Div, Mul};

/// A number and its derivatives by two arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dual {
    pub(super) value: f64,
    pub(super) by: [f64; 2],
}

impl Dual {
    pub(super) fn constant(value: f64) -> Self {
        Self { value, by: [0.0; 2] }
    }

    pub(super) fn new(value: f64, by: [f64; 2]) -> Self {
        Self { value, by }
    }

    /// The derivatives of the logarithm.
    pub(super) fn log_by(self) -> [f64; 2] {
        self.by.map(|by| by / self.value)
    }
}

impl Add for Dual {
    type Output = Self;

    fn add(self, right: Self) -> Self {
        Self { value: self.value + right.value, by: [self.by[0] + right.by[0], self.by[1] + right.by[1]] }
    }
}

impl Mul for Dual {
    type Output = Self;

    #[expect(clippy::suspicious_arithmetic_impl, reason = "the product rule")]
    fn mul(self, right: Self) -> Self {
        let by = [0, 1].map(|k| self.by[k] * right.value + self.value * right.by[k]);
        Self { value: self.value * right.value, by }
    }
}

impl Div for Dual {
    type Output = Self;

    /// The quotient is subtracted before the division, so that a divisor of 1e300 does not overflow when squared.
    #[expect(clippy::suspicious_arithmetic_impl, reason = "the quotient rule")]
    fn div(self, right: Self) -> Self {
        let value = self.value / right.value;
        Self { value, by: [0, 1].map(|k| (self.by[k] - value * right.by[k]) / right.value) }
    }
}
