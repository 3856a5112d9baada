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

/// What [`diagonal_slopes`] reads, and where it adds; all of one length, but for what may be empty.
#[derive(Debug)]
pub struct DiagonalSlopes<'a> {
    /// The logarithms $\rho$ of the standard deviations.
    pub log_scale: &'a [f64],
    /// The noise $\varepsilon$ of the draw.
    pub noise: &'a [f64],
    /// The offset $e^\rho\varepsilon$ of the draw, where somebody has kept it; empty where nobody has.
    pub deviation: &'a [f64],
    /// The gradient $a$ by the mean.
    pub by_mean: &'a [f64],
    /// The gradient $b$ by the offset.
    pub by_offset: &'a [f64],
    /// The gradient $c$ by the variances $e^{2\rho}$; empty for none.
    pub by_variance: &'a [f64],
    /// The gradient by $\rho$ that reaches it on another way, the same for all.
    pub other: f64,
    /// What all is multiplied by.
    pub factor: f64,
    /// Whether the sums begin here: what `mean` and `out` hold is then zero, whatever is in their memory.
    pub is_first: bool,
    /// What the gradient by the means is added to.
    pub mean: &'a mut [f64],
    /// What the gradient by $\rho$ is added to.
    pub out: &'a mut [f64],
}

impl DiagonalSlopes<'_> {
    fn fit(&self) -> bool {
        let lengths = [self.log_scale, self.noise, self.by_mean, self.by_offset, self.mean].map(<[f64]>::len);
        lengths == [self.out.len(); 5]
            && takes(self.by_variance, self.out.len())
            && takes(self.deviation, self.out.len())
    }
}

dispatch! {
    /// Adds $fa_i$ to the gradient by each mean, and to that by $\rho_i$ first $f\thinspace(b_i e^{\rho_i}\varepsilon_i + o)$, with
    /// $f$ the factor and $o$ the other gradient, and then $2 e^{2\rho_i} f c_i$ where there is a gradient by the variances.
    ///
    /// # Numerics
    /// Exponentials err by at most one unit in the last place, everything else is rounded once. A kept offset leads to the same bits.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    diagonal_slopes(slopes: &mut DiagonalSlopes<'_>) -> ()
    where slopes.fit();
    slope_blocks, plain_slopes
}

#[inline(always)]
fn slope_blocks(slopes: &mut DiagonalSlopes<'_>) {
    match (slopes.by_variance.is_empty(), slopes.deviation.is_empty()) {
        (true, false) => slope_pass::<false, false>(slopes),
        (true, true) => slope_pass::<true, false>(slopes),
        (false, _) => slope_pass::<true, true>(slopes),
    }
}

/// A pass over all numbers; `SCALE` where exponentials are needed, `VARIANCE` where there is a gradient by the variances.
#[inline(always)]
fn slope_pass<const SCALE: bool, const VARIANCE: bool>(slopes: &mut DiagonalSlopes<'_>) {
    let (other, factor, is_first) = (slopes.other, slopes.factor, slopes.is_first);
    // What is not there is not used.
    let deviation = if SCALE { slopes.noise } else { slopes.deviation };
    let by_variance = if VARIANCE { slopes.by_variance } else { slopes.by_offset };
    let [log_scale, deviation, by_mean, by_offset, by_variance] =
        [slopes.log_scale, deviation, slopes.by_mean, slopes.by_offset, by_variance].map(<[f64]>::as_chunks::<BLOCK>);
    let ((mean, rest_of_mean), (out, rest_of_out)) =
        (slopes.mean.as_chunks_mut::<BLOCK>(), slopes.out.as_chunks_mut::<BLOCK>());
    let inputs = log_scale.0.iter().zip(deviation.0).zip(by_mean.0.iter().zip(by_offset.0)).zip(by_variance.0);
    for ((mean, out), (((log_scale, deviation), (by_mean, by_offset)), by_variance)) in
        mean.iter_mut().zip(out).zip(inputs)
    {
        let inputs = [log_scale, deviation, by_mean, by_offset, by_variance];
        add_slopes::<SCALE, VARIANCE>([mean, out], inputs, [other, factor], is_first);
    }
    if !rest_of_out.is_empty() {
        let inputs =
            [log_scale.1, deviation.1, by_mean.1, by_offset.1, by_variance.1].map(|numbers| Padded.load(numbers, 0));
        let [mut mean, mut out] = [&*rest_of_mean, &*rest_of_out].map(|numbers| Padded.load(numbers, 0));
        add_slopes::<SCALE, VARIANCE>([&mut mean, &mut out], inputs.each_ref(), [other, factor], is_first);
        Padded.store(rest_of_mean, 0, &mean);
        Padded.store(rest_of_out, 0, &out);
    }
}

/// Adds the slopes of a block; `deviation` is the noise where there are exponentials.
#[inline(always)]
fn add_slopes<const SCALE: bool, const VARIANCE: bool>(
    [mean, out]: [&mut [f64; BLOCK]; 2],
    [log_scale, deviation, by_mean, by_offset, by_variance]: [&[f64; BLOCK]; 5],
    [other, factor]: [f64; 2],
    is_first: bool,
) {
    if is_first {
        (*mean, *out) = ([0.0; BLOCK], [0.0; BLOCK]);
    }
    for lane in 0..BLOCK {
        mean[lane] += factor * by_mean[lane];
        let scale = if SCALE { exp(log_scale[lane]) } else { 1.0 };
        let deviation = if SCALE { scale * deviation[lane] } else { deviation[lane] };
        out[lane] += factor * (by_offset[lane] * deviation + other);
        if VARIANCE {
            out[lane] += 2.0 * (scale * scale) * (factor * by_variance[lane]);
        }
    }
}

fn plain_slopes(slopes: &mut DiagonalSlopes<'_>) {
    let DiagonalSlopes {
        log_scale,
        noise,
        deviation,
        by_mean,
        by_offset,
        by_variance,
        other,
        factor,
        is_first,
        mean,
        out,
    } = slopes;
    if *is_first {
        mean.fill(0.0);
        out.fill(0.0);
    }
    for (index, slot) in out.iter_mut().enumerate() {
        mean[index] += *factor * by_mean[index];
        let scale = log_scale[index].exp();
        let deviation = deviation.get(index).copied().unwrap_or(scale * noise[index]);
        *slot += *factor * (by_offset[index] * deviation + *other);
        if let Some(by_variance) = by_variance.get(index) {
            *slot += 2.0 * (scale * scale) * (*factor * by_variance);
        }
    }
}
