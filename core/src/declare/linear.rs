//! Gives the linear layer whose weights may be latents, drawn or integrated by local reparameterisation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use crate::device::Device;
use crate::handle::Handle;
use crate::math::operation::{affine, parts, roots, squares};
use crate::noise::{Key, Noise, NoiseStream};

/// A linear layer, $xW + b$, for [`crate::Scope::linear`] to make Bayesian.
///
/// What it returns depends on the reading. Usually the weights are drawn once, and [`BayesianLinear::forward`]
/// multiplies by them. Under local reparameterisation the layer holds the means $M, m$ and the variances $V, v$ of a
/// Gaussian with independent components instead, and every row has its own pre-activations:
/// ```math
/// xM + m + \sqrt{x^2 V + v} \odot \varepsilon, \qquad \varepsilon \sim N(0, I).
/// ```
/// For one row this is the distribution of $xW + b$. Noise that is independent between rows makes the gradient's
/// variance fall with the rows of a minibatch, and needs fewer numbers than there are weights. It is valid only if the
/// log density is a sum over rows and each row passes the layer once. Do not use it for layers that a row passes twice,
/// as in a recurrent network.
///
/// In a reading of several draws on a device ([`crate::LogDensity::on_device`]) the layer holds the weights of all draws, and
/// [`BayesianLinear::forward`] takes the rows of all draws, those of a draw together.
///
/// # Shapes
/// Weight $W$ `[inputs, outputs]`, bias $b$ `[outputs]`; in a module the parameters 0 and 1 of the layer.
///
/// # References
/// Kingma, Salimans and Welling (2015), Variational dropout and the local reparameterization trick.
#[derive(Module, Debug)]
pub struct BayesianLinear {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
    #[module(skip)]
    local: Option<LocalNoise>,
    /// The number of draws whose weights lie one below the other.
    #[module(skip)]
    draws: usize,
}

/// Variances of a layer's weights, and the noise of its pre-activations.
#[derive(Debug, Clone)]
pub(crate) struct LocalNoise {
    pub(crate) weight: Tensor<2>,
    pub(crate) bias: Tensor<1>,
    pub(crate) device: Device,
    pub(crate) noise: Noise,
    pub(crate) key: Key,
    pub(crate) passes: Arc<Mutex<Passes>>,
}

/// The record of the passes through a layer.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    /// The number of passes by this particle: each pass has its own noise.
    count: u32,
    /// The particle, if it differs from that of the noise key.
    particle: Option<u32>,
    /// Moments of constant rows, which other particles use again.
    kept: Vec<KeptMoments>,
}

/// The mean and the standard deviation of pre-activations, with the tensors they were computed from.
#[derive(Debug)]
struct KeptMoments {
    inputs: [Handle; 3],
    moments: (Tensor<2>, Tensor<2>),
}

impl Passes {
    /// Begins an evaluation with the noise of another particle on the same tape.
    pub(crate) fn begin(&mut self, particle: u32) {
        (self.count, self.particle) = (0, Some(particle));
    }
}

impl BayesianLinear {
    /// The layer with these values, where the posterior means start.
    #[must_use]
    pub fn new(weight: Tensor<2>, bias: Tensor<1>) -> Self {
        Self { weight: Param::from_tensor(weight), bias: Param::from_tensor(bias), local: None, draws: 1 }
    }

    /// A layer that starts with weights from $`N(0, 2/\text{inputs})`$ and biases of zero, as suits rectified units.
    ///
    /// # References
    /// He, Zhang, Ren and Sun (2015), Delving deep into rectifiers.
    #[must_use]
    pub fn rectified([inputs, outputs]: [usize; 2], noise: &mut NoiseStream, device: &Device) -> Self {
        let mut weight = vec![0.0; inputs * outputs];
        noise.normal(&mut weight);
        let scale = (2.0 / inputs as f64).sqrt();
        weight.iter_mut().for_each(|number| *number *= scale);
        Self::new(device.tensor(weight, [inputs, outputs]), device.tensor(vec![0.0; outputs], [outputs]))
    }

    /// The pre-activations of rows.
    ///
    /// # Shapes
    /// `[rows, inputs]` → `[rows, outputs]`.
    ///
    /// # Panics
    /// If rows have another width, or there are not as many biases as outputs: inside a model that is
    /// [`Error::Panicked`](crate::Error::Panicked).
    #[must_use]
    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        if self.draws > 1 {
            return self.forward_draws(rows);
        }
        let Some(local) = &self.local else { return affine(rows, weight, bias) };
        let (mean, deviation) = local.moments([rows, weight], bias);
        let noise = local.draw(mean.dims());
        mean + deviation * noise
    }

    /// The pre-activations of the rows of all draws, those of a draw together.
    fn forward_draws(&self, rows: Tensor<2>) -> Tensor<2> {
        let (weight, bias, draws) = (self.weight.val(), self.bias.val(), self.draws);
        let ([all, own], [inputs, outputs]) = (rows.dims(), weight.dims());
        let rows: Tensor<3> = rows.reshape([draws, all / draws, own]);
        let product = rows.matmul(weight.reshape([draws, inputs / draws, outputs]));
        // The gradient by a bias is summed over parts of the rows first, and then over the parts.
        let parts = parts(all / draws);
        let split: Tensor<4> = product.reshape([draws, parts, all / draws / parts, outputs]);
        (split + bias.reshape([draws, 1, 1, outputs])).reshape([all, outputs])
    }

    /// The layer with the parameters of several draws, one below the other.
    pub(crate) fn with_draws(self, draws: usize) -> Self {
        Self { draws, ..self }
    }

    /// The layer with its parameters as means of a Gaussian with these variances.
    pub(crate) fn with_local(self, local: LocalNoise) -> Self {
        Self { local: Some(local), ..self }
    }
}

impl LocalNoise {
    /// The mean and the standard deviation of every pre-activation of `rows`.
    ///
    /// Particles on one tape share the moments of constant rows, which depend on the parameters alone. Their matrix
    /// products are computed once, and the gradients of all particles are summed before they propagate through them.
    fn moments(&self, [rows, weight]: [Tensor<2>; 2], bias: Tensor<1>) -> (Tensor<2>, Tensor<2>) {
        let mut passes = self.passes();
        let source = Handle::from(rows.clone());
        let is_shared = passes.particle.is_some() && source.is_same_constant(&source);
        let inputs = [source, Handle::from(weight.clone()), Handle::from(bias.clone())];
        let same = |kept: &&KeptMoments| kept.inputs.iter().zip(&inputs).all(|(known, own)| known.is_same(own));
        if let Some(kept) = passes.kept.iter().find(same).filter(|_| is_shared) {
            return kept.moments.clone();
        }
        let mean = affine(rows.clone(), weight, bias);
        let variance = affine(squares(rows), self.weight.clone(), self.bias.clone());
        let moments = (mean, roots(variance));
        if is_shared {
            passes.kept.push(KeptMoments { inputs, moments: moments.clone() });
        }
        moments
    }

    /// Fresh noise for the pre-activations of one pass.
    fn draw(&self, shape: [usize; 2]) -> Tensor<2> {
        let mut passes = self.passes();
        let key = self.key.particle(passes.particle.unwrap_or(self.key.particle));
        // The upper half of the block identifies layers, the lower half passes.
        let key = key.block(key.block.wrapping_add(passes.count));
        passes.count += 1;
        self.device.noise(self.noise, &[key], shape)
    }

    fn passes(&self) -> MutexGuard<'_, Passes> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
