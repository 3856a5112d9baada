//! Gives the beta divergence, the density power divergence of Basu and others.

use super::axes::{Axes, Slopes};
use super::gamma::Integrals;
use super::{Diverged, Divergence, expm1_over};
use crate::error::{Error, Result};
use crate::exponential_family::NormalFamily;

/// The beta divergence, $`\beta`$ = `beta` > 0,
/// ```math
/// D_\beta(q \,\|\, p) = \frac{1}{\beta(\beta-1)}\int q^\beta + \frac1\beta\int p^\beta - \frac{1}{\beta-1}\int q\,p^{\beta-1},
/// ```
/// which at 1 is $`\mathrm{KL}(q \,\|\, p)`$. Its integrals are products over components: it changes with the unit of the
/// latents, and overflows or vanishes in many dimensions.
///
/// For $`\beta < 1`$ the variance of $`q`$ must stay below $`1/(1-\beta)`$ times that of $`p`$.
///
/// # Numerics
/// The differences of integrals over $`\beta - 1`$ are taken as $`e^x - 1`$ of logarithms over $`\beta - 1`$, which lose
/// nothing near 1.
///
/// # References
/// Basu, Harris, Hjort and Jones (1998), Robust and efficient estimation by minimising a density power divergence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BetaDivergence {
    /// The index.
    pub beta: f64,
}

impl Divergence for BetaDivergence {
    fn has_domain(&self) -> bool {
        self.beta < 1.0
    }

    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged> {
        let (beta, excess) = (self.beta, self.beta - 1.0);
        let axes = Axes::new("beta divergence", family, q, p)?;
        let Integrals { own, other, cross } = Integrals::new(&axes, excess, ("beta divergence", beta))?;
        // With x = log∫q^β / c, y = log∫q p^c / c and z = log∫p^β / c for c = β - 1.
        let value =
            expm1_over(excess, own) / beta - expm1_over(excess, cross) + excess * expm1_over(excess, other) / beta;
        let (own, cross) = ((excess * own).exp(), (excess * cross).exp());
        if !(value.is_finite() && own.is_finite() && cross.is_finite()) {
            return Err(Error::NotFinite {
                who: "the beta divergence of a posterior from its cavity".into(),
                step: 0,
                quantity: format!("its value with index {beta} over {} components", axes.ratio.len()),
                found: value,
            });
        }
        let gradient = axes.gradient(&Slopes {
            direction: axes.offset.iter().zip(&axes.ratio).map(|(w, r)| w / (r + excess)).collect(),
            by_mean: cross,
            by_variance: axes.ratio.iter().map(|r| 0.5 * (cross / (r + excess) - own / beta)).collect(),
            outer: -0.5 * excess * cross,
        });
        Ok(Diverged { value, gradient })
    }
}
