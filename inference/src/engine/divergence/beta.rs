//! Gives the beta divergence, the density power divergence of Basu and others.

use serde::{Deserialize, Serialize};

use super::axes::{Axes, Slopes};
use super::gamma::Integrals;
use super::{Diverged, Divergence, expm1_over, log1p_over};
use crate::engine::error::{Error, Result};
use crate::engine::natural::NormalFamily;

/// The beta divergence, $`\beta`$ = `beta` > 0,
/// ```math
/// D_\beta(q \,\|\, p) = \frac{1}{\beta(\beta-1)}\int q^\beta + \frac1\beta\int p^\beta - \frac{1}{\beta-1}\int q\,p^{\beta-1},
/// ```
/// which at 1 is $`\mathrm{KL}(q \,\|\, p)`$. Its integrals are products over components: it changes with the unit of
/// the latents, and overflows or vanishes in many dimensions. Where an integral is below the smallest number there is
/// no gradient left to follow, and that is an error.
///
/// For $`\beta < 1`$ the variance of $`q`$ must stay below $`1/(1-\beta)`$ times that of $`p`$.
///
/// # Numerics
/// The differences of integrals over $`\beta - 1`$ are taken as $`e^x - 1`$ of logarithms over $`\beta - 1`$, which
/// lose nothing near 1.
///
/// # References
/// Basu, Harris, Hjort and Jones (1998), Robust and efficient estimation by minimising a density power divergence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BetaDivergence {
    /// The index.
    pub beta: f64,
}

impl BetaDivergence {
    /// The error for integrals of $`q^\beta`$ and $`q\,p^{\beta-1}`$ with these logarithms, one of them too small for a
    /// number.
    fn vanished(self, axes: &Axes, [own, cross]: [f64; 2]) -> Error {
        let excess = self.beta - 1.0;
        let cost = |place: usize| {
            let (w, r) = (axes.offset[place], axes.ratio[place]);
            // What this axis takes from the logarithm, both integrals together.
            let scale = 2.0 * axes.component(place).1.abs().ln() + 0.5 * r.ln();
            excess * (scale + 0.5 * log1p_over(excess, r.recip()) + 0.5 * w * w / (r + excess))
        };
        let worst = (0..axes.ratio.len()).max_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(0);
        let (component, deviation) = axes.component(worst);
        Error::Setting {
            setting: "divergence",
            found: format!(
                "Beta({}) over {} components, with integrals of q^beta and q p^(beta-1) of e^{own:.0} and e^{cross:.0}, too small for a number; most of it by component {component} of variance {:.3e}, {:.3e} standard deviations from its cavity",
                self.beta,
                axes.ratio.len(),
                deviation * deviation,
                axes.offset.get(worst).copied().unwrap_or(f64::NAN).abs()
            ),
            expected: "integrals above e^-708: fewer latents, latents in units in which they are neither wide nor narrow, or an index nearer to 1; Gamma and Renyi have no such limit",
        }
    }
}

impl Divergence for BetaDivergence {
    fn check(&self) -> Result<()> {
        Error::unless_positive("beta", self.beta)
    }

    fn has_domain(&self) -> bool {
        self.beta < 1.0
    }

    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Diverged> {
        self.check()?;
        let (beta, excess) = (self.beta, self.beta - 1.0);
        let axes = Axes::new("beta divergence", family, q, p)?;
        let Integrals { own, other, cross } = Integrals::new(&axes, "beta divergence", beta)?;
        // With x = log∫q^β / c, y = log∫q p^c / c and z = log∫p^β / c for c = β - 1.
        let value =
            expm1_over(excess, own) / beta - expm1_over(excess, cross) + excess * expm1_over(excess, other) / beta;
        let logs = [excess * own, excess * cross];
        let [own, cross] = logs.map(f64::exp);
        if own < f64::MIN_POSITIVE || cross < f64::MIN_POSITIVE {
            return Err(self.vanished(&axes, logs));
        }
        let found = format_args!(
            "Beta({beta}) over {} components, with a value of {value} and integrals of e^{:.0} and e^{:.0}, too large for a number",
            axes.ratio.len(),
            logs[0],
            logs[1]
        );
        let expected = "an index nearer to 1, or GammaDivergence, which takes logarithms of the integrals";
        Error::unless([value, own, cross].iter().all(|each| each.is_finite()), "divergence", found, expected)?;
        let gradient = axes.gradient(&Slopes {
            direction: axes.offset.iter().zip(&axes.ratio).map(|(w, r)| w / (r + excess)).collect(),
            by_mean: cross,
            by_variance: axes.ratio.iter().map(|r| 0.5 * (cross / (r + excess) - own / beta)).collect(),
            outer: -0.5 * excess * cross,
        });
        Ok(Diverged { value, gradient })
    }
}
