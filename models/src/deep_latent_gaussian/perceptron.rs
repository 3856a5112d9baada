//! Gives decoder and encoder their network: layers with rectified units between them, whose weights are trained.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use partita_core::{Device, Key, Noise, Purpose};

/// Linear layers with rectified units between them.
#[derive(Module, Debug)]
pub(super) struct Perceptron {
    layers: Vec<Layer>,
}

#[derive(Module, Debug)]
struct Layer {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<2>>,
}

impl Perceptron {
    /// Layers of these widths, inputs first, that start with keyed weights from $`N(0, 2/\text{inputs of the layer})`$ and
    /// biases of zero; the weights of the last start at a tenth of that, so that outputs start near zero.
    pub(super) fn new(widths: &[usize], seed: u64, device: &Device) -> Self {
        let count = widths.len().saturating_sub(1);
        let layer = |(index, pair): (u32, &[usize])| {
            let mut weight = vec![0.0; pair[0] * pair[1]];
            Noise::new(seed).stream(Key::new(Purpose::Initial, 0).block(index)).normal(&mut weight);
            #[expect(clippy::cast_precision_loss, reason = "layers are far narrower than 2^52")]
            let scale = (2.0 / pair[0].max(1) as f64).sqrt() * if index as usize + 1 == count { 0.1 } else { 1.0 };
            weight.iter_mut().for_each(|number| *number *= scale);
            Layer {
                weight: Param::from_tensor(device.tensor(weight, [pair[0], pair[1]])),
                bias: Param::from_tensor(device.tensor(vec![0.0; pair[1]], [1, pair[1]])),
            }
        };
        Self { layers: (0..).zip(widths.windows(2)).map(layer).collect() }
    }

    /// `[rows, inputs]` → `[rows, outputs]`.
    pub(super) fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let mut rows = rows;
        for (index, layer) in self.layers.iter().enumerate() {
            rows = rows.matmul(layer.weight.val()) + layer.bias.val();
            if index + 1 < self.layers.len() {
                rows = relu(rows);
            }
        }
        rows
    }
}
