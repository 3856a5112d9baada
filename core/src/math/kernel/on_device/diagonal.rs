//! Draws from a Gaussian with independent components on a device, and takes gradients by the draws back to its parameters.

use burn::tensor::Tensor;

/// What draws are made of: standard deviations $\sigma$ and standard normal numbers $\varepsilon$.
///
/// # Shapes
/// `scale` `[1, n]`, `noise` `[draws, n]`.
#[derive(Debug, Clone, Copy)]
pub struct DiagonalNoise<'a> {
    /// $\sigma$.
    pub scale: &'a Tensor<2>,
    /// $\varepsilon$.
    pub noise: &'a Tensor<2>,
}

/// Draws $\mu + \sigma\varepsilon$, and what they are beside $\mu$, each a row.
#[derive(Debug)]
pub struct DrawTensors {
    /// $\mu + \sigma\varepsilon$.
    pub latent: Tensor<2>,
    /// $\sigma\varepsilon$.
    pub deviation: Tensor<2>,
}

/// Gradients by the draws: by what is reached through $\mu$, and by what is reached through $\sigma\varepsilon$.
#[derive(Debug, Clone, Copy)]
pub struct DrawGradients<'a> {
    /// The gradient of each draw that reaches $\mu$, a row.
    pub location: &'a Tensor<2>,
    /// The gradient of each draw that reaches $\sigma\varepsilon$, a row.
    pub deviation: &'a Tensor<2>,
    /// Whether minus the score of the draws' density, $\varepsilon/\sigma$, is added to both: the estimator that sticks the landing.
    pub adds_score: bool,
}

/// Gradients by the parameters, summed over draws, `[1, n]` each.
#[derive(Debug)]
pub struct DiagonalGradient {
    /// By $\mu$.
    pub mean: Tensor<2>,
    /// By $\log\sigma$.
    pub log_scale: Tensor<2>,
}

impl DiagonalNoise<'_> {
    /// The draws around `mean`, `[1, n]`.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, kernel::on_device::DiagonalNoise};
    /// let row = |values: [f64; 2]| Device::flex().tensor(values.to_vec(), [1, 2]);
    /// let draw = DiagonalNoise { scale: &row([2.0, 0.5]), noise: &row([1.0, -4.0]) }.draw(&row([3.0, 3.0]));
    /// assert_eq!(draw.latent.into_data().try_into_vec::<f64>().unwrap(), [5.0, 1.0]);
    /// ```
    #[must_use]
    pub fn draw(&self, mean: &Tensor<2>) -> DrawTensors {
        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
        if let Some(draw) = super::fused::draw(*self, mean) {
            return draw;
        }
        self.draw_plain(mean)
    }

    /// [`DiagonalNoise::draw`] in tensor operations.
    #[must_use]
    pub fn draw_plain(&self, mean: &Tensor<2>) -> DrawTensors {
        let deviation = self.scale.clone() * self.noise.clone();
        DrawTensors { latent: mean.clone() + deviation.clone(), deviation }
    }

    /// Takes gradients by the draws back.
    #[must_use]
    pub fn pull_back(&self, gradients: DrawGradients<'_>) -> DiagonalGradient {
        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
        if let Some(gradient) = super::fused::pull_back(*self, gradients) {
            return gradient;
        }
        self.pull_back_plain(gradients)
    }

    /// [`DiagonalNoise::pull_back`] in tensor operations.
    #[must_use]
    pub fn pull_back_plain(&self, gradients: DrawGradients<'_>) -> DiagonalGradient {
        let (mut location, mut deviation) = (gradients.location.clone(), gradients.deviation.clone());
        if gradients.adds_score {
            let minus_score = self.noise.clone() / self.scale.clone();
            location = location + minus_score.clone();
            deviation = deviation + minus_score;
        }
        let log_scale = deviation * self.scale.clone() * self.noise.clone();
        DiagonalGradient { mean: over_draws(location), log_scale: over_draws(log_scale) }
    }
}

/// The sum over draws, which are rows.
#[must_use]
pub fn over_draws(gradient: Tensor<2>) -> Tensor<2> {
    if gradient.dims()[0] == 1 { gradient } else { gradient.sum_dim(0) }
}
