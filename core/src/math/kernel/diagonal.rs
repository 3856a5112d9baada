//! Draws from a Gaussian with independent components in one pass, and takes gradients by the draw back to scales in another.

use std::ops::{Div, Neg};

use super::block::{BLOCK, Lane, Padded, sum_blocks, takes};
use super::polynomial::{exp, exp_single};

/// What [`diagonal_draw`] reads, and where it writes; all of one length, but for a score that is not asked for.
#[derive(Debug)]
pub struct DiagonalDraw<'a, T = f64> {
    /// The means $\mu$.
    pub mean: &'a [f64],
    /// The logarithms $\rho$ of the standard deviations.
    pub log_scale: &'a [f64],
    /// Standard normal numbers $\varepsilon$.
    pub noise: &'a [T],
    /// Receives $\mu + e^\rho\varepsilon$.
    pub latent: &'a mut [T],
    /// Receives $e^\rho\varepsilon$.
    pub deviation: &'a mut [T],
    /// Receives $-\varepsilon e^{-\rho}$, the gradient of the log density by the value; empty for none.
    pub score: &'a mut [T],
}

impl<T> DiagonalDraw<'_, T> {
    fn fit(&self) -> bool {
        let lengths = [self.log_scale.len(), self.noise.len(), self.latent.len(), self.deviation.len()];
        lengths == [self.mean.len(); 4] && takes(self.score, self.mean.len())
    }
}

/// Numbers with an exponential.
trait Exponential: Lane + Neg<Output = Self> + Div<Output = Self> {
    /// $e^x$ by a polynomial.
    fn fast(self) -> Self;

    /// $e^x$ by the platform's C library.
    fn plain(self) -> Self;
}

macro_rules! exponential {
    ($kind:ty, $fast:ident) => {
        impl Exponential for $kind {
            #[inline(always)]
            fn fast(self) -> Self {
                $fast(self)
            }

            fn plain(self) -> Self {
                self.exp()
            }
        }
    };
}

exponential!(f32, exp_single);
exponential!(f64, exp);

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

dispatch! {
    /// [`diagonal_draw`] in single precision, of parameters in double precision.
    ///
    /// # Numerics
    /// The exponential errs by at most two units of single precision, everything else is rounded once; the sum is one of double
    /// precision.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    diagonal_draw_single(draw: &mut DiagonalDraw<'_, f32>) -> f64
    where draw.fit();
    vector, scalar
}

#[inline(always)]
fn vector<F: Exponential>(draw: &mut DiagonalDraw<'_, F>) -> f64 {
    if draw.score.is_empty() { blocks::<false, F>(draw) } else { blocks::<true, F>(draw) }
}

#[inline(always)]
fn blocks<const SCORE: bool, F: Exponential>(draw: &mut DiagonalDraw<'_, F>) -> f64 {
    sum_blocks!(draw.mean.len(), |io, start| {
        let (mean, log_scale, noise) =
            (io.load(draw.mean, start), io.load(draw.log_scale, start), io.load(draw.noise, start));
        let (mut latent, mut deviation, mut score, mut terms) = (noise, noise, noise, log_scale);
        for lane in 0..BLOCK {
            let scale = F::of(log_scale[lane]).fast();
            deviation[lane] = scale * noise[lane];
            latent[lane] = F::of(mean[lane]) + deviation[lane];
            if SCORE {
                score[lane] = -noise[lane] / scale;
            }
            terms[lane] = -log_scale[lane] - 0.5 * noise[lane].wide() * noise[lane].wide();
        }
        io.store(draw.latent, start, &latent);
        io.store(draw.deviation, start, &deviation);
        if SCORE {
            io.store(draw.score, start, &score);
        }
        terms
    })
}

fn scalar<F: Exponential>(draw: &mut DiagonalDraw<'_, F>) -> f64 {
    let mut sum = 0.0;
    for index in 0..draw.mean.len() {
        let (scale, noise) = (F::of(draw.log_scale[index]).plain(), draw.noise[index]);
        draw.deviation[index] = scale * noise;
        draw.latent[index] = F::of(draw.mean[index]) + draw.deviation[index];
        if let Some(score) = draw.score.get_mut(index) {
            *score = -noise / scale;
        }
        sum += -draw.log_scale[index] - 0.5 * noise.wide() * noise.wide();
    }
    sum
}

dispatch! {
    /// Writes the variances $e^{2\rho}$ in single precision in place of the logarithms $\rho$ of the standard deviations.
    ///
    /// # Numerics
    /// They err by at most five units of single precision.
    diagonal_variances_single(log_scale: &mut [f32]) -> ()
    where true;
    fast_variances, plain_variances
}

#[inline(always)]
fn fast_variances(log_scale: &mut [f32]) {
    for slot in log_scale {
        let scale = slot.fast();
        *slot = scale * scale;
    }
}

fn plain_variances(log_scale: &mut [f32]) {
    for slot in log_scale {
        let scale = slot.plain();
        *slot = scale * scale;
    }
}

/// What [`diagonal_slopes`] reads, and where it adds; all of one length, but for what may be empty.
#[derive(Debug)]
pub struct DiagonalSlopes<'a, T = f64> {
    /// The logarithms $\rho$ of the standard deviations.
    pub log_scale: &'a [f64],
    /// The noise $\varepsilon$ of the draw.
    pub noise: &'a [T],
    /// The offset $e^\rho\varepsilon$ of the draw, where it was kept; empty where it was not.
    pub deviation: &'a [T],
    /// The gradient $a$ by the mean.
    pub by_mean: &'a [T],
    /// The gradient $b$ by the offset.
    pub by_offset: &'a [T],
    /// The gradient $c$ by the variances $e^{2\rho}$; empty for none.
    pub by_variance: &'a [T],
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

impl<T> DiagonalSlopes<'_, T> {
    fn fit(&self) -> bool {
        let count = self.out.len();
        [self.log_scale.len(), self.mean.len()] == [count; 2]
            && [self.noise, self.by_mean, self.by_offset].map(<[T]>::len) == [count; 3]
            && takes(self.by_variance, count)
            && takes(self.deviation, count)
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

dispatch! {
    /// [`diagonal_slopes`] of a draw in single precision, with sums in double precision.
    ///
    /// # Numerics
    /// Exponentials err by at most two units of single precision; the products $b_i e^{\rho_i}\varepsilon_i$ and $e^{2\rho_i}$ are rounded
    /// to it, everything else to double precision. A kept offset leads to the same bits.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    diagonal_slopes_single(slopes: &mut DiagonalSlopes<'_, f32>) -> ()
    where slopes.fit();
    slope_blocks, plain_slopes
}

#[inline(always)]
fn slope_blocks<F: Exponential>(slopes: &mut DiagonalSlopes<'_, F>) {
    match (slopes.by_variance.is_empty(), slopes.deviation.is_empty()) {
        (true, false) => slope_pass::<false, false, F>(slopes),
        (true, true) => slope_pass::<true, false, F>(slopes),
        (false, _) => slope_pass::<true, true, F>(slopes),
    }
}

/// A pass over all numbers; `SCALE` where exponentials are needed, `VARIANCE` where there is a gradient by the variances.
#[inline(always)]
fn slope_pass<const SCALE: bool, const VARIANCE: bool, F: Exponential>(slopes: &mut DiagonalSlopes<'_, F>) {
    let (other, factor, is_first) = (slopes.other, slopes.factor, slopes.is_first);
    // What is not there is not used.
    let deviation = if SCALE { slopes.noise } else { slopes.deviation };
    let by_variance = if VARIANCE { slopes.by_variance } else { slopes.by_offset };
    let log_scale = slopes.log_scale.as_chunks::<BLOCK>();
    let [deviation, by_mean, by_offset, by_variance] =
        [deviation, slopes.by_mean, slopes.by_offset, by_variance].map(<[F]>::as_chunks::<BLOCK>);
    let ((mean, rest_of_mean), (out, rest_of_out)) =
        (slopes.mean.as_chunks_mut::<BLOCK>(), slopes.out.as_chunks_mut::<BLOCK>());
    let inputs = log_scale.0.iter().zip(deviation.0).zip(by_mean.0.iter().zip(by_offset.0)).zip(by_variance.0);
    for ((mean, out), (((log_scale, deviation), (by_mean, by_offset)), by_variance)) in
        mean.iter_mut().zip(out).zip(inputs)
    {
        let inputs = [deviation, by_mean, by_offset, by_variance];
        add_slopes::<SCALE, VARIANCE, F>([mean, out], log_scale, inputs, [other, factor], is_first);
    }
    if !rest_of_out.is_empty() {
        let inputs = [deviation.1, by_mean.1, by_offset.1, by_variance.1].map(|numbers| Padded.load(numbers, 0));
        let [mut mean, mut out, log_scale] =
            [&*rest_of_mean, &*rest_of_out, log_scale.1].map(|numbers| Padded.load(numbers, 0));
        let sums = [&mut mean, &mut out];
        add_slopes::<SCALE, VARIANCE, F>(sums, &log_scale, inputs.each_ref(), [other, factor], is_first);
        Padded.store(rest_of_mean, 0, &mean);
        Padded.store(rest_of_out, 0, &out);
    }
}

/// Adds the slopes of a block; `deviation` is the noise where there are exponentials.
#[inline(always)]
fn add_slopes<const SCALE: bool, const VARIANCE: bool, F: Exponential>(
    [mean, out]: [&mut [f64; BLOCK]; 2],
    log_scale: &[f64; BLOCK],
    [deviation, by_mean, by_offset, by_variance]: [&[F; BLOCK]; 4],
    [other, factor]: [f64; 2],
    is_first: bool,
) {
    if is_first {
        (*mean, *out) = ([0.0; BLOCK], [0.0; BLOCK]);
    }
    for lane in 0..BLOCK {
        mean[lane] += factor * by_mean[lane].wide();
        let scale = if SCALE { F::of(log_scale[lane]).fast() } else { F::ONE };
        let deviation = if SCALE { scale * deviation[lane] } else { deviation[lane] };
        out[lane] += factor * ((by_offset[lane] * deviation).wide() + other);
        if VARIANCE {
            out[lane] += 2.0 * (scale * scale).wide() * (factor * by_variance[lane].wide());
        }
    }
}

fn plain_slopes<F: Exponential>(slopes: &mut DiagonalSlopes<'_, F>) {
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
        mean[index] += *factor * by_mean[index].wide();
        let scale = F::of(log_scale[index]).plain();
        let deviation = deviation.get(index).copied().unwrap_or(scale * noise[index]);
        *slot += *factor * ((by_offset[index] * deviation).wide() + *other);
        if let Some(by_variance) = by_variance.get(index) {
            *slot += 2.0 * (scale * scale).wide() * (*factor * by_variance.wide());
        }
    }
}
