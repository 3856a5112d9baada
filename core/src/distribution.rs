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
mod binomial_batch;
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
mod piecewise_exponential;
mod poisson;
mod power;
mod skew_normal;
mod student_t;
mod support;
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
pub(crate) use formula::Known;
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
pub use piecewise_exponential::PiecewiseExponential;
pub use poisson::Poisson;
pub use skew_normal::SkewNormal;
pub use student_t::StudentT;
pub use support::Support;
pub use symmetric_dirichlet::SymmetricDirichlet;
pub use term::Term;
pub use uniform::Uniform;
pub use von_mises::VonMises;
pub use weibull::Weibull;
pub use wishart_cholesky::WishartCholesky;

use std::fmt::Debug;

use crate::noise::NoiseStream;

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

    /// The mean of one event, or `None` where it does not exist or the parameters do not say it.
    fn mean(&self, _parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        None
    }

    /// The variance of each number of one event, or `None` where it does not exist or the parameters do not say it.
    fn variance(&self, _parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        None
    }

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
    /// `None` selects evaluation event by event. Must agree with [`Density::log_prob`] to 1e-13 relative; of counts
    /// from 100 on to 4e-16 of the size of its parts, such as $k\log k$.
    fn batch(&self, _batch: &mut Batch<'_>) -> Option<f64> {
        None
    }

    /// The same of values in single precision that share all parameters, as the weights of a network: writes `scale` times the
    /// derivative by each value.
    ///
    /// `None` selects evaluation in double precision, from which derivatives may differ by their rounding.
    fn batch_single(
        &self,
        _values: &[f32],
        _parameters: [&[f64]; 3],
        _scale: f64,
        _gradient: &mut [f32],
    ) -> Option<f64> {
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
    /// Overwritten with the log density of each event, unless empty.
    pub events: &'a mut [f64],
}

impl Batch<'_> {
    /// Whether a parameter of one number an event is one for all events, or one each.
    fn serves(&self, parameter: usize) -> bool {
        [1, self.values.len()].contains(&self.parameters[parameter].len())
    }
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
