//! Defines contributions that are networks: with point weights, a Bayesian last layer, or all weights latent.

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::vertical::Contribution;
use partita_core::{Distribution, Normal, Result, Rows, Scope};

use crate::bayesian_network::Network;

/// A network of point weights $`\phi_j`$ that stay in the party: the party's part of a split network, $`g_{ij} =
/// f_{\phi_j}(x_{ij})`$.
///
/// # Shapes
/// No latents. Data: features `[rows, inputs]`; the network gives `[rows, outputs]`.
///
/// # References
/// Vepakomma, Gupta, Swedish and Raskar (2018), Split learning for health.
#[derive(Module, Debug)]
pub struct PointNetwork<N: Network> {
    network: N,
    #[module(skip)]
    weights: Option<f64>,
}

impl<N: Network> PointNetwork<N> {
    /// The contribution of this network, trained from its present weights.
    #[must_use]
    pub fn new(network: N) -> Self {
        Self { network, weights: None }
    }

    /// The same with a prior $`N(0, s^2)`$ for every point weight, trained to the posterior mode; $`s`$ = `deviation`.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, vertical::Party};
    /// use partita_models::{Activation, Mlp, vertical::PointNetwork};
    /// let device = Device::flex();
    /// let network = PointNetwork::new(Mlp::new(&[1, 1], Activation::Relu, 1, &device)).weights_from(2.0);
    /// let mut party = Party::new("clinic", network, device.tensor(vec![3.0], [1, 1]));
    /// party.set_theta(&[4.0, -2.0], &device)?;
    /// let share = party.contribute(&device, &party.table(&device)?, &[], None)?;
    /// assert_eq!(share.outputs().values, [4.0 * 3.0 - 2.0]);
    /// // The gradient of the prior alone is -w / s^2.
    /// assert_eq!(share.vjp(&[0.0])?.theta, [-1.0, 0.5]);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    #[must_use]
    pub fn weights_from(self, deviation: f64) -> Self {
        Self { weights: Some(deviation), ..self }
    }
}

impl<N: Network + 'static> Contribution for PointNetwork<N> {
    type Latents = ();
    type Data = Tensor<2>;

    fn prior(&self, _: &mut Scope<'_>) -> Result<()> {
        Ok(())
    }

    fn contribute(&self, (): &(), rows: &Rows<'_>, data: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(self.network.forward(rows.take(data)?))
    }

    fn weight_prior(&self) -> Option<f64> {
        self.weights
    }
}

/// A network of point weights with a Bayesian last layer: the party's part of a hierarchical Bayes split network.
///
/// ```math
/// g_{ik} = \sum_h f_{\phi_j}(x_i)_h\, w_{hk},\qquad w_{hk} \sim p
/// ```
/// with $`p`$ = [`LastLayer::prior`] ($`N(0, 1)`$ unless another is given).
///
/// # Shapes
/// Latent: `w` `[features, outputs]`. Data: inputs of the network `[rows, inputs]`, which gives `[rows, features]`.
///
/// # References
/// Hassan, Sutton, Mira and Mengersen (2024), section 5.3.
#[derive(Module, Debug)]
pub struct LastLayer<N: Network> {
    network: N,
    #[module(skip)]
    features: usize,
    #[module(skip)]
    outputs: usize,
    #[module(skip)]
    prior: Distribution<1>,
    #[module(skip)]
    weights: Option<f64>,
}

impl<N: Network> LastLayer<N> {
    /// The last layer over a network with `features` outputs, for a head of one output.
    #[must_use]
    pub fn new(network: N, features: usize) -> Self {
        Self { network, features, outputs: 1, prior: Normal::new(0.0, 1.0), weights: None }
    }

    /// The same with another prior, of one number, for every weight.
    #[must_use]
    pub fn prior(self, prior: Distribution<1>) -> Self {
        Self { prior, ..self }
    }

    /// The same with a prior $`N(0, s^2)`$ for every point weight of the network, trained to the posterior mode; $`s`$
    /// = `deviation`.
    #[must_use]
    pub fn weights_from(self, deviation: f64) -> Self {
        Self { weights: Some(deviation), ..self }
    }

    /// The same for a head of several outputs, such as classes.
    #[must_use]
    pub fn outputs(self, outputs: usize) -> Self {
        Self { outputs, ..self }
    }
}

impl<N: Network + 'static> Contribution for LastLayer<N> {
    type Latents = Tensor<2>;
    type Data = Tensor<2>;

    fn prior(&self, scope: &mut Scope<'_>) -> Result<Tensor<2>> {
        scope.sample("w", self.prior.clone().iid([self.features, self.outputs]))
    }

    fn contribute(&self, w: &Tensor<2>, rows: &Rows<'_>, data: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(self.network.forward(rows.take(data)?).matmul(w.clone()))
    }

    fn weight_prior(&self) -> Option<f64> {
        self.weights
    }
}

/// A network with all weights latent, under one prior.
///
/// # Shapes
/// Latents: those of [`Network::draw`]. Data: features `[rows, inputs]`; the network gives `[rows, outputs]`.
#[derive(Module, Debug)]
pub struct LatentNetwork<N: Network> {
    // Not θ: its parameters are latents.
    #[module(skip)]
    network: N,
    #[module(skip)]
    prior: Distribution<1>,
}

impl<N: Network> LatentNetwork<N> {
    /// The contribution of a network with latent weights.
    #[must_use]
    pub fn new(network: N, prior: Distribution<1>) -> Self {
        Self { network, prior }
    }
}

impl<N: Network + 'static> Contribution for LatentNetwork<N> {
    type Latents = N;
    type Data = Tensor<2>;

    fn prior(&self, scope: &mut Scope<'_>) -> Result<N> {
        self.network.draw(scope, self.prior.clone())
    }

    fn contribute(&self, network: &N, rows: &Rows<'_>, data: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(network.forward(rows.take(data)?))
    }
}
