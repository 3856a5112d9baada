//! Gives numbers and tensors one set of operations, for formulas of densities and bijectors on a device.

use std::ops::{Add, Div, Mul, Neg, Sub};

use burn::tensor::{Tensor, activation};

use crate::math::operation::ordered_sum;
use crate::math::{logistic, special};

/// A number, or a tensor on a device with one row an event: the operand of the device forms of densities.
///
/// Arithmetic on numbers stays on the host, so that a constant costs no kernel; nothing is ever read from the device.
///
/// # Shapes
/// A tensor is `[events, width]`, or `[1, width]` where it serves every event.
///
/// # Example
/// ```
/// use partita_core::{Device, Term};
/// let x = Term::Tensor(Device::flex().tensor(vec![1.0, 3.0], [2, 1]));
/// let Term::Tensor(squares) = (x - 1.0).square() else { panic!("a tensor stays a tensor") };
/// assert_eq!(squares.into_data().try_into_vec::<f64>().unwrap(), [0.0, 4.0]);
/// ```
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a term lives as long as its expression")]
pub enum Term {
    /// One number for every event.
    Number(f64),
    /// Numbers on a device.
    Tensor(Tensor<2>),
}

/// So far arguments of the log-gamma function are moved up, to where Stirling's series holds.
const FACTORS: u8 = 7;

impl From<f64> for Term {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl Term {
    fn map(self, number: impl FnOnce(f64) -> f64, tensor: impl FnOnce(Tensor<2>) -> Tensor<2>) -> Self {
        match self {
            Self::Number(value) => Self::Number(number(value)),
            Self::Tensor(value) => Self::Tensor(tensor(value)),
        }
    }

    /// $e^x$.
    #[must_use]
    pub fn exp(self) -> Self {
        self.map(f64::exp, Tensor::exp)
    }

    /// $\log x$.
    #[must_use]
    pub fn ln(self) -> Self {
        self.map(f64::ln, Tensor::log)
    }

    /// $\log(1 + x)$.
    #[must_use]
    pub fn ln_1p(self) -> Self {
        self.map(f64::ln_1p, Tensor::log1p)
    }

    /// $x^2$.
    #[must_use]
    pub fn square(self) -> Self {
        self.map(|x| x * x, |x| x.clone() * x)
    }

    /// $|x|$.
    #[must_use]
    pub fn abs(self) -> Self {
        self.map(f64::abs, Tensor::abs)
    }

    /// $1/(1 + e^{-x})$.
    #[must_use]
    pub fn sigmoid(self) -> Self {
        self.map(special::sigmoid, logistic::sigmoid)
    }

    /// $-\log(1 + e^{-x})$.
    #[must_use]
    pub fn log_sigmoid(self) -> Self {
        self.map(|x| -special::softplus(-x), logistic::log_sigmoid)
    }

    /// $\log\Gamma(x)$ for $x > 0$, with a gradient.
    ///
    /// # Numerics
    /// $\log\Gamma(x + 7)$ by Stirling's series with seven terms (7e-15 at the smallest argument), less the logarithms
    /// of the seven factors between. Differences of two large ones cancel; use [`Term::ln_gamma_difference`].
    #[must_use]
    pub fn ln_gamma(self) -> Self {
        let Self::Tensor(x) = self else { return self.map(special::ln_gamma, |x| x) };
        let y = x.clone() + f64::from(FACTORS);
        let reciprocal = y.clone().recip();
        // All but the first factor over y, which leaves 6 log y: the product itself overflows in single precision.
        let ratio = |k: u8| (x.clone() + f64::from(k)) * reciprocal.clone();
        let factors = (2..FACTORS).fold(ratio(1), |product, k| product * ratio(k)).log() + x.clone().log();
        let stirling = (y.clone() - 6.5) * y.clone().log() - y.clone() + special::HALF_LOG_TWO_PI;
        Self::Tensor(stirling - factors) + Self::Tensor(y).stirling_rest()
    }

    /// $\log\Gamma(x + s) - \log\Gamma(x)$ for $x > 0$ and $s$ = `step` ≥ 0, without cancellation for large $x$.
    ///
    /// $$ (y - \tfrac12)\log\Big(1 + \frac sy\Big) + s(\log e - 1) + \delta(e) - \delta(y) -
    ///    \sum_{k<7}\log\Big(1 + \frac{s}{x + k}\Big), \qquad y = x + 7,\quad e = y + s $$
    /// with Stirling's series $\delta$, as in [`Term::ln_gamma`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Precision, Term};
    /// let x = Device::flex().with_precision(Precision::Single).tensor(vec![1e6], [1, 1]);
    /// let Term::Tensor(found) = Term::Tensor(x).ln_gamma_difference(1.0) else { panic!("a tensor stays a tensor") };
    /// assert!((found.into_scalar::<f32>() - 1e6_f32.ln()).abs() < 1e-5);
    /// ```
    #[must_use]
    pub fn ln_gamma_difference(self, step: impl Into<Self>) -> Self {
        let step = step.into();
        if let (Self::Number(x), Self::Number(step)) = (&self, &step) {
            return Self::Number(special::ln_gamma_difference(*x, *step));
        }
        let y = self.clone() + f64::from(FACTORS);
        let end = y.clone() + step.clone();
        // With y and not e at the first logarithm: the slope of either term by x is moderate.
        let start = (y.clone() - 0.5) * (step.clone() / y.clone()).ln_1p() + step.clone() * (end.clone().ln() - 1.0);
        let factors = (0..FACTORS).map(|k| (step.clone() / (self.clone() + f64::from(k))).ln_1p());
        factors.fold(start + end.stirling_rest() - y.stirling_rest(), |sum, factor| sum - factor)
    }

    /// $\log B(a, b)$ for $a$, $b$ > 0, without cancellation where one of them is large.
    pub(crate) fn ln_beta(self, other: Self) -> Self {
        if let (Self::Number(a), Self::Number(b)) = (&self, &other) {
            return Self::Number(special::ln_beta(*a, *b));
        }
        // 1 where the first is smaller, 0 where it is larger; where they are equal one half, so that slopes are right.
        let first = (other.clone() - self.clone()).map(f64::signum, Tensor::sign) * 0.5 + 0.5;
        let second = -first.clone() + 1.0;
        let small = self.clone() * first.clone() + other.clone() * second.clone();
        let large = self * second + other * first;
        small.clone().ln_gamma() - large.ln_gamma_difference(small)
    }

    /// What Stirling's formula leaves out of $\log\Gamma(x)$, for $x$ from 7 on.
    fn stirling_rest(self) -> Self {
        /// $B_{2k}/(2k(2k-1))$.
        const SERIES: [f64; 7] =
            [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0, 1.0 / 156.0];
        let reciprocal = self.map(f64::recip, Tensor::recip);
        let square = reciprocal.clone().square();
        let [rest @ .., last] = SERIES;
        let start = square.clone() * last + rest[rest.len() - 1];
        let series = rest.iter().rev().skip(1).fold(start, |sum, coefficient| sum * square.clone() + *coefficient);
        series * reciprocal
    }

    /// The sum over each row's columns.
    #[must_use]
    pub fn sum_columns(self) -> Self {
        self.map(|x| x, |x| if x.dims()[1] == 1 { x } else { x.sum_dim(1) })
    }

    /// $x_k - \log\sum_l e^{x_l}$ over each row's columns.
    #[must_use]
    pub fn log_softmax(self) -> Self {
        self.map(|_| 0.0, |x| activation::log_softmax(x, 1))
    }

    /// The column of each row that `index` names: 0, 1, ...
    #[must_use]
    pub fn pick(self, index: Self) -> Self {
        let (Self::Tensor(table), Self::Tensor(index)) = (&self, index) else { return self };
        let ([rows, columns], events) = (table.dims(), index.dims()[0]);
        let table = if rows == events { table.clone() } else { table.clone().expand([events, columns]) };
        Self::Tensor(table.gather(1, index.int()))
    }

    /// The sum of terms over `events` events: a number, and a tensor of shape `[1]` if any term is a tensor.
    ///
    /// # Examples
    /// ```
    /// let (constant, tensor) = partita_core::Term::total(vec![partita_core::Term::Number(-0.5)], 4);
    /// assert_eq!((constant, tensor.is_none()), (-2.0, true));
    /// ```
    pub fn total(terms: Vec<Self>, events: usize) -> (f64, Option<Tensor<1>>) {
        let (mut constant, mut sum) = (0.0, None);
        for term in terms {
            match term {
                Self::Number(value) => constant += value * events as f64,
                Self::Tensor(value) => {
                    let times = events / value.dims()[0].max(1);
                    let sums = ordered_sum(value);
                    let own = if times == 1 { sums } else { sums * times as f64 };
                    sum = Some(match sum {
                        Some(sum) => sum + own,
                        None => own,
                    });
                }
            }
        }
        (constant, sum)
    }
}

impl Neg for Term {
    type Output = Self;

    fn neg(self) -> Self {
        self.map(f64::neg, Tensor::neg)
    }
}

macro_rules! operator {
    ($name:ident, $method:ident, |$left:ident, $right:ident| $straight:expr, |$number:ident, $tensor:ident| $swapped:expr) => {
        impl<R: Into<Term>> $name<R> for Term {
            type Output = Term;

            fn $method(self, right: R) -> Term {
                match (self, right.into()) {
                    (Term::Number(a), Term::Number(b)) => Term::Number($name::$method(a, b)),
                    (Term::Tensor(a), Term::Tensor(b)) => Term::Tensor($name::$method(a, b)),
                    (Term::Tensor($left), Term::Number($right)) => Term::Tensor($straight),
                    (Term::Number($number), Term::Tensor($tensor)) => Term::Tensor($swapped),
                }
            }
        }
    };
}

operator!(Add, add, |a, b| a + b, |a, b| b + a);
operator!(Sub, sub, |a, b| a - b, |a, b| b.neg() + a);
operator!(Mul, mul, |a, b| a * b, |a, b| b * a);
// Not `a / b`: the gradient of Burn 0.22.1's division by a number rounds that number to single precision.
operator!(Div, div, |a, b| a * b.recip(), |a, b| b.recip() * a);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Precision};
    use crate::handle::Handle;

    /// The values of a function at some numbers in single precision, and its slopes there.
    fn single(numbers: &[f64], function: impl Fn(Term) -> Term) -> [Vec<f64>; 2] {
        let device = Device::flex().with_precision(Precision::Single);
        let x = device.leaf::<2>(numbers, [numbers.len(), 1]);
        let Term::Tensor(y) = function(Term::Tensor(x.clone())) else { panic!("a tensor stays a tensor") };
        let slopes = x.grad(&y.clone().sum().backward()).unwrap();
        [y.inner(), slopes].map(|tensor| Handle::from(tensor).read().unwrap().values)
    }

    fn close(found: &[f64], expected: impl Iterator<Item = f64>, bound: f64) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= bound * (1.0 + expected.abs()), "{found} {expected}");
        }
    }

    #[test]
    fn log_gamma_overflows_in_single_precision_only_where_it_does_itself() {
        let numbers = [0.3, 7.0, 1e5, 1e10, 1e15, 1e30];
        let [values, slopes] = single(&numbers, Term::ln_gamma);
        close(&values, numbers.into_iter().map(special::ln_gamma), 2e-6);
        close(&slopes[..5], numbers.into_iter().map(special::digamma), 2e-6);
    }

    #[test]
    fn differences_of_log_gammas_keep_their_digits_in_single_precision() {
        let numbers = [0.3, 2.0, 9.9, 1e3, 1e6, 1e15];
        for step in [0.0, 0.5, 3.0, 1e4] {
            let [values, slopes] = single(&numbers, |x| x.ln_gamma_difference(step));
            close(&values, numbers.into_iter().map(|x| special::ln_gamma_difference(x, step)), 4e-6);
            close(&slopes, numbers.into_iter().map(|x| special::digamma_difference(x, step)), 4e-6);
            let [values, slopes] = single(&numbers, |x| x.ln_beta(Term::Number(step + 2.0)));
            close(&values, numbers.into_iter().map(|x| special::ln_beta(x, step + 2.0)), 4e-6);
            // The slope where both are equal, 2, is among them.
            close(&slopes, numbers.into_iter().map(|x| -special::digamma_difference(x, step + 2.0)), 4e-6);
        }
    }
}
