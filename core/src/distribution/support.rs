//! Names the sets that values of a distribution lie in, in words and as a test of numbers.

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
