//! Gives the unnormalised factor of an exponential family: any natural parameters, of any sign, with a scale.

use super::{ExponentialFamily, dot};
use crate::engine::error::Result;

/// An unnormalised factor $`t(\theta) = \exp(c + \eta^\top T(\theta))`$.
///
/// It need not be a density: a silo's factor may have negative precision, and $`\eta = 0`$, $`c = 0`$ is the factor 1.
///
/// # Example
/// ```
/// use partita_inference::{ExponentialFamily, Factor, NormalFamily};
/// let family = NormalFamily::diagonal(1);
/// let wide = Factor::density(&family, &family.natural_of_standard(&[0.0, 2.0])?)?;
/// let narrow = Factor::density(&family, &family.natural_of_standard(&[0.0, 1.0])?)?;
/// // wide / narrow has precision 1/4 - 1 < 0: a factor, and no density.
/// let ratio = wide.over(&narrow);
/// assert!(family.check("ratio", &ratio.natural).is_err());
/// assert_eq!(ratio.times(&narrow).natural, wide.natural);
/// # Ok::<(), partita_inference::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Factor {
    /// $`\eta`$.
    pub natural: Vec<f64>,
    /// $`c`$, in nats.
    pub log_scale: f64,
}

impl Factor {
    /// The factor 1 of a family.
    #[must_use]
    pub fn one(family: &dyn ExponentialFamily) -> Self {
        Self { natural: vec![0.0; family.natural_len()], log_scale: 0.0 }
    }

    /// The normalised density with these natural parameters.
    ///
    /// # Errors
    /// [`crate::Error::Improper`] if they are those of no density.
    pub fn density(family: &dyn ExponentialFamily, natural: &[f64]) -> Result<Self> {
        family.check("normalising a factor", natural)?;
        Ok(Self { natural: natural.to_vec(), log_scale: -family.log_partition(natural) })
    }

    /// The product of two factors.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        self.combine(1.0, other)
    }

    /// The quotient of two factors.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        self.combine(-1.0, other)
    }

    /// The factor raised to a power.
    #[must_use]
    pub fn power(&self, exponent: f64) -> Self {
        let natural = self.natural.iter().map(|eta| exponent * eta).collect();
        Self { natural, log_scale: exponent * self.log_scale }
    }

    fn combine(&self, sign: f64, other: &Self) -> Self {
        let natural = self.natural.iter().zip(&other.natural).map(|(own, other)| own + sign * other).collect();
        Self { natural, log_scale: self.log_scale + sign * other.log_scale }
    }

    /// $`\log t(\theta)`$ in nats.
    #[must_use]
    pub fn log_value(&self, family: &dyn ExponentialFamily, point: &[f64]) -> f64 {
        self.log_scale + dot(&self.natural, &family.statistics(point))
    }

    /// $`\log \int t(\theta)\,d\theta = c + A(\eta)`$ in nats.
    ///
    /// For the product of a prior density and of silos' factors it is $`\log Z_q`$, PVI's estimate of the evidence less
    /// the silos' local free energies.
    ///
    /// # Errors
    /// [`crate::Error::Improper`] if the integral does not exist.
    pub fn log_integral(&self, family: &dyn ExponentialFamily) -> Result<f64> {
        family.check("integrating a factor", &self.natural)?;
        Ok(self.log_scale + family.log_partition(&self.natural))
    }
}
