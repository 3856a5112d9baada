//! Names the laws that a density can break, with the numbers that show it.

/// A law of [`Density`](partita_core::Density).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DensityLaw {
    /// The case itself is outside the support, or its parameters contradict each other.
    #[error("{value:?} is no event of {support}. Correct the case.")]
    Case {
        /// The value of the case.
        value: Vec<f64>,
        /// The support, in words.
        support: String,
    },
    /// A derivative is not that of the log density, or was not multiplied and added as asked.
    #[error("derivative by number {index} of `{argument}` is {found}, differences give {expected}")]
    Derivative {
        /// `value` or the parameter.
        argument: &'static str,
        /// Which number of it.
        index: usize,
        /// What the density added.
        found: f64,
        /// What central differences give.
        expected: f64,
    },
    /// A draw lies outside the support.
    #[error("drew {draw:?}, which is outside {support}")]
    Draw {
        /// The draw.
        draw: Vec<f64>,
        /// The support, in words.
        support: String,
    },
    /// Draws have another mean or variance than the density states.
    #[error("{moment} {index} of the draws is {found}, expected {expected} ± {bound}")]
    Moment {
        /// `mean` or `variance`.
        moment: &'static str,
        /// Which number of the event.
        index: usize,
        /// That of the draws.
        found: f64,
        /// That of the density.
        expected: f64,
        /// The largest difference allowed.
        bound: f64,
    },
    /// The draws have another distribution function.
    #[error("the distribution function of the draws is {distance} away, allowed is {bound}")]
    Distribution {
        /// The largest distance found (Kolmogorov and Smirnov).
        distance: f64,
        /// The distance allowed.
        bound: f64,
    },
    /// The integral of a power of the density is another one, at power 1 its logarithm.
    #[error("the integral of the power {power} is {found}, expected {expected} ± {bound}")]
    Integral {
        /// The power.
        power: f64,
        /// What was found.
        found: f64,
        /// What was expected.
        expected: f64,
        /// The largest difference allowed.
        bound: f64,
    },
    /// The cumulative function is not the integral of the density.
    #[error("the slope of the cumulative function is {found}, the density {expected}")]
    Cumulative {
        /// The slope, by central differences.
        found: f64,
        /// The exponential of the log density.
        expected: f64,
    },
    /// The two tails do not sum to one, or only one is known.
    #[error("at {value} the tails sum to {sum}")]
    Tails {
        /// The value.
        value: f64,
        /// The sum of the two.
        sum: f64,
    },
    /// A tail does not change as the density integrates.
    #[error("the {tail} tail changes by {found} to {value}, the density integrates to {expected}")]
    TailChange {
        /// `lower` or `upper`.
        tail: &'static str,
        /// The end of the step.
        value: f64,
        /// The change found.
        found: f64,
        /// The integral of the density.
        expected: f64,
    },
}
