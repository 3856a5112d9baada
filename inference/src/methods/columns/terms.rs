//! Computes what the auxiliary variables of a party add to the bound, and the gradients by what they were made of.

use partita_core::Precision;
use partita_core::kernel::{DrawEntropy, DrawSlopes, dot, draw_slopes};

use crate::engine::estimator::Estimator;

/// What is the same for all auxiliary variables of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) estimator: Estimator,
    /// $`\rho`$.
    pub(super) rho: f64,
    /// $`N/B`$.
    pub(super) weight: f64,
    /// That of a network's hidden units and their derivatives; everything else is in double precision.
    pub(super) precision: Precision,
}

/// One draw of the auxiliary variables of some rows, $`z = \mu + e^{s}\tau`$ around contributions $`g`$.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    /// $`g`$.
    pub(super) contribution: &'a [f64],
    /// $`\mu`$.
    pub(super) mean: &'a [f64],
    /// $`e^s`$.
    pub(super) scale: &'a [f64],
    /// $`\tau`$.
    pub(super) noise: &'a [f64],
    /// $`z`$.
    pub(super) value: &'a [f64],
}

/// Gradients by what a draw of auxiliary variables was made of, each with one slot a variable.
#[derive(Debug)]
pub(super) struct Reached<'a> {
    pub(super) mean: &'a mut [f64],
    pub(super) log_scale: &'a mut [f64],
    /// By the contribution as the mean of the prior, without the path through $`\mu`$ and $`s`$.
    pub(super) contribution: &'a mut [f64],
}

/// The sum of numbers in eight running parts.
fn sum(values: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    for part in values.chunks(lanes.len()) {
        lanes.iter_mut().zip(part).for_each(|(lane, value)| *lane += value);
    }
    lanes.iter().sum()
}

impl Terms {
    /// $`\frac NB \sum_i [\log N(z_i \mid g_i, \rho^2) - \log q(z_i)]`$, or its mean over $`\tau`$ where the entropy is
    /// in closed form, with $`s`$ = `log_scale`.
    pub(super) fn bound(&self, around: &Around<'_>, log_scale: &[f64]) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^52")]
        let count = log_scale.len() as f64;
        let precision = self.rho.powi(-2);
        let squares = |values: &[f64]| {
            let away: Vec<f64> = values.iter().zip(around.contribution).map(|(value, g)| value - g).collect();
            precision * dot(&away, &away)
        };
        let twice = if self.estimator == Estimator::ClosedFormEntropy {
            count - precision * dot(around.scale, around.scale) - squares(around.mean)
        } else {
            // The constants of prior and posterior cancel.
            dot(around.noise, around.noise) - squares(around.value)
        };
        self.weight * (sum(log_scale) - count * self.rho.ln() + 0.5 * twice)
    }

    /// The gradient of the bound and of what else depends on $`z`$, of which `by_value` is the gradient, $`N/B`$
    /// included.
    pub(super) fn reach(&self, around: &Around<'_>, by_value: &[f64], out: &mut Reached<'_>) {
        let (precision, weight) = (self.weight * self.rho.powi(-2), self.weight);
        let (entropy, centre) = match self.estimator {
            Estimator::ClosedFormEntropy => (DrawEntropy::Closed, around.mean),
            // Leaves the path through log q(z) alone: -d log q/dz = tau / sigma.
            Estimator::StickingTheLanding => (DrawEntropy::Path, around.value),
            _ => (DrawEntropy::Total, around.value),
        };
        let given = [by_value, around.contribution, centre, around.scale, around.noise];
        let out = [&mut *out.mean, &mut *out.log_scale, &mut *out.contribution];
        draw_slopes(DrawSlopes { entropy, precision, weight }, given, out);
    }
}
