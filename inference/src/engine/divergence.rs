//! States what keeps a posterior near its prior or cavity in generalised variational inference, and chooses it in words.

mod axes;
mod beta;
mod f_divergence;
mod gamma;
mod jensen_shannon;
mod kullback_leibler;
mod none;
mod renyi;
mod reverse_kullback_leibler;

pub use beta::BetaDivergence;
pub use f_divergence::{FDivergence, Generator};
pub use gamma::GammaDivergence;
pub use jensen_shannon::JensenShannon;
pub use kullback_leibler::KullbackLeibler;
pub use none::NoDivergence;
pub use renyi::Renyi;
pub use reverse_kullback_leibler::ReverseKullbackLeibler;

use std::fmt::Debug;

use partita_core::{Key, Noise};
use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};
use crate::engine::family::{CovarianceMatrix, MomentGradient};
use crate::engine::natural::NormalFamily;

/// A divergence $`D(q \,\|\, p)`$ of normal densities, with its gradient by $`q`$.
///
/// In generalised variational inference a silo minimises $`\mathrm{E}_q[\ell_m(\theta)] + D(q \,\|\, q^{\setminus
/// m})`$: the loss decides what is fitted, the divergence how uncertain the answer is.
///
/// # Laws
/// Zero where $`q = p`$ and positive elsewhere, with the gradient that differences give (`tests/pvi/divergences.rs`).
///
/// # References
/// Knoblauch, Jewson and Damoulas (2022), An optimization-centric view on Bayes' rule.
pub trait Divergence: Debug + Send + Sync {
    /// The divergence in nats of `q` from `p`, both in natural parameters of `family`, with its gradient.
    ///
    /// # Errors
    /// [`Error::Improper`] if one of them is no density; [`Error::DivergenceDomain`] where the integral does not exist;
    /// [`Error::Setting`] for an index or a number of draws with which the divergence means nothing.
    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged>;

    /// As [`Divergence::evaluate`], of the density with this mean and covariance.
    ///
    /// # Errors
    /// As for [`Divergence::evaluate`].
    fn evaluate_at(
        &self,
        family: &NormalFamily,
        (mean, spread): (&[f64], &CovarianceMatrix),
        p: &[f64],
    ) -> Result<Diverged> {
        self.evaluate(family, &family.natural_of_moments(mean, spread)?, p)
    }

    /// Whether there are densities `q` and `p` between which it does not exist.
    fn has_domain(&self) -> bool {
        false
    }

    /// The gradient by the mean parameters of `q`: the natural gradient.
    ///
    /// # Errors
    /// As for [`Divergence::evaluate`].
    fn by_mean_parameters(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Vec<f64>> {
        Ok(family.by_means(&self.evaluate(family, q, p)?.gradient, &family.moments(q).0))
    }
}

/// A divergence with its gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Diverged {
    /// $`D(q \,\|\, p)`$ in nats.
    pub value: f64,
    /// By mean and covariance of $`q`$.
    pub gradient: MomentGradient,
}

/// A divergence in words.
///
/// # Example
/// ```
/// use partita_inference::{Divergence, DivergenceChoice, ExponentialFamily, NormalFamily};
/// use partita_core::{Key, Noise, Purpose};
/// let family = NormalFamily::diagonal(1);
/// let q = family.natural_of_standard(&[0.3, 0.7_f64.sqrt()])?;
/// let p = family.natural_of_standard(&[-0.4, 1.9_f64.sqrt()])?;
/// let renyi = DivergenceChoice::Renyi(0.5).start(Noise::new(1), Key::new(Purpose::Fit, 0));
/// assert!((renyi.evaluate(&family, &q, &p)?.value - 0.428_011_125_2).abs() < 1e-10);
/// # Ok::<(), partita_inference::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DivergenceChoice {
    /// [`KullbackLeibler`], $`\mathrm{KL}(q \,\|\, p)`$: variational inference, seeking one mode.
    #[default]
    KullbackLeibler,
    /// [`ReverseKullbackLeibler`], $`\mathrm{KL}(p \,\|\, q)`$: covering.
    ReverseKullbackLeibler,
    /// [`Renyi`] with this $`\alpha \ge 0`$: below 1 wider posteriors, above 1 narrower ones.
    Renyi(f64),
    /// [`BetaDivergence`] with this $`\beta > 0`$.
    Beta(f64),
    /// [`GammaDivergence`] with this $`\gamma > 0`$.
    Gamma(f64),
    /// [`JensenShannon`], which has no closed form, by this many draws a step.
    JensenShannon {
        /// Draws in an estimate.
        draws: u32,
    },
    /// [`NoDivergence`], $`D = 0`$: nothing holds the posterior but the number of steps.
    None,
}

impl DivergenceChoice {
    /// The divergence; `noise` at `key` is what one without a closed form draws from.
    #[must_use]
    pub fn start(self, noise: Noise, key: Key) -> Box<dyn Divergence> {
        match self {
            Self::KullbackLeibler => Box::new(KullbackLeibler),
            Self::ReverseKullbackLeibler => Box::new(ReverseKullbackLeibler),
            Self::Renyi(alpha) => Box::new(Renyi { alpha }),
            Self::Beta(beta) => Box::new(BetaDivergence { beta }),
            Self::Gamma(gamma) => Box::new(GammaDivergence { gamma }),
            Self::JensenShannon { draws } => Box::new(FDivergence { generator: JensenShannon, draws, noise, key }),
            Self::None => Box::new(NoDivergence),
        }
    }

    /// Refuses indices that mean nothing.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(self) -> Result<()> {
        match self {
            Self::Renyi(alpha) => Renyi { alpha }.check(),
            Self::Beta(beta) => positive("beta", beta),
            Self::Gamma(gamma) => positive("gamma", gamma),
            Self::JensenShannon { draws } => f_divergence::check_draws(draws),
            Self::KullbackLeibler | Self::ReverseKullbackLeibler | Self::None => Ok(()),
        }
    }
}

/// Refuses an index that is no positive number.
fn positive(setting: &'static str, index: f64) -> Result<()> {
    if index > 0.0 && index.is_finite() {
        return Ok(());
    }
    Err(Error::Setting { setting, found: index.to_string(), expected: "a finite number > 0" })
}

/// $`\log(1 + ax)/a`$, which is $`x`$ at $`a = 0`$: the form in which limits of indices lose no digits.
fn log1p_over(a: f64, x: f64) -> f64 {
    if a == 0.0 { x } else { (a * x).ln_1p() / a }
}

/// $`(e^{ax} - 1)/a`$, which is $`x`$ at $`a = 0`$.
fn expm1_over(a: f64, x: f64) -> f64 {
    if a == 0.0 { x } else { (a * x).exp_m1() / a }
}
