//! Encodes the words of a document as a posterior of its topic weights, by one hidden layer.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::softplus;
use partita_core::{Device, Encoder, Encoding, Key, Noise, Purpose, Result, Rows, SparseRows};

/// The starting log-scales.
const LOG_SCALE: f64 = -1.0;

/// An encoder from word counts to the posterior of a document's weights, for [`partita_core::Amortised`].
///
/// ```math
/// h = \mathrm{softplus}(x A + a), \qquad (\mu, \rho) = \tfrac1H\thinspace h B + b
/// ```
/// where $`x`$ holds a document's counts, scaled to Euclidean length one, and $`\log(1 + n_d)`$, the amount of
/// information. The matrix of documents by words stays sparse. The outputs are a mean over the $`H`$ = `hidden` units:
/// a step of Adam at the rate that suits the topics would move a sum by $`H`$ times that rate.
///
/// # Shapes
/// Data: counts `[documents, vocabulary]`; means and log-scales `[rows, topics]`.
///
/// # References
/// Srivastava and Sutton (2017), whose encoder has two hidden layers.
#[derive(Module, Debug)]
pub struct TopicEncoder {
    hidden: Param<Tensor<2>>,
    hidden_bias: Param<Tensor<2>>,
    output: Param<Tensor<2>>,
    output_bias: Param<Tensor<2>>,
}

impl TopicEncoder {
    /// An encoder with `hidden` units, with keyed starting weights from `seed`.
    ///
    /// The means start near zero, the standard deviations near $e^{-1}$.
    #[must_use]
    pub fn new(vocabulary: usize, hidden: usize, topics: usize, seed: u64, device: &Device) -> Self {
        let weights = |block: u32, shape: [usize; 2]| {
            let mut values = vec![0.0; shape[0] * shape[1]];
            Noise::new(seed).stream(Key::new(Purpose::Initial, 0).block(block)).normal(&mut values);
            Param::from_tensor(device.tensor(values, shape))
        };
        let mut bias = vec![0.0; 2 * topics];
        bias[topics..].fill(LOG_SCALE);
        Self {
            hidden: weights(0, [vocabulary + 1, hidden]),
            hidden_bias: Param::from_tensor(device.tensor(vec![0.0; hidden], [1, hidden])),
            output: weights(1, [hidden, 2 * topics]),
            output_bias: Param::from_tensor(device.tensor(bias, [1, 2 * topics])),
        }
    }
}

impl Encoder<SparseRows> for TopicEncoder {
    fn encode(&self, data: &SparseRows, rows: &Rows<'_>) -> Result<Encoding> {
        let hidden = features(&data.take(rows)?)?.multiply(self.hidden.val())? + self.hidden_bias.val();
        let units = hidden.dims()[1].max(1) as f64;
        // Not a division: the gradient of Burn 0.22.1's by a number rounds that number to single precision.
        let both = softplus(hidden, 1.0).matmul(self.output.val()) * (1.0 / units) + self.output_bias.val();
        let [_, width] = both.dims();
        let half = width / 2;
        Ok(Encoding { mean: both.clone().narrow(1, 0, half), log_scale: both.narrow(1, half, half) })
    }
}

/// Counts scaled to length one, with $`\log(1 + n_d)`$ in a last column.
fn features(counts: &SparseRows) -> Result<SparseRows> {
    let columns = counts.columns();
    let last = u32::try_from(columns).unwrap_or(u32::MAX);
    let row = |row: usize| {
        let (words, counts) = counts.row(row);
        let length = counts.iter().map(|count| count * count).sum::<f64>().sqrt();
        let scaled = words.iter().zip(counts).map(|(word, count)| (*word, count / length));
        scaled.chain([(last, counts.iter().sum::<f64>().ln_1p())]).collect()
    };
    Ok(SparseRows::new(&(0..counts.rows()).map(row).collect::<Vec<_>>(), columns + 1)?.like(counts))
}
