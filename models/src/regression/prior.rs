//! Lists the priors of a regression's numbers, which are sampled and printed from one value.

use std::fmt;

use burn::tensor::Tensor;
use partita_core::{
    Beta, Cauchy, Distribution, Exponential, Gamma, HalfCauchy, HalfNormal, HalfStudentT, InverseGamma, Laplace,
    LogNormal, Normal, Result, Scope, StudentT,
};

use super::{Family, Response};

/// The prior of one number. Its text is how users write it, with every digit that the model has.
///
/// # Example
/// ```
/// use partita_core::Array;
/// use partita_models::regression::Prior;
/// let prior = Prior::HalfStudentT { degrees: 3.0, scale: 2.5 };
/// assert_eq!(prior.to_string(), "half_student_t(3, 0, 2.5)");
/// // Twice the density of Student's t on one half of the line.
/// let whole = Prior::StudentT { degrees: 3.0, location: 0.0, scale: 2.5 };
/// let at = Array::scalar(1.0);
/// let apart = prior.distribution().log_prob_of(&at)? - whole.distribution().log_prob_of(&at)?;
/// assert!((apart - 2.0_f64.ln()).abs() < 1e-14);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Prior {
    /// `normal(mean, sd)`.
    Normal {
        /// Its mean.
        mean: f64,
        /// Its standard deviation.
        sd: f64,
    },
    /// `student_t(degrees, location, scale)`.
    StudentT {
        /// Its degrees of freedom.
        degrees: f64,
        /// Its median.
        location: f64,
        /// Its scale.
        scale: f64,
    },
    /// `cauchy(location, scale)`.
    Cauchy {
        /// Its median.
        location: f64,
        /// Its scale.
        scale: f64,
    },
    /// `laplace(location, scale)`.
    Laplace {
        /// Its mean.
        location: f64,
        /// Its scale: the standard deviation over $\sqrt 2$.
        scale: f64,
    },
    /// `half_normal(0, scale)`.
    HalfNormal {
        /// The standard deviation before the absolute value.
        scale: f64,
    },
    /// `half_student_t(degrees, 0, scale)`.
    HalfStudentT {
        /// Its degrees of freedom.
        degrees: f64,
        /// Its scale.
        scale: f64,
    },
    /// `half_cauchy(0, scale)`.
    HalfCauchy {
        /// Its median.
        scale: f64,
    },
    /// `exponential(rate)`.
    Exponential {
        /// One over its mean.
        rate: f64,
    },
    /// `lognormal(location, scale)`.
    LogNormal {
        /// The mean of the logarithm.
        location: f64,
        /// The standard deviation of the logarithm.
        scale: f64,
    },
    /// `gamma(concentration, rate)`.
    Gamma {
        /// Its mean times its rate.
        concentration: f64,
        /// Its rate.
        rate: f64,
    },
    /// `inv_gamma(concentration, scale)`.
    InverseGamma {
        /// Its concentration.
        concentration: f64,
        /// Its scale.
        scale: f64,
    },
    /// `beta(one, zero)`, of a probability.
    Beta {
        /// As much as so many successes less one.
        one: f64,
        /// As much as so many failures less one.
        zero: f64,
    },
}

/// Where numbers above zero start, in scales of their prior: usual ones have a scale of 2.5 units.
const START: f64 = 0.4;
/// The standard deviation at the start of a number of either sign over the scale of its prior: so close to the middle of the
/// priors every predictor is a number of a usual size, whatever the units of its columns are.
const START_SCALE: f64 = 0.001;

impl Prior {
    /// The distribution of one number, of shape `[1]`.
    #[must_use]
    pub fn distribution(&self) -> Distribution<1> {
        match *self {
            Self::Normal { mean, sd } => Normal::new(mean, sd),
            Self::StudentT { degrees, location, scale } => StudentT::new(degrees, location, scale),
            Self::Cauchy { location, scale } => Cauchy::new(location, scale),
            Self::Laplace { location, scale } => Laplace::new(location, scale),
            Self::HalfNormal { scale } => HalfNormal::new(scale),
            Self::HalfStudentT { degrees, scale } => HalfStudentT::new(degrees, scale),
            Self::HalfCauchy { scale } => HalfCauchy::new(scale),
            Self::Exponential { rate } => Exponential::new(rate),
            Self::LogNormal { location, scale } => LogNormal::new(location, scale),
            Self::Gamma { concentration, rate } => Gamma::new(concentration, rate),
            Self::InverseGamma { concentration, scale } => InverseGamma::new(concentration, scale),
            Self::Beta { one, zero } => Beta::new(one, zero),
        }
    }

    /// Samples a number, which starts in the units of its prior where that has any: 1 is small or large in others.
    pub(super) fn sample(&self, scope: &mut Scope<'_>, name: &str) -> Result<Tensor<1>> {
        let distribution = self.distribution();
        let started = match *self {
            Self::Normal { mean: middle, sd: scale }
            | Self::StudentT { location: middle, scale, .. }
            | Self::Cauchy { location: middle, scale }
            | Self::Laplace { location: middle, scale } => distribution.start(middle).start_scale(START_SCALE * scale),
            Self::HalfNormal { scale } | Self::HalfStudentT { scale, .. } | Self::HalfCauchy { scale } => {
                distribution.start(START * scale)
            }
            _ => distribution,
        };
        scope.sample(name, started)
    }

    /// Whether it is of numbers between 0 and 1.
    #[must_use]
    pub fn is_of_probability(&self) -> bool {
        matches!(self, Self::Beta { .. })
    }

    /// Whether it is of numbers above zero alone.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        !matches!(self, Self::Normal { .. } | Self::StudentT { .. } | Self::Cauchy { .. } | Self::Laplace { .. })
    }
}

impl fmt::Display for Prior {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal { mean, sd } => write!(out, "normal({mean}, {sd})"),
            Self::StudentT { degrees, location, scale } => write!(out, "student_t({degrees}, {location}, {scale})"),
            Self::Cauchy { location, scale } => write!(out, "cauchy({location}, {scale})"),
            Self::Laplace { location, scale } => write!(out, "laplace({location}, {scale})"),
            Self::HalfNormal { scale } => write!(out, "half_normal(0, {scale})"),
            Self::HalfStudentT { degrees, scale } => write!(out, "half_student_t({degrees}, 0, {scale})"),
            Self::HalfCauchy { scale } => write!(out, "half_cauchy(0, {scale})"),
            Self::Exponential { rate } => write!(out, "exponential({rate})"),
            Self::LogNormal { location, scale } => write!(out, "lognormal({location}, {scale})"),
            Self::Gamma { concentration, rate } => write!(out, "gamma({concentration}, {rate})"),
            Self::InverseGamma { concentration, scale } => write!(out, "inv_gamma({concentration}, {scale})"),
            Self::Beta { one, zero } => write!(out, "beta({one}, {zero})"),
        }
    }
}

/// The prior of a correlation matrix $\Omega$, with a density proportional to $\det(\Omega)^{\eta-1}$.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lkj {
    /// $\eta$ > 0; with 1 every matrix is as probable as any other.
    pub concentration: f64,
}

impl fmt::Display for Lkj {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "lkj({})", self.concentration)
    }
}

/// Degrees of freedom of the usual priors of standard deviations.
pub const DEGREES: f64 = 3.0;

impl Response {
    /// The name and the usual prior of each parameter beside the linear predictor, for outcomes that vary by `unit`.
    ///
    /// # Example
    /// ```
    /// use partita_models::regression::{Family, Response};
    /// let [(name, prior)] = Response::from(Family::Weibull).priors(1.0).try_into().unwrap();
    /// assert_eq!((name.as_str(), prior.to_string().as_str()), ("shape", "lognormal(0, 1)"));
    /// ```
    #[must_use]
    pub fn priors(&self, unit: f64) -> Vec<(String, Prior)> {
        let prior = |name: &'static str| match (name, &self.family) {
            ("sigma", _) => Prior::HalfStudentT { degrees: DEGREES, scale: 2.5 * unit },
            ("nu", _) => Prior::Gamma { concentration: 2.0, rate: 0.1 },
            ("shape", Family::Weibull) => Prior::LogNormal { location: 0.0, scale: 1.0 },
            ("zi" | "hu", _) => Prior::Beta { one: 1.0, zero: 1.0 },
            _ => Prior::Gamma { concentration: 0.01, rate: 0.01 },
        };
        self.parameters().into_iter().map(|name| (name.to_owned(), prior(name))).collect()
    }
}
