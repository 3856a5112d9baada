//! Gives the multivariate normal distribution by its mean and the Cholesky factor of its covariance.

use super::{Density, Gradient, distribution};
use crate::math::special::HALF_LOG_TWO_PI;
use crate::noise::NoiseStream;

distribution! {
    /// The multivariate normal distribution.
    ///
    /// $$ \log p(x) = -\tfrac12 z^\top z - \sum_i\log L_{ii} - \tfrac{k}{2}\log 2\pi,\qquad L z = x - \mu $$
    /// with $\mu$ = `mean` and $L$ = `scale_tril`, the lower Cholesky factor of the covariance $\Sigma = L L^\top$.
    ///
    /// # Shapes
    /// `mean` `[..., k]`, `scale_tril` `[..., k, k]`, value `[..., k]`. Numbers above the diagonal are neither read nor
    /// given a derivative.
    ///
    /// # Numerics
    /// One triangular solve: loses $\log_{10}$ of the condition number of $L$ in digits, half the loss through the
    /// covariance.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Density, Gradient, MultivariateNormal};
    /// let factor = [2.0, 0.0, 0.0, 0.5];
    /// let at_mean = MultivariateNormal.log_prob(&[1.0, 2.0], [&[1.0, 2.0], &factor, &[]], &mut Gradient::default());
    /// assert!((at_mean + (2.0 * std::f64::consts::PI).ln()).abs() < 1e-15);
    /// ```
    ///
    /// # References
    /// Murray (2016), *Differentiation of the Cholesky decomposition*, arXiv 1602.07527, section 2, for the notation.
    pub struct MultivariateNormal where |_| Support::RealVector, of vector(mean in Real), matrix(scale_tril in CholeskyFactor);
}

impl Density for MultivariateNormal {
    fn event_rank(&self) -> usize {
        1
    }

    fn log_prob(&self, value: &[f64], [mean, scale_tril, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let Whitened { z, square, log_det } = Whitened::of(value, mean, scale_tril);
        if gradient.is_wanted() {
            let [by_mean, by_factor, _] = &mut gradient.parameters;
            let sinks = Sinks { value: gradient.value, mean: by_mean, factor: by_factor };
            sinks.add(&z, scale_tril, gradient.scale, 1.0);
        }
        -0.5 * square - log_det - mean.len() as f64 * HALF_LOG_TWO_PI
    }

    fn log_power_integral(
        &self,
        power: f64,
        [mean, scale_tril, _]: [&[f64]; 3],
        gradient: &mut Gradient<'_>,
    ) -> Option<f64> {
        let order = mean.len();
        let mut log_det = 0.0;
        for index in (0..scale_tril.len()).step_by(order + 1) {
            log_det += scale_tril[index].ln();
            if let Some(slot) = gradient.parameters[1].get_mut(index) {
                *slot += gradient.scale * (1.0 - power) / scale_tril[index];
            }
        }
        let order = order as f64;
        Some((1.0 - power) * (log_det + order * HALF_LOG_TWO_PI) - 0.5 * order * power.ln())
    }

    fn draw(&self, [mean, scale_tril, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let order = mean.len();
        noise.normal(out);
        // From the last row upwards, so that the noise a row needs is not yet overwritten.
        for i in (0..order).rev() {
            let row = &scale_tril[i * order..=i * order + i];
            out[i] = mean[i] + row.iter().zip(&*out).map(|(l, noise)| l * noise).sum::<f64>();
        }
    }

    fn mean(&self, [mean, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(mean.to_vec())
    }

    fn variance(&self, [mean, scale_tril, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let rows = scale_tril.chunks_exact(mean.len().max(1)).enumerate();
        Some(rows.map(|(i, row)| row[..=i].iter().map(|l| l * l).sum()).collect())
    }
}

/// A value in the coordinates in which the covariance is the identity.
pub(super) struct Whitened {
    /// $L z = x - \mu$.
    pub(super) z: Vec<f64>,
    /// $z^\top z$.
    pub(super) square: f64,
    /// $\sum_i\log L_{ii}$.
    pub(super) log_det: f64,
}

impl Whitened {
    pub(super) fn of(value: &[f64], mean: &[f64], scale_tril: &[f64]) -> Self {
        let order = mean.len();
        let mut z: Vec<f64> = Vec::with_capacity(order);
        let (mut square, mut log_det) = (0.0, 0.0);
        for (i, row) in scale_tril.chunks_exact(order.max(1)).enumerate() {
            let known: f64 = row.iter().zip(&z).map(|(l, z)| l * z).sum();
            let solved = (value[i] - mean[i] - known) / row[i];
            square += solved * solved;
            log_det += row[i].ln();
            z.push(solved);
        }
        Self { z, square, log_det }
    }
}

/// The sinks of the derivatives by value, mean and factor.
pub(super) struct Sinks<'a> {
    pub(super) value: &'a mut [f64],
    pub(super) mean: &'a mut [f64],
    pub(super) factor: &'a mut [f64],
}

impl Sinks<'_> {
    /// Adds the derivatives of $-\tfrac{c}{2} z^\top z - \sum_i\log L_{ii}$ with $c$ = `weight`, times `scale`.
    ///
    /// With $w = c L^{-\top} z$: $-w$ by $x$, $w$ by $\mu$, and, as $dz = -L^{-1}\thinspace dL\thinspace z$,
    /// $\operatorname{tril}(w z^\top) - \operatorname{diag}(1/L_{ii})$ by $L$.
    pub(super) fn add(self, z: &[f64], scale_tril: &[f64], scale: f64, weight: f64) {
        let order = z.len();
        let mut w: Vec<f64> = z.iter().map(|z| weight * z).collect();
        for i in (0..order).rev() {
            w[i] /= scale_tril[i * order + i];
            for j in 0..i {
                w[j] -= scale_tril[i * order + j] * w[i];
            }
        }
        for (slot, w) in self.value.iter_mut().zip(&w) {
            *slot -= scale * w;
        }
        for (slot, w) in self.mean.iter_mut().zip(&w) {
            *slot += scale * w;
        }
        for (i, row) in self.factor.chunks_exact_mut(order.max(1)).enumerate() {
            for (slot, z) in row[..=i].iter_mut().zip(z) {
                *slot += scale * w[i] * z;
            }
            row[i] -= scale / scale_tril[i * order + i];
        }
    }
}
