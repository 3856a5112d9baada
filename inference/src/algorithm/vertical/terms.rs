//! Computes what the auxiliary variables of a party add to the bound, and the gradients by what they were made of.

use crate::estimator::Estimator;

/// One draw of the auxiliary variables of some rows, $`z = \mu + e^{s}\tau`$ around contributions $`g`$.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    /// $`g`$.
    pub(super) contribution: &'a [f64],
    /// $`\mu`$.
    pub(super) mean: &'a [f64],
    /// $`s`$.
    pub(super) log_scale: &'a [f64],
    /// $`e^s`$.
    pub(super) scale: &'a [f64],
    /// $`\tau`$.
    pub(super) noise: &'a [f64],
    /// $`z`$.
    pub(super) value: &'a [f64],
    /// $`\rho`$.
    pub(super) rho: f64,
    /// $`N/B`$.
    pub(super) weight: f64,
}

/// Gradients by what a draw of auxiliary variables was made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Reached {
    pub(super) mean: Vec<f64>,
    pub(super) log_scale: Vec<f64>,
    /// By the contribution as the mean of the prior, without the path through $`\mu`$ and $`s`$.
    pub(super) contribution: Vec<f64>,
}

impl Around<'_> {
    /// $`\frac NB \sum_i [\log N(z_i \mid g_i, \rho^2) - \log q(z_i)]`$, or its mean over $`\tau`$ where the entropy is in
    /// closed form.
    pub(super) fn bound(&self, estimator: Estimator) -> f64 {
        let log_rho = self.rho.ln();
        let precision = self.rho.powi(-2);
        let rows = self.contribution.iter().zip(self.log_scale);
        let sum: f64 = if estimator == Estimator::ClosedFormEntropy {
            let rows = rows.zip(self.mean).zip(self.scale);
            rows.map(|(((g, s), m), e)| s - log_rho + 0.5 - 0.5 * precision * (e * e + (m - g).powi(2))).sum()
        } else {
            // The constants of prior and posterior cancel.
            let rows = rows.zip(self.value).zip(self.noise);
            rows.map(|(((g, s), z), t)| s - log_rho + 0.5 * (t * t - precision * (z - g).powi(2))).sum()
        };
        self.weight * sum
    }

    /// The gradient of the bound and of what else depends on $`z`$, of which `by_value` is the gradient, $`N/B`$ included.
    pub(super) fn reach(&self, estimator: Estimator, by_value: &[f64]) -> Reached {
        let precision = self.weight * self.rho.powi(-2);
        let mut out = Reached::default();
        for vector in [&mut out.mean, &mut out.log_scale, &mut out.contribution] {
            vector.reserve_exact(by_value.len());
        }
        let rows = by_value.iter().zip(self.contribution).zip(self.mean).zip(self.scale).zip(self.noise);
        for (((((by_value, g), mean), scale), tau), z) in rows.zip(self.value) {
            let (by_mean, by_log_scale, pull);
            if estimator == Estimator::ClosedFormEntropy {
                pull = precision * (mean - g);
                by_mean = by_value - pull;
                by_log_scale = by_value * scale * tau + self.weight - precision * scale * scale;
            } else {
                // Sticking the landing leaves the path through log q(z) alone: -d log q/dz = tau / sigma.
                let landing = estimator == Estimator::StickingTheLanding;
                let (score, entropy) = if landing { (self.weight * tau / scale, 0.0) } else { (0.0, self.weight) };
                pull = precision * (z - g);
                by_mean = by_value - pull + score;
                by_log_scale = by_mean * scale * tau + entropy;
            }
            out.mean.push(by_mean);
            out.log_scale.push(by_log_scale);
            out.contribution.push(pull);
        }
        out
    }
}
