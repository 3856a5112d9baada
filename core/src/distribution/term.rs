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
    /// of the seven factors between.
    #[must_use]
    pub fn ln_gamma(self) -> Self {
        /// $B_{2k}/(2k(2k-1))$.
        const SERIES: [f64; 7] =
            [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0, 1.0 / 156.0];
        let Self::Tensor(x) = self else { return self.map(special::ln_gamma, |x| x) };
        let y = x.clone() + 7.0;
        let product =
            |from: u8, to: u8| (from..to).fold(x.clone() + f64::from(from), |p, k| p * (x.clone() + f64::from(k + 1)));
        let factors = product(0, 3).log() + product(4, 6).log();
        let reciprocal = y.clone().recip();
        let square = reciprocal.clone() * reciprocal.clone();
        let [rest @ .., last] = SERIES;
        let start = square.clone() * last + rest[rest.len() - 1];
        let series = rest.iter().rev().skip(1).fold(start, |sum, coefficient| sum * square.clone() + *coefficient);
        let stirling = (y.clone() - 0.5) * y.clone().log() - y + special::HALF_LOG_TWO_PI + series * reciprocal;
        Self::Tensor(stirling - factors)
    }

    /// The sum over each row's columns.
    #[must_use]
    pub fn sum_columns(self) -> Self {
        self.map(|x| x, |x| x.sum_dim(1))
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
        #[expect(clippy::cast_precision_loss, reason = "event counts are far below 2^52")]
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
