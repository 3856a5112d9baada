//! Gives the linear layer whose weights may be latents, drawn or, under local reparameterisation, never drawn at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use crate::device::Device;
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
    /// How often the layer was passed: rows of another pass get other noise.
    pub(crate) passes: Arc<AtomicU32>,
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
        let mean = rows.clone().matmul(self.weight.val()) + self.bias.val().unsqueeze();
        let Some(local) = &self.local else { return mean };
        let variance = (rows.clone() * rows).matmul(local.weight.clone()) + local.bias.clone().unsqueeze();
        let noise = local.draw(mean.dims());
        mean + variance.sqrt() * noise
    }

    /// The layer with its parameters as means of a Gaussian with these variances.
    pub(crate) fn with_local(self, local: LocalNoise) -> Self {
        Self { local: Some(local), ..self }
    }
}

impl LocalNoise {
    /// Fresh noise for the pre-activations of one pass.
    fn draw(&self, shape: [usize; 2]) -> Tensor<2> {
        let pass = self.passes.fetch_add(1, Ordering::Relaxed);
        let mut values = vec![0.0; shape[0] * shape[1]];
        // Layers are told apart by the upper half of the block, passes by the lower.
        self.noise.normal(self.key.block(self.key.block.wrapping_add(pass)), &mut values);
        self.device.tensor(values, shape)
    }
}
