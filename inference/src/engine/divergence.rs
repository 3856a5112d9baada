//! States what keeps a posterior near its prior or cavity in generalised variational inference.

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

use std::any::Any;
use std::fmt::Debug;

use partita_core::{Key, Noise};

use crate::engine::error::Result;
use crate::engine::family::{CovarianceMatrix, MomentGradient};
use crate::engine::natural::NormalFamily;
use crate::engine::plug::{Plug, plug};

/// A divergence $`D(q \,\|\, p)`$ of normal densities, with its gradient by $`q`$.
///
/// In generalised variational inference a silo minimises $`\mathrm{E}_q[\ell_m(\theta)] + D(q \,\|\, q^{\setminus
/// m})`$: the loss decides what is fitted, the divergence how uncertain the answer is.
///
/// # Laws
/// `laws::divergence` checks that it is zero with gradient zero where $`q = p`$ and positive elsewhere, and that its
/// gradient is the one that differences give.
///
/// # Example
/// ```
/// use partita_inference::{Divergence, ExponentialFamily, NormalFamily, Renyi};
/// let family = NormalFamily::diagonal(1);
/// let q = family.natural_of_standard(&[0.3, 0.7_f64.sqrt()])?;
/// let p = family.natural_of_standard(&[-0.4, 1.9_f64.sqrt()])?;
/// assert!((Renyi { alpha: 0.5 }.evaluate(&family, &q, &p)?.value - 0.428_011_125_2).abs() < 1e-10);
/// # Ok::<(), partita_inference::Error>(())
/// ```
///
/// # References
/// Knoblauch, Jewson and Damoulas (2022), An optimization-centric view on Bayes' rule.
pub trait Divergence: Any + Debug + Send + Sync {
    /// The divergence in nats of `q` from `p`, both in natural parameters of `family`, with its gradient.
    ///
    /// # Errors
    /// [`crate::Error::Improper`] if one of them is no density; [`crate::Error::DivergenceDomain`] where the integral does not exist;
    /// [`crate::Error::Setting`] for an index or a number of draws with which the divergence means nothing.
    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged>;

    /// As [`Divergence::evaluate`], of the density with this mean and covariance.
    ///
    /// # Errors
    /// As for [`Divergence::evaluate`].
    fn evaluate_at(
        &self,
        family: &NormalFamily,
        mean: &[f64],
        covariance: &CovarianceMatrix,
        p: &[f64],
    ) -> Result<Diverged> {
        self.evaluate(family, &family.natural_of_moments(mean, covariance)?, p)
    }

    /// Whether there are densities `q` and `p` between which it does not exist.
    fn has_domain(&self) -> bool {
        false
    }

    /// The same divergence with the draws of this key, for one without a closed form; `None` for the others.
    fn keyed(&self, _noise: Noise, _key: Key) -> Option<Plug<dyn Divergence>> {
        None
    }

    /// Refuses an index or a number of draws with which it means nothing.
    ///
    /// # Errors
    /// [`crate::Error::Setting`].
    fn check(&self) -> Result<()> {
        Ok(())
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

plug! {
    Divergence, "a divergence",
    names {
        KullbackLeibler: KullbackLeibler, ReverseKullbackLeibler: ReverseKullbackLeibler, None: NoDivergence
    },
    values {
        Renyi: Renyi, Beta: BetaDivergence, Gamma: GammaDivergence, JensenShannon: FDivergence<JensenShannon>
    }
}

impl Default for Plug<dyn Divergence> {
    fn default() -> Self {
        KullbackLeibler.into()
    }
}

/// $`\log(1 + ax)/a`$, which is $`x`$ at $`a = 0`$: the form in which limits of indices lose no digits.
fn log1p_over(a: f64, x: f64) -> f64 {
    if a == 0.0 { x } else { (a * x).ln_1p() / a }
}

/// $`(e^{ax} - 1)/a`$, which is $`x`$ at $`a = 0`$.
fn expm1_over(a: f64, x: f64) -> f64 {
    if a == 0.0 { x } else { (a * x).exp_m1() / a }
}
