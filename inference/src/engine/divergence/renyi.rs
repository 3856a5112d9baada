//! Gives the divergence of Rényi, which widens or narrows posteriors by one number.

use serde::{Deserialize, Serialize};

use super::axes::{Axes, Slopes};
use super::{Diverged, Divergence, log1p_over};
use crate::engine::error::{Error, Result};
use crate::engine::natural::NormalFamily;

/// The $`\alpha`$-Rényi divergence in the scaling of Liese and Vajda, $`\alpha \ge 0`$,
/// ```math
/// D_\alpha(q \,\|\, p) = \frac{1}{\alpha(\alpha-1)} \log\int q^\alpha p^{1-\alpha}
///   = \frac{A(\alpha\eta_q + (1-\alpha)\eta_p)}{\alpha(\alpha-1)} - \frac{A(\eta_q)}{\alpha-1} + \frac{A(\eta_p)}{\alpha},
/// ```
/// with $`\alpha`$ = `alpha` and the log partition function $`A`$. At 1 it is $`\mathrm{KL}(q \,\|\, p)`$, at 0
/// $`\mathrm{KL}(p \,\|\, q)`$.
///
/// It exists where $`T = \alpha\Sigma_p + (1-\alpha)\Sigma_q`$ is positive definite: for $`\alpha > 1`$ where the
/// variance of $`q`$ stays below $`\alpha/(\alpha-1)`$ times that of $`p`$ in every direction, 1.67 times for $`\alpha
/// = 2.5`$. A posterior that is narrower than its cavity always is.
///
/// # Numerics
/// No digit is lost near 0 and 1: with $`r`$ the variances of $`p`$ in those of $`q`$ the logarithm is
/// $`\tfrac{1}{2(1-\alpha)}[\alpha^{-1}\log(1 + \alpha(r-1)) - \log r]`$ below one half and
/// $`\tfrac{1}{2\alpha}[\log r + (1-\alpha)^{-1}\log(1 + (1-\alpha)(r^{-1}-1))]`$ above.
///
/// # References
/// Gil, Alajaji and Linder (2013), Rényi divergence measures for commonly used univariate continuous distributions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Renyi {
    /// The index.
    pub alpha: f64,
}

impl Divergence for Renyi {
    fn check(&self) -> Result<()> {
        let expected = "a finite number >= 0; a negative one is 1 - alpha with p and q swapped";
        Error::unless(self.alpha >= 0.0 && self.alpha.is_finite(), "alpha of Rényi", self.alpha, expected)
    }

    fn has_domain(&self) -> bool {
        self.alpha > 1.0
    }

    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged> {
        self.check()?;
        let alpha = self.alpha;
        let axes = Axes::new("Rényi divergence", family, q, p)?;
        if alpha > 1.0 {
            axes.above((alpha - 1.0) / alpha, "Rényi divergence", alpha)?;
        }
        let mixed: Vec<f64> = axes.ratio.iter().map(|r| 1.0 + alpha * (r - 1.0)).collect();
        let one = |((w, r), t): ((&f64, &f64), &f64)| {
            let spread = if alpha <= 0.5 {
                (log1p_over(alpha, r - 1.0) - r.ln()) / (1.0 - alpha)
            } else {
                (r.ln() + log1p_over(1.0 - alpha, r.recip() - 1.0)) / alpha
            };
            0.5 * (w * w / t + spread)
        };
        let value = axes.offset.iter().zip(&axes.ratio).zip(&mixed).map(one).sum();
        let gradient = axes.gradient(&Slopes {
            direction: axes.offset.iter().zip(&mixed).map(|(w, t)| w / t).collect(),
            by_mean: 1.0,
            by_variance: axes.ratio.iter().zip(&mixed).map(|(r, t)| -0.5 * (r - 1.0) / t).collect(),
            outer: -0.5 * (1.0 - alpha),
        });
        Ok(Diverged { value, gradient })
    }
}
