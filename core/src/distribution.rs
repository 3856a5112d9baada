//! Defines a distribution: its parameters, support, log density with derivatives, and draws.
//!
//! A distribution is a [`Density`] (the mathematics, in f64 on the host, one event at a time) applied to parameters,
//! which are numbers or tensors. [`Distribution`] carries the batch shape and the rank, and puts the whole batch on
//! Burn's tape as one fused operation.

#[cfg(test)]
mod agreement;
mod batch;
mod batch_loss;
mod bernoulli;
mod beta;
mod beta_binomial;
mod binomial;
mod categorical;
mod cauchy;
mod composite;
mod construct;
mod declared;
mod dirichlet;
mod evaluate;
mod exponential;
mod few;
mod flat;
mod formula;
mod gamma;
mod geometric;
mod half_cauchy;
mod half_normal;
mod half_student_t;
mod inverse_gamma;
mod inverse_gaussian;
mod laplace;
mod law;
mod lkj_cholesky;
mod log_normal;
mod loss;
mod multinomial;
mod multivariate_normal;
mod multivariate_student_t;
mod negative_binomial;
mod normal;
mod on_device;
mod ordered;
mod ordered_response;
mod poisson;
mod power;
mod skew_normal;
mod student_t;
mod symmetric_dirichlet;
mod tail;
mod tape;
mod term;
mod uniform;
mod von_mises;
mod weibull;
mod wishart_cholesky;

pub use batch::{Continuous, Discrete, Distribution, Latent};
pub use bernoulli::Bernoulli;
pub use beta::Beta;
pub use beta_binomial::BetaBinomial;
pub use binomial::Binomial;
pub use categorical::Categorical;
pub use cauchy::Cauchy;
pub use composite::{Censoring, Chance, Mixture, NumberOrTensor, ObservedOnly};
pub use construct::Parameters;
pub(crate) use declared::distribution;
pub use dirichlet::Dirichlet;
pub(crate) use evaluate::Wanted;
pub use exponential::Exponential;
pub use flat::Flat;
pub use gamma::Gamma;
pub use geometric::Geometric;
pub use half_cauchy::HalfCauchy;
pub use half_normal::HalfNormal;
pub use half_student_t::HalfStudentT;
pub use inverse_gamma::InverseGamma;
pub use inverse_gaussian::InverseGaussian;
pub use laplace::Laplace;
pub(crate) use law::{Law, Parameter};
pub use lkj_cholesky::LkjCholesky;
pub use log_normal::LogNormal;
pub use loss::Loss;
pub use multinomial::Multinomial;
pub use multivariate_normal::MultivariateNormal;
pub use multivariate_student_t::MultivariateStudentT;
pub use negative_binomial::NegativeBinomial;
pub use normal::Normal;
pub use ordered_response::{OrderedLogistic, OrderedProbit};
pub use poisson::Poisson;
pub use skew_normal::SkewNormal;
pub use student_t::StudentT;
pub use symmetric_dirichlet::SymmetricDirichlet;
pub use term::Term;
pub use uniform::Uniform;
pub use von_mises::VonMises;
pub use weibull::Weibull;
pub use wishart_cholesky::WishartCholesky;

use std::fmt::Debug;

use crate::noise::NoiseStream;

/// The support of a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Support {
    /// All real numbers.
    Real,
    /// Numbers above zero.
    Positive,
    /// The open interval between two numbers.
    Interval(f64, f64),
    /// Numbers above a number.
    GreaterThan(f64),
    /// Numbers below a number.
    LessThan(f64),
    /// Zero, and numbers above it.
    NonNegative,
    /// Vectors of numbers above zero that sum to one.
    Simplex,
    /// Vectors of real numbers.
    RealVector,
    /// Vectors of real numbers, each above the one before.
    Ordered,
    /// Vectors of numbers above zero, each above the one before.
    PositiveOrdered,
    /// Lower-triangular matrices with positive diagonal and rows of length one.
    CorrelationCholesky,
    /// Lower-triangular matrices with positive diagonal.
    CovarianceCholesky,
    /// 0 or 1.
    Boolean,
    /// 0, 1, 2, ...
    Count,
    /// 0, 1, ..., the largest.
    CountUpTo(f64),
    /// The counts from one to another, which may be infinite.
    CountBetween(f64, f64),
    /// Vectors of counts.
    CountVector,
}

impl Support {
    /// The support in words, for error messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Real => "the real numbers".into(),
            Self::Positive => "numbers > 0".into(),
            Self::Interval(low, high) => format!("the open interval ({low}, {high})"),
            Self::GreaterThan(low) => format!("numbers > {low}"),
            Self::LessThan(high) => format!("numbers < {high}"),
            Self::NonNegative => "numbers >= 0".into(),
            Self::Simplex => "vectors of positive numbers that sum to 1".into(),
            Self::RealVector => "vectors of real numbers".into(),
            Self::Ordered => "strictly increasing vectors".into(),
            Self::PositiveOrdered => "strictly increasing vectors of numbers > 0".into(),
            Self::CorrelationCholesky => "Cholesky factors of correlation matrices".into(),
            Self::CovarianceCholesky => "Cholesky factors of covariance matrices".into(),
            Self::Boolean => "0 or 1".into(),
            Self::Count => "the counts 0, 1, 2, ...".into(),
            Self::CountUpTo(largest) => format!("the counts 0 to {largest}"),
            Self::CountBetween(first, f64::INFINITY) => format!("the counts from {first}"),
            Self::CountBetween(first, last) => format!("the counts {first} to {last}"),
            Self::CountVector => "vectors of counts".into(),
        }
    }

    /// Whether one event of this support (one number, or one vector) lies in it.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "counts and booleans are exact")]
    pub fn contains(&self, event: &[f64]) -> bool {
        let count = |v: f64| v >= 0.0 && v.fract() == 0.0 && v.is_finite();
        match *self {
            Self::Real | Self::RealVector => event.iter().all(|v| v.is_finite()),
            Self::Positive => event.iter().all(|v| *v > 0.0 && v.is_finite()),
            Self::Interval(low, high) => event.iter().all(|v| *v > low && *v < high),
            Self::GreaterThan(low) => event.iter().all(|v| *v > low && v.is_finite()),
            Self::LessThan(high) => event.iter().all(|v| *v < high && v.is_finite()),
            Self::NonNegative => event.iter().all(|v| *v >= 0.0 && v.is_finite()),
            Self::Ordered => increasing(f64::NEG_INFINITY, event),
            Self::PositiveOrdered => increasing(0.0, event),
            Self::CovarianceCholesky => factor_rows(event).is_some(),
            Self::CorrelationCholesky => {
                factor_rows(event).is_some_and(|mut rows| rows.all(|length| (length - 1.0).abs() < 1e-6))
            }
            Self::Simplex => event.iter().all(|v| *v > 0.0) && (event.iter().sum::<f64>() - 1.0).abs() < 1e-6,
            Self::Boolean => event.iter().all(|v| *v == 0.0 || *v == 1.0),
            Self::Count | Self::CountVector => event.iter().all(|v| count(*v)),
            Self::CountUpTo(largest) => event.iter().all(|v| count(*v) && *v <= largest),
            Self::CountBetween(first, last) => event.iter().all(|v| count(*v) && *v >= first && *v <= last),
        }
    }

    /// Whether values are counts or classes, which have probabilities and not densities.
    #[must_use]
    pub fn is_discrete(&self) -> bool {
        matches!(self, Self::Boolean | Self::Count | Self::CountUpTo(_) | Self::CountBetween(..) | Self::CountVector)
    }

    /// The ends of a support of numbers, infinite where there are none; `None` for vectors.
    pub(crate) fn ends(&self) -> Option<(f64, f64)> {
        match *self {
            Self::Real => Some((f64::NEG_INFINITY, f64::INFINITY)),
            Self::Positive | Self::NonNegative | Self::Count => Some((0.0, f64::INFINITY)),
            Self::Interval(low, high) | Self::CountBetween(low, high) => Some((low, high)),
            Self::GreaterThan(low) => Some((low, f64::INFINITY)),
            Self::LessThan(high) => Some((f64::NEG_INFINITY, high)),
            Self::Boolean => Some((0.0, 1.0)),
            Self::CountUpTo(last) => Some((0.0, last)),
            Self::Simplex
            | Self::RealVector
            | Self::Ordered
            | Self::PositiveOrdered
            | Self::CorrelationCholesky
            | Self::CovarianceCholesky
            | Self::CountVector => None,
        }
    }

    /// The part of a support of numbers between two numbers; counts at the ends belong to it.
    #[must_use]
    pub(crate) fn between(self, low: f64, high: f64) -> Self {
        let Some((first, last)) = self.ends() else { return self };
        let (low, high) = (low.max(first), high.min(last));
        if self.is_discrete() {
            return match (low.ceil(), high.floor()) {
                (0.0, f64::INFINITY) => Self::Count,
                (0.0, last) => Self::CountUpTo(last),
                (first, last) => Self::CountBetween(first, last),
            };
        }
        match (low, high) {
            (f64::NEG_INFINITY, f64::INFINITY) => Self::Real,
            (0.0, f64::INFINITY) => Self::Positive,
            (low, f64::INFINITY) => Self::GreaterThan(low),
            (f64::NEG_INFINITY, high) => Self::LessThan(high),
            (low, high) => Self::Interval(low, high),
        }
    }

    /// A support of counts or of positive numbers, with zero.
    #[must_use]
    pub(crate) fn with_zero(self) -> Self {
        match self.ends() {
            Some((_, high)) if self.is_discrete() => self.up_to(high),
            Some(_) => Self::NonNegative,
            None => self,
        }
    }

    fn up_to(self, last: f64) -> Self {
        match self {
            Self::Boolean => self,
            _ if last.is_infinite() => Self::Count,
            _ => Self::CountUpTo(last),
        }
    }
}

/// Whether each number is finite and above the one before, the first above `low`.
fn increasing(low: f64, event: &[f64]) -> bool {
    let mut previous = low;
    event.iter().all(|v| v.is_finite() && *v > std::mem::replace(&mut previous, *v))
}

/// The lengths of the rows of a lower-triangular matrix with positive diagonal; `None` of another matrix.
fn factor_rows(event: &[f64]) -> Option<impl Iterator<Item = f64>> {
    let order = event.len().isqrt();
    let fits = |(place, v): (usize, &f64)| match (place / order).cmp(&(place % order)) {
        std::cmp::Ordering::Less => v.abs() < f64::MIN_POSITIVE,
        std::cmp::Ordering::Equal => *v > 0.0 && v.is_finite(),
        std::cmp::Ordering::Greater => v.is_finite(),
    };
    let whole = order > 0 && order * order == event.len() && event.iter().enumerate().all(fits);
    whole.then(|| event.chunks_exact(order).map(|row| row.iter().map(|v| v * v).sum::<f64>().sqrt()))
}

/// The domain of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Domain {
    /// Any finite number.
    Real,
    /// Numbers above zero.
    Positive,
    /// 0, 1, 2, ...
    Count,
    /// A lower-triangular matrix with positive diagonal.
    CholeskyFactor,
    /// Any number, or an infinity for no bound.
    Bound,
    /// 0 to 1.
    Probability,
    /// 0 or 1.
    Boolean,
}

impl Domain {
    /// The domain in words, for error messages.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Real => "a finite number",
            Self::Positive => "a finite number > 0",
            Self::Count => "a count 0, 1, 2, ...",
            Self::CholeskyFactor => "a lower-triangular matrix with diagonal > 0",
            Self::Bound => "a number, or an infinity for no bound",
            Self::Probability => "a probability from 0 to 1",
            Self::Boolean => "0 or 1",
        }
    }
}

/// The name and the domain of a parameter of a density.
#[derive(Debug, Clone, Copy)]
pub struct ParameterRule {
    /// Its name in error messages.
    pub name: &'static str,
    /// Its domain.
    pub domain: Domain,
    /// The rank of the parameter of one event: 0 a number, 1 a vector, 2 a square matrix.
    pub event_rank: usize,
}

impl ParameterRule {
    /// A rule for a parameter that is one number an event.
    #[must_use]
    pub const fn number(name: &'static str, domain: Domain) -> Self {
        Self { name, domain, event_rank: 0 }
    }

    /// A rule for a parameter that is one vector an event.
    #[must_use]
    pub const fn vector(name: &'static str, domain: Domain) -> Self {
        Self { name, domain, event_rank: 1 }
    }

    /// A rule for a parameter that is one square matrix an event.
    #[must_use]
    pub const fn matrix(name: &'static str, domain: Domain) -> Self {
        Self { name, domain, event_rank: 2 }
    }
}

/// The sinks of the derivatives of one event's log density; the slice of a derivative that is not asked for is empty.
///
/// The default asks for none.
#[derive(Debug, Default)]
pub struct Gradient<'a> {
    /// The factor on every derivative before it is added.
    pub scale: f64,
    /// Derivative with respect to the value, one number for each of the event's.
    pub value: &'a mut [f64],
    /// Derivative with respect to each parameter, in the order of [`Signature::parameters`].
    pub parameters: [&'a mut [f64]; 3],
}

/// The name of a distribution, its parameters, and its support.
///
/// # Laws
/// A value inside `support` has a finite log density, and draws lie in it; `laws::density` checks both.
pub trait Signature {
    /// The distribution's name in error messages.
    fn name(&self) -> &'static str;

    /// Its parameters in order (at most three).
    fn parameters(&self) -> &'static [ParameterRule];

    /// The support, given the parameters of one event.
    fn support(&self, parameters: [&[f64]; 3]) -> Support;
}

/// The mathematics of one distribution, for one event, in f64 on the host.
///
/// An event is one number for univariate distributions and one vector for multivariate ones; `parameters[k]` holds
/// the k-th parameter of that event. [`Parameters::build`] makes a distribution of a density and parameters.
///
/// # Laws
/// `laws::density` checks: gradients against central differences, draws inside the support, draws against
/// `mean` and `variance` (k·SE) and, for univariate densities with a `cdf`, against the Kolmogorov-Smirnov bound;
/// integrals of powers against differences and draws.
pub trait Density: Signature + Debug + Send + Sync {
    /// Log density (nats) of one event; adds its derivatives to `gradient`.
    ///
    /// Value and parameters have been checked against support and domains.
    fn log_prob(&self, value: &[f64], parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64;

    /// Draws one event.
    fn draw(&self, parameters: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]);

    /// The mean of one event, or `None` where it does not exist.
    fn mean(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>>;

    /// The variance of each number of one event, or `None` where it does not exist.
    fn variance(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>>;

    /// Whether its integral is infinite, so that nothing can be drawn from it.
    fn is_improper(&self) -> bool {
        false
    }

    /// The rank of one event: 0 for numbers, 1 for vectors, 2 for matrices.
    fn event_rank(&self) -> usize {
        0
    }

    /// The cumulative distribution function at one number, if it is known: $e$ to the power [`Density::log_cdf`].
    fn cumulative(&self, value: f64, parameters: [&[f64]; 3]) -> Option<f64> {
        self.log_cdf(value, parameters, &mut Gradient::default()).map(f64::exp)
    }

    /// $\log F(x)$ of a univariate density with $F(x) = P(X \le x)$; adds its derivatives to `gradient`.
    ///
    /// The value may be any number: where $F$ is zero the result is minus infinity with no derivative added, and where
    /// $F$ is one it is zero. For a discrete density $F$ is constant between counts, and the derivative by the value is
    /// zero. Accurate in relative terms where $F$ is small. `None` if it is not known.
    fn log_cdf(&self, _value: f64, _parameters: [&[f64]; 3], _gradient: &mut Gradient<'_>) -> Option<f64> {
        None
    }

    /// $\log(1 - F(x))$, with derivatives and ends as for [`Density::log_cdf`]: accurate where $F$ is near one.
    fn log_survival(&self, _value: f64, _parameters: [&[f64]; 3], _gradient: &mut Gradient<'_>) -> Option<f64> {
        None
    }

    /// A parameter that conflicts with the others (such as an upper bound below the lower): its name, value, and what
    /// was expected.
    fn conflict(&self, _parameters: [&[f64]; 3]) -> Option<(&'static str, f64, &'static str)> {
        None
    }

    /// $\log\int p(y)^\beta\thinspace dy$ with $\beta$ = `power` ≥ 1, a sum over a discrete support; adds its
    /// derivatives by the parameters to the gradient.
    ///
    /// The normalising integral of [`crate::Loss::Beta`] and [`crate::Loss::Gamma`]. Infinite where it diverges, with
    /// no derivative added; `None` if it is not known, and these losses then refuse the distribution.
    fn log_power_integral(&self, _power: f64, _parameters: [&[f64]; 3], _gradient: &mut Gradient<'_>) -> Option<f64> {
        None
    }

    /// A vectorised sum over a whole batch of univariate events, if the density has one.
    ///
    /// `None` selects evaluation event by event. Must agree with [`Density::log_prob`] to 1e-13 relative.
    fn batch(&self, _batch: &mut Batch<'_>) -> Option<f64> {
        None
    }

    /// The log density in tensor operations, for readings that leave everything on the device.
    ///
    /// Returns terms whose sum over events is the log density, each a number (counted once an event) or a tensor;
    /// `None` where tensor operations do not suffice. Must agree with [`Density::log_prob`] to rounding, gradients
    /// included. Support and domains are not checked, since only the host can do so.
    fn on_device(&self, _value: Term, _parameters: [Term; 3]) -> Option<Vec<Term>> {
        None
    }
}

/// A whole batch of univariate events, for vectorised densities.
#[derive(Debug)]
pub struct Batch<'a> {
    /// The values.
    pub values: &'a [f64],
    /// Each parameter: one number for all events, or one each.
    pub parameters: [&'a [f64]; 3],
    /// The factor on derivatives.
    pub scale: f64,
    /// Overwritten with `scale` times the derivative by the value, unless empty.
    pub value_gradient: &'a mut [f64],
    /// Overwritten with `scale` times the derivative by each parameter, one for each event, unless empty.
    pub parameter_gradients: [&'a mut [f64]; 3],
}

impl Gradient<'_> {
    /// Whether any derivative is asked for; a density may skip what only derivatives need.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.value.is_empty() || self.parameters.iter().any(|slots| !slots.is_empty())
    }

    /// Adds the partial derivatives of a univariate density: by the value, then by each parameter.
    #[inline]
    pub fn add(&mut self, partials: [f64; 4]) {
        if let [slot] = self.value {
            *slot += self.scale * partials[0];
        }
        for (slots, partial) in self.parameters.iter_mut().zip(&partials[1..]) {
            if let [slot] = slots {
                *slot += self.scale * partial;
            }
        }
    }
}
