//! Gives the diagonal Gaussian (mean-field) family.

use std::borrow::Cow;

use partita_core::Number;
use partita_core::kernel::{BLOCK, DiagonalDraw, DiagonalSlopes, add_scaled, diagonal_variances_single, exponential};
use rayon::prelude::*;

use super::{
    CovarianceGradient, CovarianceMatrix, DrawGradient, DrawNumber, Family, FamilyDraw, HALF_LOG_TWO_PI,
    MeansAndVariances, MomentGradient, Score,
};
use crate::engine::PART;
use crate::engine::error::Result;

pub(crate) fn real(count: usize) -> f64 {
    count as f64
}

/// The sum of a part, in lanes of which none waits for another.
fn sum(part: &[f64]) -> f64 {
    let (blocks, rest) = part.as_chunks::<BLOCK>();
    let mut lanes = [0.0; BLOCK];
    for block in blocks {
        lanes.iter_mut().zip(block).for_each(|(lane, number)| *lane += number);
    }
    lanes.iter().chain(rest).sum()
}

/// The Gaussian with independent components, $Z = \mu + \sigma \odot \varepsilon$.
///
/// # Shapes
/// Parameters: $[\mu\ (n), \log\sigma\ (n)]$.
///
/// # Example
/// ```
/// use partita_inference::{DiagonalGaussian, Family};
/// let draw = DiagonalGaussian::new(1).draw(&[1.0, 0.0], &[2.0]);
/// assert_eq!(draw.latent, [3.0]);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct DiagonalGaussian {
    len: usize,
}

impl DiagonalGaussian {
    /// The family over vectors of length `len`.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { len }
    }

    /// Draws into the memory of an earlier draw.
    pub(super) fn draw_in<T: DrawNumber>(
        &self,
        parameters: &[f64],
        noise: &[T],
        wanted: Score,
        draw: &mut FamilyDraw<T>,
    ) {
        let (mean, log_scale) = parameters.split_at(self.len);
        let FamilyDraw { latent, deviation, score, log_density } = draw;
        for vector in [&mut *latent, &mut *deviation] {
            vector.resize(self.len, T::default());
        }
        score.resize(if wanted == Score::Wanted { self.len } else { 0 }, T::default());
        let inputs = mean.par_chunks(PART).zip(log_scale.par_chunks(PART)).zip(noise.par_chunks(PART));
        let outputs = latent.par_chunks_mut(PART).zip(deviation.par_chunks_mut(PART));
        let part = |(((mean, log_scale), noise), (latent, deviation)), score: &mut [T]| {
            T::diagonal_draw(DiagonalDraw { mean, log_scale, noise, latent, deviation, score })
        };
        let sums: Vec<f64> = if score.is_empty() {
            inputs.zip(outputs).map(|own| part(own, &mut [])).collect()
        } else {
            inputs.zip(outputs).zip(score.par_chunks_mut(PART)).map(|(own, score)| part(own, score)).collect()
        };
        *log_density = sums.iter().sum::<f64>() - real(self.len) * HALF_LOG_TWO_PI;
    }

    /// Adds what [`Family::add_gradient`] says.
    pub(super) fn pull_back<T: DrawNumber>(
        &self,
        parameters: &[f64],
        noise: &[T],
        gradient: DrawGradient<'_, T>,
        out: &mut [f64],
    ) {
        let DrawGradient { grad_mean, grad_offset, factor, with_entropy, by_variance, deviation, is_first } = gradient;
        let given = [by_variance, deviation].map(<[T]>::len);
        assert!(given.iter().all(|own| [0, self.len].contains(own)), "invariant: each component has one number");
        let other = f64::from(u8::from(with_entropy));
        let (mean, out) = out.split_at_mut(self.len);
        let outputs = mean.par_chunks_mut(PART).zip(out.par_chunks_mut(PART));
        let gradients = grad_mean.par_chunks(PART).zip(grad_offset.par_chunks(PART));
        let inputs = parameters[self.len..].par_chunks(PART).zip(noise.par_chunks(PART)).zip(gradients).enumerate();
        outputs.zip(inputs).for_each(|((mean, out), (part, ((log_scale, noise), (by_mean, by_offset))))| {
            let [by_variance, deviation] =
                [by_variance, deviation].map(|all| all.get(part * PART..part * PART + out.len()).unwrap_or(&[]));
            T::diagonal_slopes(DiagonalSlopes {
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
            });
        });
    }

    /// Means and variances in single precision.
    pub(super) fn single_moments<'p>(&self, parameters: &[f64]) -> MeansAndVariances<'p, f32> {
        let (mean, log_scale) = parameters.split_at(self.len);
        let [means, mut variances] = [mean, log_scale].map(|numbers| -> Vec<f32> {
            numbers.par_iter().with_min_len(PART).map(|number| f32::nearest(*number)).collect()
        });
        variances.par_chunks_mut(PART).for_each(diagonal_variances_single);
        MeansAndVariances { means: means.into(), variances }
    }

    /// Adds to `out` what a gradient by the variances is by the logarithms of the scales: d/d log σ = 2 σ² d/dσ².
    fn add_by_variance(&self, parameters: &[f64], gradient: &[f64], out: &mut [f64]) {
        let inputs = self.variances(parameters);
        let inputs = inputs.par_chunks(PART).zip(gradient.par_chunks(PART));
        out[self.len..].par_chunks_mut(PART).zip(inputs).for_each(|(out, (variances, gradient))| {
            for ((slot, g), v) in out.iter_mut().zip(gradient).zip(variances) {
                *slot += 2.0 * v * g;
            }
        });
    }
}

impl Family for DiagonalGaussian {
    fn len(&self) -> usize {
        self.len
    }

    fn parameter_len(&self) -> usize {
        2 * self.len
    }

    fn log_scales(&self) -> Vec<Option<usize>> {
        (self.len..2 * self.len).map(Some).collect()
    }

    fn initial(&self, scale: f64) -> Vec<f64> {
        [vec![0.0; self.len], vec![scale.ln(); self.len]].concat()
    }

    fn draw(&self, parameters: &[f64], noise: &[f64]) -> FamilyDraw {
        let mut draw = FamilyDraw::default();
        self.draw_into(parameters, noise, &mut draw);
        draw
    }

    fn draw_into(&self, parameters: &[f64], noise: &[f64], draw: &mut FamilyDraw) {
        self.draw_in(parameters, noise, Score::Wanted, draw);
    }

    fn draw_without_score(&self, parameters: &[f64], noise: &[f64], draw: &mut FamilyDraw) {
        self.draw_in(parameters, noise, Score::Unread, draw);
    }

    fn diagonal(&self) -> Option<DiagonalGaussian> {
        Some(*self)
    }

    fn vjp(&self, parameters: &[f64], noise: &[f64], grad_mean: &[f64], grad_offset: &[f64], out: &mut [f64]) {
        self.pull_back(parameters, noise, DrawGradient::new(grad_mean, grad_offset), out);
    }

    fn add_gradient(
        &self,
        parameters: &[f64],
        noise: &[f64],
        gradient: DrawGradient<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        self.pull_back(parameters, noise, gradient, out);
        Ok(())
    }

    fn vjp_variance(&self, parameters: &[f64], gradient: &[f64], out: &mut [f64]) -> Result<()> {
        self.add_by_variance(parameters, gradient, out);
        Ok(())
    }

    fn vjp_moments(&self, parameters: &[f64], gradient: &MomentGradient, out: &mut [f64]) {
        add_scaled(&mut out[..self.len], 1.0, &gradient.mean);
        match &gradient.covariance {
            CovarianceGradient::Diagonal(by_variance) => self.add_by_variance(parameters, by_variance, out),
            full @ CovarianceGradient::Full(_) => self.add_by_variance(parameters, &full.by_variance(self.len), out),
        }
    }

    fn mean(&self, parameters: &[f64]) -> Vec<f64> {
        parameters[..self.len].to_vec()
    }

    fn location<'p>(&self, parameters: &'p [f64]) -> Cow<'p, [f64]> {
        Cow::Borrowed(&parameters[..self.len])
    }

    fn entropy(&self, parameters: &[f64]) -> f64 {
        let sums: Vec<f64> = parameters[self.len..].par_chunks(PART).map(sum).collect();
        sums.iter().sum::<f64>() + real(self.len) * (0.5 + HALF_LOG_TWO_PI)
    }

    fn add_entropy_gradient(&self, _: &[f64], out: &mut [f64]) {
        out[self.len..].iter_mut().for_each(|slot| *slot += 1.0);
    }

    fn covariance_matrix(&self, parameters: &[f64]) -> CovarianceMatrix {
        CovarianceMatrix::Diagonal(self.deviations(parameters))
    }

    fn deviations(&self, parameters: &[f64]) -> Vec<f64> {
        let mut scale = parameters[self.len..].to_vec();
        scale.par_chunks_mut(PART).for_each(exponential);
        scale
    }

    fn variances(&self, parameters: &[f64]) -> Vec<f64> {
        // In memory that is not cleared first.
        let mut variances: Vec<f64> = parameters[self.len..].par_iter().with_min_len(PART).copied().collect();
        variances.par_chunks_mut(PART).for_each(|variances| {
            exponential(variances);
            variances.iter_mut().for_each(|number| *number *= *number);
        });
        variances
    }

    fn with_moments(&self, mean: &[f64], spread: &CovarianceMatrix) -> Result<Vec<f64>> {
        Ok(mean.iter().copied().chain(spread.deviations().iter().map(|sd| sd.ln())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(numbers: &[f64]) -> Vec<u64> {
        numbers.iter().map(|number| number.to_bits()).collect()
    }

    #[test]
    fn what_is_made_in_one_pass_has_the_bits_of_several() {
        for length in [1, 17, PART + 5] {
            let family = DiagonalGaussian::new(length);
            let numbers = |count: usize, step: f64| -> Vec<f64> {
                (0..count).map(|index| (index as f64 * step).sin() * 3.0 - 1.0).collect()
            };
            let parameters = numbers(2 * length, 0.7);
            let [noise, by_mean, by_offset, by_variance] = [0.3, 1.1, 1.9, 2.3].map(|step| numbers(length, step));
            assert_eq!(bits(&family.location(&parameters)), bits(&family.mean(&parameters)));
            let squares: Vec<f64> = family.deviations(&parameters).iter().map(|own| own * own).collect();
            assert_eq!(bits(&family.variances(&parameters)), bits(&squares));
            let plain = DrawGradient::new(&by_mean, &by_offset);
            let gradient = DrawGradient { factor: -0.3, with_entropy: true, by_variance: &by_variance, ..plain };
            let (mut once, mut apart) = (numbers(2 * length, 0.1), numbers(2 * length, 0.1));
            family.add_gradient(&parameters, &noise, gradient, &mut once).unwrap();
            let without = DrawGradient { by_variance: &[], ..gradient };
            family.add_gradient(&parameters, &noise, without, &mut apart).unwrap();
            let scaled: Vec<f64> = by_variance.iter().map(|slope| -0.3 * slope).collect();
            family.vjp_variance(&parameters, &scaled, &mut apart).unwrap();
            assert_eq!(bits(&once), bits(&apart), "{length}");
            // So it has where the draw has kept its offset.
            let (kept, mut again) = (family.draw(&parameters, &noise).deviation, numbers(2 * length, 0.1));
            family
                .add_gradient(&parameters, &noise, DrawGradient { deviation: &kept, ..gradient }, &mut again)
                .unwrap();
            assert_eq!(bits(&once), bits(&again), "{length}");
            let [mut found, mut known] = [(); 2].map(|()| numbers(2 * length, 0.1));
            family.add_gradient(&parameters, &noise, without, &mut found).unwrap();
            family.add_gradient(&parameters, &noise, DrawGradient { deviation: &kept, ..without }, &mut known).unwrap();
            assert_eq!(bits(&found), bits(&known), "{length}");
            // The first is the same added to zeros.
            let (mut first, mut zeros) = (numbers(2 * length, 0.1), vec![0.0; 2 * length]);
            family.add_gradient(&parameters, &noise, DrawGradient { is_first: true, ..gradient }, &mut first).unwrap();
            family.add_gradient(&parameters, &noise, gradient, &mut zeros).unwrap();
            assert_eq!(bits(&first), bits(&zeros), "{length}");
        }
    }
}
