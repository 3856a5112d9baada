//! Gives the linear layer whose weights may be latents, drawn or, under local reparameterisation, never drawn at all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use crate::device::Device;
use crate::handle::Handle;
use crate::noise::{Key, Noise, NoiseStream};

/// A linear layer, $xW + b$, for [`crate::Scope::linear`] to make Bayesian.
///
/// What it returns depends on the reading. In all but one the weights are drawn once, and [`BayesianLinear::forward`]
/// multiplies by them. Under local reparameterisation the layer holds the means $M, m$ and the variances $V, v$ of a
/// Gaussian with independent components instead, and every row has pre-activations of its own:
/// ```math
/// xM + m + \sqrt{x^2 V + v} \odot \varepsilon, \qquad \varepsilon \sim N(0, I).
/// ```
/// For one row this is the distribution of $xW + b$; noise that is independent from row to row makes the gradient's
/// variance fall with the rows of a minibatch, and needs fewer numbers than there are weights. It stands for the drawn
/// weights only as long as the log density is a sum over rows, each of which passes the layer once: do not use it for
/// layers that a row passes twice, as in a recurrent network.
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

/// What a layer knows of the passes through it.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    /// How often the layer was passed by this particle: rows of another pass get other noise.
    count: u32,
    /// The particle, where it is not the one that the key of the noise names.
    particle: Option<u32>,
    /// Moments that other particles need again: those of constant rows.
    kept: Vec<KeptMoments>,
}

/// The mean and the standard deviation of pre-activations, with what they were computed from.
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
    /// The layer with these values, at which the posterior means start.
    #[must_use]
    pub fn new(weight: Tensor<2>, bias: Tensor<1>) -> Self {
        Self { weight: Param::from_tensor(weight), bias: Param::from_tensor(bias), local: None }
    }

    /// A layer that starts with weights from $`N(0, 2/\text{inputs})`$ and biases of zero, as rectified units want.
    ///
    /// # References
    /// He, Zhang, Ren and Sun (2015), Delving deep into rectifiers.
    #[must_use]
    pub fn rectified([inputs, outputs]: [usize; 2], noise: &mut NoiseStream, device: &Device) -> Self {
        let mut weight = vec![0.0; inputs * outputs];
        noise.normal(&mut weight);
        #[expect(clippy::cast_precision_loss, reason = "layers are far smaller than 2^52")]
        let scale = (2.0 / inputs as f64).sqrt();
        weight.iter_mut().for_each(|number| *number *= scale);
        Self::new(device.tensor(weight, [inputs, outputs]), device.tensor(vec![0.0; outputs], [outputs]))
    }

    /// The pre-activations of rows.
    ///
    /// # Shapes
    /// `[rows, inputs]` → `[rows, outputs]`.
    #[must_use]
    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        let Some(local) = &self.local else { return rows.matmul(weight) + bias.unsqueeze() };
        let (mean, deviation) = local.moments([rows, weight], bias);
        let noise = local.draw(mean.dims());
        mean + deviation * noise
    }

    /// The layer with its parameters as means of a Gaussian with these variances.
    pub(crate) fn with_local(self, local: LocalNoise) -> Self {
        Self { local: Some(local), ..self }
    }
}

impl LocalNoise {
    /// The mean and the standard deviation of every pre-activation of `rows`.
    ///
    /// Particles on one tape share those of the same constant rows: they depend on the parameters alone, so that their
    /// matrix products are done once, and the gradients of all particles are summed before they go back through them.
    fn moments(&self, [rows, weight]: [Tensor<2>; 2], bias: Tensor<1>) -> (Tensor<2>, Tensor<2>) {
        let mut passes = self.passes();
        let source = Handle::from(rows.clone());
        let is_shared = passes.particle.is_some() && source.is_same_constant(&source);
        let inputs = [source, Handle::from(weight.clone()), Handle::from(bias.clone())];
        let same = |kept: &&KeptMoments| kept.inputs.iter().zip(&inputs).all(|(known, own)| known.is_same(own));
        if let Some(kept) = passes.kept.iter().find(same).filter(|_| is_shared) {
            return kept.moments.clone();
        }
        let mean = rows.clone().matmul(weight) + bias.unsqueeze();
        let variance = (rows.clone() * rows).matmul(self.weight.clone()) + self.bias.clone().unsqueeze();
        let moments = (mean, variance.sqrt());
        if is_shared {
            passes.kept.push(KeptMoments { inputs, moments: moments.clone() });
        }
        moments
    }

    /// Fresh noise for the pre-activations of one pass.
    fn draw(&self, shape: [usize; 2]) -> Tensor<2> {
        let mut passes = self.passes();
        let key = self.key.particle(passes.particle.unwrap_or(self.key.particle));
        // Layers are told apart by the upper half of the block, passes by the lower.
        let key = key.block(key.block.wrapping_add(passes.count));
        passes.count += 1;
        self.device.noise(self.noise, key, shape)
    }

    fn passes(&self) -> MutexGuard<'_, Passes> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
