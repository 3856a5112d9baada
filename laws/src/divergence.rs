//! Checks the laws of divergences: zero at the cavity, positive elsewhere, with the gradient that differences give.

use partita_core::{Key, Noise, Purpose};
use partita_inference::{
    DiagonalGaussian, Diverged, Divergence, ExponentialFamily, Family, FullRankGaussian, NormalFamily,
};

use crate::difference::within;
use crate::{Violation, derivative};

const SEED: u64 = 161_803;
/// Components of the densities.
const LENGTH: usize = 3;
/// Closed form against closed form, with the condition of a covariance.
const EXACT: f64 = 1e-12;
/// Fourth-order differences with step 1e-3 of functions of order ten.
const DIFFERENCE: f64 = 1e-8;
/// Mean parameters move variances by more than the parameters of a family do.
const BY_MEANS: f64 = 100.0 * DIFFERENCE;

/// A law of [`Divergence`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DivergenceLaw {
    /// The divergence ended with an error.
    #[error("{reason}")]
    Failed {
        /// The error.
        reason: String,
    },
    /// At $`q = p`$ something is not zero.
    #[error("{what} is {found} where q = p, expected 0")]
    Zero {
        /// The value, or the gradient.
        what: &'static str,
        /// What it is.
        found: f64,
    },
    /// At $`q \ne p`$ it is not positive.
    #[error("{found} of two densities that differ, expected a positive number")]
    Positive {
        /// What it is.
        found: f64,
    },
    /// By moments it is another than by natural parameters.
    #[error("{found} by mean and covariance, {expected} by natural parameters")]
    Moments {
        /// By moments.
        found: f64,
        /// By natural parameters.
        expected: f64,
    },
    /// A gradient is not its derivative.
    #[error("the gradient by {by} {index} is {found}, differences give {expected}")]
    Gradient {
        /// By what.
        by: &'static str,
        /// The parameter.
        index: usize,
        /// What the divergence says.
        found: f64,
        /// What differences give.
        expected: f64,
    },
}

/// Checks a divergence between diagonal and between full-rank densities, the first narrower than the second.
///
/// Gradients of one that draws ([`Divergence::keyed`]) are estimates, not derivatives of its value, and are checked to
/// vanish at $`q = p`$ alone.
///
/// # Errors
/// The first [`DivergenceLaw`] that does not hold.
///
/// # Example
/// ```
/// partita_laws::divergence(&partita_inference::Renyi { alpha: 0.5 })?;
/// # Ok::<(), partita_laws::Violation<partita_laws::DivergenceLaw>>(())
/// ```
pub fn divergence(divergence: &dyn Divergence) -> Result<(), Violation<DivergenceLaw>> {
    let families: [(Box<dyn Family>, NormalFamily); 2] = [
        (Box::new(DiagonalGaussian::new(LENGTH)), NormalFamily::diagonal(LENGTH)),
        (Box::new(FullRankGaussian::new(LENGTH)), NormalFamily::full(LENGTH)),
    ];
    families.iter().try_for_each(|(family, natural)| {
        let checked = Pair { divergence, family: &**family, natural }.check();
        checked.map_err(|law| Violation { subject: format!("{divergence:?}"), law })
    })
}

impl From<partita_inference::Error> for DivergenceLaw {
    fn from(error: partita_inference::Error) -> Self {
        Self::Failed { reason: error.to_string() }
    }
}

/// A divergence between members of a family.
struct Pair<'a> {
    divergence: &'a dyn Divergence,
    family: &'a dyn Family,
    natural: &'a NormalFamily,
}

/// A gradient by something at some place, and how far from differences it may be.
struct Slope<'a> {
    by: &'static str,
    gradient: &'a [f64],
    place: &'a [f64],
    bound: f64,
}

impl Pair<'_> {
    fn check(&self) -> Result<(), DivergenceLaw> {
        let (parameters, p) = (self.member(0, 0.6), self.natural(&self.member(1, 1.1))?);
        let q = self.natural(&parameters)?;
        let here = self.divergence.evaluate(self.natural, &p, &p)?;
        let by_means = self.divergence.by_mean_parameters(self.natural, &p, &p)?;
        let slopes = here.gradient.mean.iter().chain(&by_means).copied();
        let zeros = [("the value", here.value)].into_iter().chain(slopes.map(|slope| ("its gradient", slope)));
        for (what, found) in zeros {
            if !within(found, 0.0, EXACT) {
                return Err(DivergenceLaw::Zero { what, found });
            }
        }
        let Diverged { value, gradient } = self.divergence.evaluate(self.natural, &q, &p)?;
        if value.is_nan() || value <= 0.0 {
            return Err(DivergenceLaw::Positive { found: value });
        }
        let (mean, covariance) = (self.family.mean(&parameters), self.family.covariance_matrix(&parameters));
        let found = self.divergence.evaluate_at(self.natural, &mean, &covariance, &p)?.value;
        if !within(found, value, EXACT * (1.0 + value)) {
            return Err(DivergenceLaw::Moments { found, expected: value });
        }
        if self.divergence.keyed(Noise::new(SEED), Key::new(Purpose::Check, 0)).is_some() {
            return Ok(());
        }
        let mut by_parameters = vec![0.0; parameters.len()];
        self.family.vjp_moments(&parameters, &gradient, &mut by_parameters);
        let at = |q: partita_inference::Result<Vec<f64>>| {
            q.and_then(|q| self.divergence.evaluate(self.natural, &q, &p)).map_or(f64::NAN, |found| found.value)
        };
        let by_family = |parameters: &[f64]| at(self.natural(parameters));
        self.compare(
            Slope { by: "parameter", gradient: &by_parameters, place: &parameters, bound: DIFFERENCE },
            by_family,
        )?;
        let means = self.natural.mean_parameters(&q);
        let found = self.divergence.by_mean_parameters(self.natural, &q, &p)?;
        let slope = Slope { by: "mean parameter", gradient: &found, place: &means, bound: BY_MEANS };
        self.compare(slope, |means| at(self.natural.natural_of_mean(means)))
    }

    /// Compares a gradient with the differences of a function.
    fn compare(&self, slope: Slope<'_>, function: impl Fn(&[f64]) -> f64) -> Result<(), DivergenceLaw> {
        for (index, &found) in slope.gradient.iter().enumerate() {
            let expected = derivative(&function, slope.place, index);
            if !within(found, expected, slope.bound * (1.0 + expected.abs())) {
                return Err(DivergenceLaw::Gradient { by: slope.by, index, found, expected });
            }
        }
        Ok(())
    }

    fn member(&self, number: u64, scale: f64) -> Vec<f64> {
        let mut parameters = self.family.initial(scale);
        let mut noise = vec![0.0; parameters.len()];
        Noise::new(SEED).stream(Key::new(Purpose::Check, number)).normal(&mut noise);
        parameters.iter_mut().zip(noise).for_each(|(parameter, noise)| *parameter += 0.2 * noise);
        parameters
    }

    fn natural(&self, parameters: &[f64]) -> partita_inference::Result<Vec<f64>> {
        self.natural.natural_of_member(self.family, parameters)
    }
}
