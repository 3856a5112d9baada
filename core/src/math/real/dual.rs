//! Carries one directional derivative along with a value: forward mode, for products with a Jacobian.

use super::{Real, operators};

/// A value and its derivative in one direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dual {
    pub(crate) value: f64,
    pub(crate) slope: f64,
}

impl From<f64> for Dual {
    #[inline]
    fn from(value: f64) -> Self {
        Self { value, slope: 0.0 }
    }
}

impl Real for Dual {
    #[inline]
    fn value(self) -> f64 {
        self.value
    }

    #[inline]
    fn chain(self, value: f64, derivative: f64) -> Self {
        Self { value, slope: derivative * self.slope }
    }

    #[inline]
    fn chain_two(self, other: Self, value: f64, [own, others]: [f64; 2]) -> Self {
        Self { value, slope: own * self.slope + others * other.slope }
    }
}

operators!([] Dual);
