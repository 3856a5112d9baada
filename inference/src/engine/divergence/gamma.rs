//! Gives the gamma divergence, which does not see the scale of densities.

use serde::{Deserialize, Serialize};

use super::axes::{Axes, Slopes};
use super::{Diverged, Divergence, log1p_over};
use crate::engine::error::{Error, Result};
use crate::engine::family::HALF_LOG_TWO_PI;
use crate::engine::natural::NormalFamily;

/// The gamma divergence, $`\gamma`$ = `gamma` > 0,
/// ```math
/// D_\gamma(q \,\|\, p) = \frac{1}{\gamma(\gamma-1)}\log\int q^\gamma + \frac1\gamma\log\int p^\gamma
///   - \frac{1}{\gamma-1}\log\int q\,p^{\gamma-1},
/// ```
/// which at 1 is $`\mathrm{KL}(q \,\|\, p)`$ and, unlike the beta divergence, a sum over independent components that
/// does not change with the unit of the latents.
///
/// For $`\gamma < 1`$ the variance of $`q`$ must stay below $`1/(1-\gamma)`$ times that of $`p`$.
///
/// # References
/// Fujisawa and Eguchi (2008), Robust parameter estimation with a small bias against heavy contamination.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GammaDivergence {
    /// The index.
    pub gamma: f64,
}

/// Logarithms of integrals of powers, over $`c`$ = the index less 1, with their limits at $`c = 0`$.
#[derive(Debug, Clone, Copy)]
pub(super) struct Integrals {
    /// $`\log\int q^{1+c} / c`$.
    pub(super) own: f64,
    /// $`\log\int p^{1+c} / c`$.
    pub(super) other: f64,
    /// $`\log\int q\,p^c / c`$.
    pub(super) cross: f64,
}

impl Integrals {
    /// The integrals of `q` and `p` in their common axes, for the divergence of this index.
    pub(super) fn new(axes: &Axes, divergence: &'static str, index: f64) -> Result<Self> {
        let excess = index - 1.0;
        if excess < 0.0 {
            axes.above(-excess, divergence, index)?;
        }
        let power = log1p_over(excess, 1.0);
        let mut integrals = Self { own: -axes.log_scale, other: -axes.log_scale, cross: -axes.log_scale };
        for (w, r) in axes.offset.iter().zip(&axes.ratio) {
            integrals.own -= HALF_LOG_TWO_PI + 0.5 * power;
            integrals.other -= HALF_LOG_TWO_PI + 0.5 * (r.ln() + power);
            integrals.cross -= HALF_LOG_TWO_PI + 0.5 * (r.ln() + log1p_over(excess, r.recip()) + w * w / (r + excess));
        }
        Ok(integrals)
    }
}

impl Divergence for GammaDivergence {
    fn check(&self) -> Result<()> {
        Error::unless_positive("gamma", self.gamma)
    }

    fn has_domain(&self) -> bool {
        self.gamma < 1.0
    }

    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged> {
        self.check()?;
        let (gamma, excess) = (self.gamma, self.gamma - 1.0);
        let axes = Axes::new("gamma divergence", family, q, p)?;
        let Integrals { own, other, cross } = Integrals::new(&axes, "gamma divergence", gamma)?;
        let gradient = axes.gradient(&Slopes {
            direction: axes.offset.iter().zip(&axes.ratio).map(|(w, r)| w / (r + excess)).collect(),
            by_mean: 1.0,
            by_variance: axes.ratio.iter().map(|r| 0.5 * ((r + excess).recip() - gamma.recip())).collect(),
            outer: -0.5 * excess,
        });
        Ok(Diverged { value: own / gamma + excess * other / gamma - cross, gradient })
    }
}
