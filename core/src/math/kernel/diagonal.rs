//! Draws from a Gaussian with independent components in one pass, and takes gradients by the draw back to scales in another.

use super::block::{BLOCK, Padded, sum_blocks, takes};
use super::polynomial::exp;

/// What [`diagonal_draw`] reads, and where it writes; all of one length, but for a score that nobody asks for.
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
    /// Receives $-\varepsilon e^{-\rho}$, the gradient of the log density by the value; empty for none.
    pub score: &'a mut [f64],
}

impl DiagonalDraw<'_> {
    fn fit(&self) -> bool {
        let lengths = [self.log_scale.len(), self.noise.len(), self.latent.len(), self.deviation.len()];
        lengths == [self.mean.len(); 4] && takes(self.score, self.mean.len())
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
    if draw.score.is_empty() { blocks::<false>(draw) } else { blocks::<true>(draw) }
}

#[inline(always)]
fn blocks<const SCORE: bool>(draw: &mut DiagonalDraw<'_>) -> f64 {
    sum_blocks!(draw.mean.len(), |io, start| {
        let (mean, log_scale, noise) =
            (io.load(draw.mean, start), io.load(draw.log_scale, start), io.load(draw.noise, start));
        let (mut latent, mut deviation, mut score, mut terms) = (mean, noise, noise, log_scale);
        for lane in 0..BLOCK {
            let scale = exp(log_scale[lane]);
            deviation[lane] = scale * noise[lane];
            latent[lane] = mean[lane] + deviation[lane];
            if SCORE {
                score[lane] = -noise[lane] / scale;
            }
            terms[lane] = -log_scale[lane] - 0.5 * noise[lane] * noise[lane];
        }
        io.store(draw.latent, start, &latent);
        io.store(draw.deviation, start, &deviation);
        if SCORE {
            io.store(draw.score, start, &score);
        }
        terms
    })
}

fn scalar(draw: &mut DiagonalDraw<'_>) -> f64 {
    let mut sum = 0.0;
    for index in 0..draw.mean.len() {
        let (scale, noise) = (draw.log_scale[index].exp(), draw.noise[index]);
        draw.deviation[index] = scale * noise;
        draw.latent[index] = draw.mean[index] + draw.deviation[index];
        if let Some(score) = draw.score.get_mut(index) {
            *score = -noise / scale;
        }
        sum += -draw.log_scale[index] - 0.5 * noise * noise;
    }
    sum
}

/// What [`diagonal_slopes`] reads, and where it adds; all of one length.
#[derive(Debug)]
pub struct DiagonalSlopes<'a> {
    /// The logarithms $\rho$ of the standard deviations.
    pub log_scale: &'a [f64],
    /// The noise $\varepsilon$ of the draw.
    pub noise: &'a [f64],
    /// The gradient $b$ by the draw.
    pub gradient: &'a [f64],
    /// The gradient $c$ by the variances $e^{2\rho}$; empty for none.
    pub by_variance: &'a [f64],
    /// The gradient by $\rho$ that reaches it on another way, the same for all.
    pub other: f64,
    /// What all is multiplied by.
    pub factor: f64,
    /// What the gradient by $\rho$ is added to.
    pub out: &'a mut [f64],
}

impl DiagonalSlopes<'_> {
    fn fit(&self) -> bool {
        [self.log_scale.len(), self.noise.len(), self.gradient.len()] == [self.out.len(); 3]
            && takes(self.by_variance, self.out.len())
    }
}

dispatch! {
    /// Adds $f\thinspace(b_i e^{\rho_i}\varepsilon_i + o)$ to each number, with $f$ the factor and $o$ the other gradient, and then
    /// $2 e^{2\rho_i} f c_i$ where there is a gradient by the variances.
    ///
    /// # Numerics
    /// Exponentials err by at most one unit in the last place, everything else is rounded once.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    diagonal_slopes(slopes: &mut DiagonalSlopes<'_>) -> ()
    where slopes.fit();
    slope_blocks, plain_slopes
}

#[inline(always)]
fn slope_blocks(slopes: &mut DiagonalSlopes<'_>) {
    if slopes.by_variance.is_empty() { slope_pass::<false>(slopes) } else { slope_pass::<true>(slopes) }
}

#[inline(always)]
fn slope_pass<const VARIANCE: bool>(slopes: &mut DiagonalSlopes<'_>) {
    // What is not there is not used.
    let by_variance = if VARIANCE { slopes.by_variance } else { slopes.gradient };
    let [log_scale, noise, gradient, by_variance] =
        [slopes.log_scale, slopes.noise, slopes.gradient, by_variance].map(<[f64]>::as_chunks::<BLOCK>);
    let (out, rest) = slopes.out.as_chunks_mut::<BLOCK>();
    let inputs = log_scale.0.iter().zip(noise.0).zip(gradient.0).zip(by_variance.0);
    for (out, (((log_scale, noise), gradient), by_variance)) in out.iter_mut().zip(inputs) {
        add_slopes::<VARIANCE>(out, [log_scale, noise, gradient, by_variance], slopes.other, slopes.factor);
    }
    if !rest.is_empty() {
        let [mut block, log_scale, noise, gradient, by_variance] =
            [&*rest, log_scale.1, noise.1, gradient.1, by_variance.1].map(|numbers| Padded.load(numbers, 0));
        let inputs = [&log_scale, &noise, &gradient, &by_variance];
        add_slopes::<VARIANCE>(&mut block, inputs, slopes.other, slopes.factor);
        Padded.store(rest, 0, &block);
    }
}

/// Adds the slopes of a block.
#[inline(always)]
fn add_slopes<const VARIANCE: bool>(out: &mut [f64; BLOCK], inputs: [&[f64; BLOCK]; 4], other: f64, factor: f64) {
    let [log_scale, noise, gradient, by_variance] = inputs;
    for lane in 0..BLOCK {
        out[lane] += factor * (gradient[lane] * exp(log_scale[lane]) * noise[lane] + other);
        if VARIANCE {
            out[lane] += 2.0 * exp(2.0 * log_scale[lane]) * (factor * by_variance[lane]);
        }
    }
}

fn plain_slopes(slopes: &mut DiagonalSlopes<'_>) {
    let inputs = slopes.log_scale.iter().zip(slopes.noise).zip(slopes.gradient);
    for (index, (slot, ((log_scale, noise), gradient))) in slopes.out.iter_mut().zip(inputs).enumerate() {
        *slot += slopes.factor * (gradient * log_scale.exp() * noise + slopes.other);
        if let Some(by_variance) = slopes.by_variance.get(index) {
            *slot += 2.0 * (2.0 * log_scale).exp() * (slopes.factor * by_variance);
        }
    }
}
