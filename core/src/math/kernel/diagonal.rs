//! Draws from a Gaussian with independent components in one pass: value, deviation, score and log density.

use super::block::{BLOCK, sum_blocks};
use super::polynomial::exp;

/// What [`diagonal_draw`] reads, and where it writes; all of one length.
#[derive(Debug)]
pub struct DiagonalDraw<'a> {
    /// The means $\mu$.
    pub mean: &'a [f64],
    /// The logarithms $\rho$ of the standard deviations.
    pub log_scale: &'a [f64],
    /// Standard normal numbers $\varepsilon$.
    pub noise: &'a [f64],
    /// Receives $\mu + e^\rho\varepsilon$.
    pub latent: &'a mut [f64],
    /// Receives $e^\rho\varepsilon$.
    pub deviation: &'a mut [f64],
    /// Receives $-\varepsilon e^{-\rho}$, the gradient of the log density by the value.
    pub score: &'a mut [f64],
}

impl DiagonalDraw<'_> {
    fn fit(&self) -> bool {
        let lengths =
            [self.log_scale.len(), self.noise.len(), self.latent.len(), self.deviation.len(), self.score.len()];
        lengths == [self.mean.len(); 5]
    }
}

dispatch! {
    /// Draws, and returns $\sum_i -\rho_i - \tfrac12 \varepsilon_i^2$: the log density but for its constant, in nats.
    ///
    /// # Numerics
    /// The exponential errs by at most one unit in the last place, everything else is rounded once.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    diagonal_draw(draw: &mut DiagonalDraw<'_>) -> f64
    where draw.fit();
    vector, scalar
}

#[inline(always)]
fn vector(draw: &mut DiagonalDraw<'_>) -> f64 {
    sum_blocks!(draw.mean.len(), |io, start| {
        let (mean, log_scale, noise) =
            (io.load(draw.mean, start), io.load(draw.log_scale, start), io.load(draw.noise, start));
        let (mut latent, mut deviation, mut score, mut terms) = (mean, noise, noise, log_scale);
        for lane in 0..BLOCK {
            let scale = exp(log_scale[lane]);
            deviation[lane] = scale * noise[lane];
            latent[lane] = mean[lane] + deviation[lane];
            score[lane] = -noise[lane] / scale;
            terms[lane] = -log_scale[lane] - 0.5 * noise[lane] * noise[lane];
        }
        io.store(draw.latent, start, &latent);
        io.store(draw.deviation, start, &deviation);
        io.store(draw.score, start, &score);
        terms
    })
}

fn scalar(draw: &mut DiagonalDraw<'_>) -> f64 {
    let mut sum = 0.0;
    for index in 0..draw.mean.len() {
        let (scale, noise) = (draw.log_scale[index].exp(), draw.noise[index]);
        draw.deviation[index] = scale * noise;
        draw.latent[index] = draw.mean[index] + draw.deviation[index];
        draw.score[index] = -noise / scale;
        sum += -draw.log_scale[index] - 0.5 * noise * noise;
    }
    sum
}
