//! Defines numbers that carry derivatives, so that a step or a right-hand side is written once without derivatives.

#[cfg(feature = "ode")]
mod dual;
mod taped;

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

#[cfg(feature = "ode")]
pub(crate) use dual::Dual;
pub(crate) use taped::{Tape, Taped};

/// A real number, with or without derivatives: what a [`crate::Recurrence`] is written over.
///
/// Partita calls such functions with `f64` for values and with numbers of its own for derivatives. Constants stand on
/// the right of an operator (`x * 2.0`), or become numbers by `T::from(2.0)`. A function that is missing here is
/// [`Real::chain`] of its value and its derivative.
///
/// # Laws
/// For every function, `value()` is the value of the same function of `f64`, to the last bit. `tests/laws/recurrences.rs`
/// checks every derivative against differences.
///
/// # Example
/// ```
/// use partita_core::Real;
/// fn logistic_growth<T: Real>(x: T, rate: T) -> T {
///     rate * x * (-x + 1.0)
/// }
/// assert_eq!(logistic_growth(0.5, 2.0), 0.5);
/// ```
pub trait Real:
    Copy
    + From<f64>
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
{
    /// The number without its derivatives, for comparisons.
    fn value(self) -> f64;

    /// A function of this number by its value and its derivative here.
    #[must_use]
    fn chain(self, value: f64, derivative: f64) -> Self;

    /// A function of two numbers by its value and its derivatives by each.
    #[must_use]
    fn chain_two(self, other: Self, value: f64, derivatives: [f64; 2]) -> Self;

    /// $e^x$.
    #[must_use]
    #[inline]
    fn exp(self) -> Self {
        let value = self.value().exp();
        self.chain(value, value)
    }

    /// $e^x - 1$, accurate near zero.
    #[must_use]
    #[inline]
    fn exp_m1(self) -> Self {
        let value = self.value().exp_m1();
        self.chain(value, value + 1.0)
    }

    /// $\log x$.
    #[must_use]
    #[inline]
    fn ln(self) -> Self {
        self.chain(self.value().ln(), self.value().recip())
    }

    /// $\log(1 + x)$, accurate near zero.
    #[must_use]
    #[inline]
    fn ln_1p(self) -> Self {
        self.chain(self.value().ln_1p(), (1.0 + self.value()).recip())
    }

    /// $\sqrt x$.
    #[must_use]
    #[inline]
    fn sqrt(self) -> Self {
        let value = self.value().sqrt();
        self.chain(value, 0.5 / value)
    }

    /// $1 / x$.
    #[must_use]
    #[inline]
    fn recip(self) -> Self {
        let value = self.value().recip();
        self.chain(value, -value * value)
    }

    /// $x^n$ for a whole number $n$.
    #[must_use]
    #[inline]
    fn powi(self, n: i32) -> Self {
        let slope = if n == 0 { 0.0 } else { f64::from(n) * self.value().powi(n - 1) };
        self.chain(self.value().powi(n), slope)
    }

    /// $x^a$ for a constant $a$.
    #[must_use]
    #[inline]
    fn powf(self, a: f64) -> Self {
        let slope = if a.abs() > 0.0 { a * self.value().powf(a - 1.0) } else { 0.0 };
        self.chain(self.value().powf(a), slope)
    }

    /// $x^y$ for $x > 0$.
    #[must_use]
    #[inline]
    fn pow(self, y: Self) -> Self {
        let (base, power) = (self.value(), y.value());
        let value = base.powf(power);
        self.chain_two(y, value, [power * base.powf(power - 1.0), value * base.ln()])
    }

    /// $\sin x$.
    #[must_use]
    #[inline]
    fn sin(self) -> Self {
        self.chain(self.value().sin(), self.value().cos())
    }

    /// $\cos x$.
    #[must_use]
    #[inline]
    fn cos(self) -> Self {
        self.chain(self.value().cos(), -self.value().sin())
    }

    /// $\tanh x$.
    #[must_use]
    #[inline]
    fn tanh(self) -> Self {
        let value = self.value().tanh();
        self.chain(value, 1.0 - value * value)
    }

    /// $|x|$, with derivative zero at zero.
    #[must_use]
    #[inline]
    fn abs(self) -> Self {
        let slope = if self.value() == 0.0 { 0.0 } else { self.value().signum() };
        self.chain(self.value().abs(), slope)
    }

    /// The logistic function $1/(1 + e^{-x})$.
    #[must_use]
    #[inline]
    fn sigmoid(self) -> Self {
        let value = (1.0 + (-self.value()).exp()).recip();
        self.chain(value, value * (1.0 - value))
    }

    /// $\log(1 + e^x)$, without overflow.
    #[must_use]
    #[inline]
    fn softplus(self) -> Self {
        let x = self.value();
        self.chain(x.max(0.0) + (-x.abs()).exp().ln_1p(), (1.0 + (-x).exp()).recip())
    }

    /// $\log(e^x + e^y)$, without overflow; −∞ is a summand of zero.
    #[must_use]
    #[inline]
    fn log_add_exp(self, y: Self) -> Self {
        let (a, b) = (self.value(), y.value());
        let (largest, smallest) = if a < b { (b, a) } else { (a, b) };
        if largest == f64::NEG_INFINITY {
            return self.chain_two(y, largest, [0.0, 0.0]);
        }
        let ratio = (smallest - largest).exp();
        let (of_largest, of_smallest) = ((1.0 + ratio).recip(), ratio / (1.0 + ratio));
        let slopes = if a < b { [of_smallest, of_largest] } else { [of_largest, of_smallest] };
        self.chain_two(y, largest + ratio.ln_1p(), slopes)
    }
}

impl Real for f64 {
    #[inline]
    fn value(self) -> f64 {
        self
    }

    #[inline]
    fn chain(self, value: f64, _: f64) -> Self {
        value
    }

    #[inline]
    fn chain_two(self, _: Self, value: f64, _: [f64; 2]) -> Self {
        value
    }
}

/// The operators of a number from `chain` and `chain_two`: the same derivatives for every kind of number.
macro_rules! operators {
    ([$($generics:tt)*] $number:ty) => {
        impl<$($generics)*> std::ops::Neg for $number {
            type Output = Self;
            #[inline]
            fn neg(self) -> Self {
                self.chain(-self.value(), -1.0)
            }
        }
        crate::math::real::operators!(@pair [$($generics)*] $number, Add, add, AddAssign, add_assign,
            |a, b| (a + b, [1.0, 1.0]));
        crate::math::real::operators!(@pair [$($generics)*] $number, Sub, sub, SubAssign, sub_assign,
            |a, b| (a - b, [1.0, -1.0]));
        crate::math::real::operators!(@pair [$($generics)*] $number, Mul, mul, MulAssign, mul_assign,
            |a, b| (a * b, [b, a]));
        crate::math::real::operators!(@pair [$($generics)*] $number, Div, div, DivAssign, div_assign,
            |a, b| (a / b, [b.recip(), -a / (b * b)]));
    };
    (@pair [$($generics:tt)*] $number:ty, $trait:ident, $name:ident, $assign:ident, $assign_name:ident,
        |$a:ident, $b:ident| $formula:expr) => {
        impl<$($generics)*> std::ops::$trait for $number {
            type Output = Self;
            #[inline]
            fn $name(self, other: Self) -> Self {
                let ($a, $b) = (self.value(), other.value());
                let (value, derivatives): (f64, [f64; 2]) = $formula;
                self.chain_two(other, value, derivatives)
            }
        }
        impl<$($generics)*> std::ops::$trait<f64> for $number {
            type Output = Self;
            #[inline]
            fn $name(self, $b: f64) -> Self {
                let $a = self.value();
                let (value, derivatives): (f64, [f64; 2]) = $formula;
                self.chain(value, derivatives[0])
            }
        }
        impl<$($generics)*> std::ops::$assign for $number {
            #[inline]
            fn $assign_name(&mut self, other: Self) {
                *self = std::ops::$trait::$name(*self, other);
            }
        }
    };
}

pub(crate) use operators;
