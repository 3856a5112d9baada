//! Checks the laws of divergences: zero at the cavity, positive elsewhere, with the gradient that differences give.

use partita_core::{Key, Noise, Purpose};
use partita_inference::{
    DiagonalGaussian, Diverged, Divergence, ExponentialFamily, Family, FullRankGaussian, NormalFamily,
};

use crate::derivative;
use crate::difference::within;

const SEED: u64 = 161_803;
/// Components of the densities.
const LENGTH: usize = 3;
/// Closed form against closed form, with the condition of a covariance.
const EXACT: f64 = 1e-12;
/// Fourth-order differences with step 1e-3 of functions of order ten.
const DIFFERENCE: f64 = 1e-8;
/// Mean parameters move variances by more than the parameters of a family do.
const BY_MEANS: f64 = 100.0 * DIFFERENCE;

/// A law of [`Divergence`] that does not hold.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DivergenceViolation {
    /// The divergence ended with an error.
    #[error("{divergence}: {reason}")]
    Failed {
        /// The divergence.
        divergence: String,
        /// The error.
        reason: String,
    },
    /// At $`q = p`$ something is not zero.
    #[error("{divergence}: {what} is {found} where q = p, expected 0")]
    Zero {
        /// The divergence.
        divergence: String,
        /// The value, or the gradient.
        what: &'static str,
        /// What it is.
        found: f64,
    },
    /// At $`q \ne p`$ it is not positive.
    #[error("{divergence}: {found} of two densities that differ, expected a positive number")]
    Positive {
        /// The divergence.
        divergence: String,
        /// What it is.
        found: f64,
    },
    /// By moments it is another than by natural parameters.
    #[error("{divergence}: {found} by mean and covariance, {expected} by natural parameters")]
    Moments {
        /// The divergence.
        divergence: String,
        /// By moments.
        found: f64,
        /// By natural parameters.
        expected: f64,
    },
    /// A gradient is not its derivative.
    #[error("{divergence}: the gradient by {by} {index} is {found}, differences give {expected}")]
    Gradient {
        /// The divergence.
        divergence: String,
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
/// The first [`DivergenceViolation`] found.
///
/// # Example
/// ```
/// partita_laws::divergence(&partita_inference::Renyi { alpha: 0.5 })?;
/// # Ok::<(), partita_laws::DivergenceViolation>(())
/// ```
pub fn divergence(divergence: &dyn Divergence) -> Result<(), DivergenceViolation> {
    let families: [(Box<dyn Family>, NormalFamily); 2] = [
        (Box::new(DiagonalGaussian::new(LENGTH)), NormalFamily::diagonal(LENGTH)),
        (Box::new(FullRankGaussian::new(LENGTH)), NormalFamily::full(LENGTH)),
    ];
    families.iter().try_for_each(|(family, natural)| {
        let pair = Pair { divergence, family: &**family, natural };
        pair.check().map_err(|error| match error {
            Broken::Law(violation) => violation,
            Broken::Failed(error) => DivergenceViolation::Failed { divergence: pair.name(), reason: error.to_string() },
        })
    })
}

/// Why a check ended.
enum Broken {
    Law(DivergenceViolation),
    Failed(partita_inference::Error),
}

impl From<partita_inference::Error> for Broken {
    fn from(error: partita_inference::Error) -> Self {
        Self::Failed(error)
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
    fn name(&self) -> String {
        format!("{:?}", self.divergence)
    }

    fn check(&self) -> Result<(), Broken> {
        let (parameters, p) = (self.member(0, 0.6), self.natural(&self.member(1, 1.1))?);
        let q = self.natural(&parameters)?;
        let here = self.divergence.evaluate(self.natural, &p, &p)?;
        let by_means = self.divergence.by_mean_parameters(self.natural, &p, &p)?;
        let slopes = here.gradient.mean.iter().chain(&by_means).copied();
        let zeros = [("the value", here.value)].into_iter().chain(slopes.map(|slope| ("its gradient", slope)));
        for (what, found) in zeros {
            if !within(found, 0.0, EXACT) {
                return Err(Broken::Law(DivergenceViolation::Zero { divergence: self.name(), what, found }));
            }
        }
        let Diverged { value, gradient } = self.divergence.evaluate(self.natural, &q, &p)?;
        if value.is_nan() || value <= 0.0 {
            return Err(Broken::Law(DivergenceViolation::Positive { divergence: self.name(), found: value }));
        }
        let (mean, covariance) = (self.family.mean(&parameters), self.family.covariance_matrix(&parameters));
        let found = self.divergence.evaluate_at(self.natural, &mean, &covariance, &p)?.value;
        if !within(found, value, EXACT * (1.0 + value)) {
            return Err(Broken::Law(DivergenceViolation::Moments { divergence: self.name(), found, expected: value }));
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
    fn compare(&self, slope: Slope<'_>, function: impl Fn(&[f64]) -> f64) -> Result<(), Broken> {
        for (index, &found) in slope.gradient.iter().enumerate() {
            let expected = derivative(&function, slope.place, index);
            if !within(found, expected, slope.bound * (1.0 + expected.abs())) {
                let (divergence, by) = (self.name(), slope.by);
                return Err(Broken::Law(DivergenceViolation::Gradient { divergence, by, index, found, expected }));
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
