//! Names the laws that a variational family can break, with the numbers that show it.

/// A law of [`Family`](partita_inference::Family) or of [`RowGaussian`](partita_inference::RowGaussian).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FamilyLaw {
    /// A vector has another length than the family states.
    #[error("{vector} has {found} numbers, expected {expected}")]
    Length {
        /// The vector.
        vector: &'static str,
        /// Its length.
        found: usize,
        /// The length the family states.
        expected: usize,
    },
    /// The initial parameters have another mean than zero, or other standard deviations than asked for.
    #[error("{moment} {index} of the initial parameters is {found}, expected {expected}")]
    Start {
        /// `mean` or `standard deviation`.
        moment: &'static str,
        /// The component.
        index: usize,
        /// That of the family.
        found: f64,
        /// What was asked for.
        expected: f64,
    },
    /// The covariance of the components that are no point masses is not positive definite.
    #[error("its covariance is not positive definite")]
    Covariance,
    /// A standard deviation is not the root of the variance.
    #[error("standard deviation {index} is {found}, the covariance gives {expected}")]
    Deviation {
        /// The component.
        index: usize,
        /// What the family states.
        found: f64,
        /// The root of its variance.
        expected: f64,
    },
    /// A draw is not what its parts, or the draws of other noise, make it.
    #[error("{law} gives {expected} for component {index} of a draw, found {found}")]
    Draw {
        /// What the draw must equal.
        law: &'static str,
        /// The component.
        index: usize,
        /// That of the draw.
        found: f64,
        /// What the law gives.
        expected: f64,
    },
    /// The log density is not that of the Gaussian with the family's mean and covariance.
    #[error("log density {found}, the closed form gives {expected}")]
    LogDensity {
        /// What the draw said.
        found: f64,
        /// What mean and covariance give.
        expected: f64,
    },
    /// A score is not the gradient of the log density.
    #[error("score by {by} {index} is {found}, differences give {expected}")]
    Score {
        /// `latent`, `global` or `outer row`.
        by: &'static str,
        /// The component.
        index: usize,
        /// What the draw said.
        found: f64,
        /// What the differences give.
        expected: f64,
    },
    /// The pull-back is not the transpose of the draw's Jacobian, or overwrote instead of adding.
    #[error("pull-back of the {path} to {index} added {found}, differences give {expected}")]
    Vjp {
        /// What was pulled back, and to what.
        path: &'static str,
        /// The parameter, or the global latent.
        index: usize,
        /// What was added.
        found: f64,
        /// What the differences give.
        expected: f64,
    },
    /// The entropy is not the mean of minus the log density.
    #[error("entropy {found}, draws give {expected} ± {bound}")]
    Entropy {
        /// What the family states.
        found: f64,
        /// The mean over draws.
        expected: f64,
        /// The largest difference allowed.
        bound: f64,
    },
    /// The gradient of the entropy is not its derivative, or overwrote instead of adding.
    #[error("gradient of the {of} by {index} added {found}, differences give {expected}")]
    EntropyGradient {
        /// Which entropy, and by what.
        of: &'static str,
        /// The parameter, or the global latent.
        index: usize,
        /// What was added.
        found: f64,
        /// What the differences give.
        expected: f64,
    },
    /// Draws have another mean or covariance than the family states.
    #[error("{moment} {index} of the draws is {found}, expected {expected} ± {bound}")]
    Moment {
        /// `mean`, `covariance` or `standard deviation`.
        moment: &'static str,
        /// Its flat index.
        index: usize,
        /// That of the draws.
        found: f64,
        /// What the family states.
        expected: f64,
        /// The largest difference allowed.
        bound: f64,
    },
}
