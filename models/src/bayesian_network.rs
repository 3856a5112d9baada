//! Defines Bayesian neural networks: any Burn module with latent weights, and a head that interprets its outputs.

use burn::module::{Module, ModuleDisplay, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::{gelu, relu, softmax, tanh};
use partita_core::{
    Array, BayesianLinear, Bernoulli, Categorical, Device, Distribution, Error, HalfNormal, Key, Model, Noise, Normal,
    Purpose, Result, Scope, SiteTable,
};

use crate::sigmoid::sigmoid;

/// A Burn module that maps rows of features to rows of outputs.
///
/// [`Mlp`] is one; any other module needs its forward pass only.
///
/// # Laws
/// The outputs of a row depend on that row and the parameters alone, since minibatches and silos have other rows beside
/// it (`tests/exactness/network.rs`).
///
/// # Example
/// ```
/// use partita_core::{Device, burn};
/// use partita_models::{Mlp, Activation, Network};
/// use burn::{module::{Module, Param}, tensor::Tensor};
///
/// /// A network with a skip connection.
/// #[derive(Module, Debug)]
/// struct Residual { weight: Param<Tensor<2>> }
/// impl Network for Residual {
///     fn forward(&self, rows: Tensor<2>) -> Tensor<2> { rows.clone() + rows.matmul(self.weight.val()).tanh() }
/// }
///
/// let device = Device::flex();
/// let network = Residual { weight: Param::from_tensor(device.tensor(vec![0.0; 4], [2, 2])) };
/// assert_eq!(network.forward(device.tensor(vec![1.0, 2.0], [1, 2])).sum().into_scalar::<f64>(), 3.0);
/// ```
pub trait Network: Module + ModuleDisplay + 'static {
    /// The outputs of these rows.
    ///
    /// # Shapes
    /// `[rows, inputs]` → `[rows, outputs]`.
    fn forward(&self, rows: Tensor<2>) -> Tensor<2>;

    /// Declares every parameter a latent with the prior `prior`; posterior means start at the values it has now.
    ///
    /// # Errors
    /// As for [`Scope::module`].
    fn draw(&self, scope: &mut Scope<'_>, prior: Distribution<1>) -> Result<Self> {
        scope.module("network", self, prior)
    }
}

/// The function between two layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// $\max(0, x)$.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// $x\,\Phi(x)$ (Hendrycks and Gimpel, 2016).
    Gelu,
}

/// Linear layers with an activation between them (multilayer perceptron).
///
/// Its layers are declared with [`Scope::linear`], so that local reparameterisation applies: sites `layer1.0` (weight),
/// `layer1.1` (bias), `layer2.0`, ...
#[derive(Module, Debug)]
pub struct Mlp {
    layers: Vec<BayesianLinear>,
    #[module(skip)]
    activation: Activation,
}

impl Mlp {
    /// Layers of these widths, inputs first and outputs last, that start with keyed weights from $`N(0, 2/\text{inputs
    /// of the layer})`$ and biases of zero. Every party with the same seed starts from the same values.
    #[must_use]
    pub fn new(widths: &[usize], activation: Activation, seed: u64, device: &Device) -> Self {
        let layer = |(index, pair): (u32, &[usize])| {
            let mut noise = Noise::new(seed).stream(Key::new(Purpose::Initial, 0).block(index));
            BayesianLinear::rectified([pair[0], pair[1]], &mut noise, device)
        };
        Self { layers: (0..).zip(widths.windows(2)).map(layer).collect(), activation }
    }

    /// The same with keyed weights and biases between minus and plus `half_width` in all layers.
    #[must_use]
    pub fn uniform(widths: &[usize], activation: Activation, half_width: f64, seed: u64, device: &Device) -> Self {
        let layer = |(index, pair): (u32, &[usize])| {
            let mut noise = Noise::new(seed).stream(Key::new(Purpose::Initial, 0).block(index));
            let mut draw =
                |count: usize| (0..count).map(|_| half_width * (2.0 * noise.uniform() - 1.0)).collect::<Vec<f64>>();
            let (weight, bias) = (draw(pair[0] * pair[1]), draw(pair[1]));
            BayesianLinear::new(device.tensor(weight, [pair[0], pair[1]]), device.tensor(bias, [pair[1]]))
        };
        Self { layers: (0..).zip(widths.windows(2)).map(layer).collect(), activation }
    }
}

impl Network for Mlp {
    fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let mut rows = rows;
        for (index, layer) in self.layers.iter().enumerate() {
            rows = layer.forward(rows);
            if index + 1 < self.layers.len() {
                rows = match self.activation {
                    Activation::Relu => relu(rows),
                    Activation::Tanh => tanh(rows),
                    Activation::Gelu => gelu(rows),
                };
            }
        }
        rows
    }

    fn draw(&self, scope: &mut Scope<'_>, prior: Distribution<1>) -> Result<Self> {
        let mut taken = 0;
        let layers = self.layers.iter().zip(1_u32..).map(|(layer, number)| {
            let own = taken..taken + Module::num_params(layer);
            taken = own.end;
            scope.linear(&format!("layer{number}"), layer, prior.part(own))
        });
        Ok(Self { layers: layers.collect::<Result<_>>()?, activation: self.activation })
    }
}

/// The distribution of targets given the outputs of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Head {
    /// Logits of classes; targets are class indices `[rows]`.
    Categorical,
    /// Logits of independent binary targets, `[rows, outputs]`.
    Bernoulli,
    /// Means of normal targets `[rows, outputs]` with this standard deviation, or a common one that is inferred: the
    /// site `noise_scale` with the prior $\mathrm{HalfNormal}(1)$, for targets of about unit variance.
    Gaussian(Option<f64>),
}

/// A neural network whose weights are latent.
///
/// ```math
/// w_i \sim p, \qquad y_r \mid w \sim \mathrm{head}(f_w(x_r))
/// ```
/// with one prior $p$ = `prior` of every parameter $w_i$ of the network $f$, such as $N(0, s^2)$.
///
/// # Shapes
/// Globals: the parameters of the network, and `noise_scale` `[1]` where it is inferred. Data in the plate `row`: the
/// features $x$ `[rows, inputs]` and the targets $y$ of [`Head`].
///
/// # References
/// MacKay (1992); Blundell, Cornebise, Kavukcuoglu and Wierstra (2015), Weight uncertainty in neural networks.
#[derive(Module, Debug)]
pub struct BayesianNetwork<N: Network> {
    // Not θ: its parameters are latents.
    #[module(skip)]
    network: N,
    #[module(skip)]
    head: Head,
    #[module(skip)]
    prior: Distribution<1>,
    /// Logarithms of the prior standard deviation of every weight, if they are learned.
    log_scales: Option<Param<Tensor<1>>>,
}

/// The globals of [`BayesianNetwork`].
#[derive(Debug, Clone)]
pub struct NetworkGlobals<N> {
    /// The network with drawn parameters.
    pub network: N,
    /// The standard deviation of normal targets, if it is inferred.
    pub noise_scale: Option<Tensor<1>>,
}

/// Rows of features with their targets.
#[derive(Debug, Clone)]
pub struct LabelledRows {
    features: Tensor<2>,
    targets: Tensor<2>,
}

impl LabelledRows {
    /// Rows on the device and in its precision.
    ///
    /// # Shapes
    /// `features` `[rows, inputs]`, row-major; `targets` `[rows, outputs]`, one class index a row for
    /// [`Head::Categorical`].
    ///
    /// # Errors
    /// [`Error::Length`] if the numbers do not make whole rows, or features and targets differ in their number of rows;
    /// [`Error::NotFinite`] for a feature that is not finite.
    pub fn new(features: Vec<f64>, targets: Vec<f64>, rows: usize, device: &Device) -> Result<Self> {
        let whole = |operation: &str, found: usize| {
            if rows > 0 && found > 0 && found.is_multiple_of(rows) {
                return Ok(found / rows);
            }
            Err(Error::Length {
                operation: operation.into(),
                found,
                expected: rows,
                remedy: "Give every row the same number of features, and the same number of targets.".into(),
            })
        };
        let (inputs, outputs) =
            (whole("features of a network", features.len())?, whole("targets of a network", targets.len())?);
        if let Some(index) = features.iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite { operation: "features of a network".into(), found: features[index], index });
        }
        Ok(Self { features: device.tensor(features, [rows, inputs]), targets: device.tensor(targets, [rows, outputs]) })
    }

    /// The features, `[rows, inputs]`.
    #[must_use]
    pub fn features(&self) -> &Tensor<2> {
        &self.features
    }
}

impl<N: Network> BayesianNetwork<N> {
    /// The network with latent weights.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Normal, SiteTable};
    /// use partita_models::{Activation, BayesianNetwork, Head, Mlp};
    /// let device = Device::flex();
    /// let network = Mlp::new(&[784, 200, 10], Activation::Relu, 1, &device);
    /// let model = BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 0.3));
    /// assert_eq!(SiteTable::globals(&model, &device)?.global_len(), 159_010);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    #[must_use]
    pub fn new(network: N, head: Head, prior: Distribution<1>) -> Self {
        Self { network, head, prior, log_scales: None }
    }

    /// The network with automatic relevance determination: every weight $`w_i \sim N(0, s_i^2)`$ has its own prior
    /// scale, a point parameter (empirical Bayes) that starts at `initial_scale`.
    ///
    /// The scale of a weight without support in the data shrinks to zero with the weight, which then adds neither cost
    /// nor noise. Under one common scale such weights keep a network with a mean-field posterior from fitting.
    ///
    /// # References
    /// MacKay (1995), Probable networks and plausible predictions; Titsias and Lázaro-Gredilla (2014), Doubly
    /// stochastic variational Bayes for non-conjugate inference.
    #[must_use]
    pub fn relevance(network: N, head: Head, initial_scale: f64, device: &Device) -> Self {
        let count = Module::num_params(&network);
        let log_scales = device.tensor(vec![initial_scale.ln(); count], [count]);
        let prior = Normal::new(0.0, initial_scale);
        Self { network, head, prior, log_scales: Some(Param::from_tensor(log_scales)) }
    }

    /// The posterior-predictive mean of rows: class probabilities, one probability, or the mean of normal targets,
    /// averaged over draws of the unconstrained global vector.
    ///
    /// # Shapes
    /// `features` `[rows, inputs]` → `[rows, outputs]`; rows are evaluated a few thousand at a time.
    ///
    /// # Errors
    /// [`Error::Length`] without draws or for one of the wrong length; otherwise as for [`SiteTable::globals_at`].
    pub fn predict(
        &self,
        device: &Device,
        features: &Tensor<2>,
        draws: impl IntoIterator<Item = Vec<f64>>,
    ) -> Result<Array> {
        let table = SiteTable::globals(self, device)?;
        let [rows, _] = features.dims();
        let mut sums: Vec<Tensor<2>> = Vec::new();
        let mut count = 0_u32;
        for draw in draws {
            let globals = table.globals_at(self, device, &draw)?;
            for (index, start) in (0..rows).step_by(ROWS_AT_ONCE).enumerate() {
                let part = features.clone().narrow(0, start, ROWS_AT_ONCE.min(rows - start));
                let mean = self.head.mean(globals.network.forward(part));
                match sums.get_mut(index) {
                    Some(sum) => *sum = sum.clone() + mean,
                    None => sums.push(mean),
                }
            }
            count += 1;
        }
        if count == 0 {
            return Err(Error::Length {
                operation: "draws of a prediction".into(),
                found: 0,
                expected: 1,
                remedy: "Give at least one draw of the globals.".into(),
            });
        }
        let mut values = Vec::new();
        for sum in sums {
            values.extend(partita_core::Handle::from(sum / f64::from(count)).read()?.values);
        }
        let outputs = values.len() / rows.max(1);
        Array::new(values, vec![rows, outputs])
    }
}

/// Rows of a prediction in one forward pass.
const ROWS_AT_ONCE: usize = 2_000;

impl Head {
    /// The mean of a target given the outputs of the network.
    fn mean(self, outputs: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Categorical => softmax(outputs, 1),
            Self::Bernoulli => sigmoid(outputs),
            Self::Gaussian(_) => outputs,
        }
    }
}

impl<N: Network> Model for BayesianNetwork<N> {
    type Globals = NetworkGlobals<N>;
    type Data = LabelledRows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        let prior = match &self.log_scales {
            None => self.prior.clone(),
            Some(log_scales) => Normal::new(0.0, log_scales.val().exp()),
        };
        let network = self.network.draw(scope, prior)?;
        let noise_scale = match self.head {
            Head::Gaussian(None) => Some(scope.sample("noise_scale", HalfNormal::new(1.0))?),
            _ => None,
        };
        Ok(NetworkGlobals { network, noise_scale })
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Self::Globals, data: &Self::Data) -> Result<()> {
        let [count, _] = data.targets.dims();
        scope.plate("row", count, |scope, rows| {
            let outputs = globals.network.forward(rows.take(&data.features)?);
            let targets = rows.take(&data.targets)?;
            match (self.head, &globals.noise_scale) {
                (Head::Categorical, _) => {
                    let classes = targets.flatten::<1>(0, 1);
                    scope.observe("y", Categorical::logits(outputs), classes)
                }
                (Head::Bernoulli, _) => scope.observe("y", Bernoulli::logits(outputs), targets),
                (Head::Gaussian(Some(scale)), _) => scope.observe("y", Normal::new(outputs, scale), targets),
                (Head::Gaussian(None), scale) => {
                    let Some(scale) = scale.clone() else { unreachable!("invariant: a noise scale is sampled") };
                    scope.observe("y", Normal::new(outputs, scale), targets)
                }
            }
        })
    }
}
