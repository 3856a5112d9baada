//! Defines the smallest model, the mean of normal numbers, with its exact posterior and evidence.

use std::f64::consts::PI;

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::{Device, Model, Normal, Result, Scope};

/// The unknown mean of normal numbers of standard deviation 1, with a standard normal prior.
///
/// ```math
/// \mu \sim N(0, 1),\qquad y_i \sim N(\mu, 1)
/// ```
///
/// # Shapes
/// Global: `mu` `[1]`; no local latents; data `y` `[rows]` in the plate `row`.
///
/// # References
/// Experiment A of a bachelor thesis on a framework for partitioned variational inference.
#[derive(Module, Debug)]
pub struct GaussianMean {}

/// The exact posterior of a [`GaussianMean`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanPosterior {
    /// The posterior mean of $`\mu`$.
    pub mean: f64,
    /// Its posterior variance.
    pub variance: f64,
    /// $`\log p(y)`$ in nats.
    pub log_evidence: f64,
}

impl GaussianMean {
    /// The exact posterior given the numbers of all `silos`, and the evidence.
    ///
    /// ```math
    /// \mu \mid y \sim N\Big(\frac{\sum_i y_i}{n + 1},\ \frac{1}{n + 1}\Big),\qquad
    /// \log p(y) = -\tfrac12\Big(n \log 2\pi + \log(n + 1) + \sum_i y_i^2 - \frac{(\sum_i y_i)^2}{n + 1}\Big)
    /// ```
    ///
    /// # Example
    /// ```
    /// use partita_models::GaussianMean;
    /// let exact = GaussianMean::posterior(&[vec![1.0, 2.0], vec![3.0]]);
    /// assert_eq!((exact.mean, exact.variance), (1.5, 0.25));
    /// ```
    #[must_use]
    pub fn posterior(silos: &[Vec<f64>]) -> MeanPosterior {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for value in silos.iter().flatten() {
            count += 1.0;
            sum += value;
            squares += value * value;
        }
        let precision = count + 1.0;
        let log_evidence = -0.5 * (count * (2.0 * PI).ln() + f64::ln(precision) + squares - sum * sum / precision);
        MeanPosterior { mean: sum / precision, variance: 1.0 / precision, log_evidence }
    }

    /// Numbers as data on a device.
    #[must_use]
    pub fn data(values: &[f64], device: &Device) -> Tensor<1> {
        device.tensor(values.to_vec(), [values.len()])
    }
}

impl Model for GaussianMean {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("mu", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, mu: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(mu.clone(), 1.0).over(rows), rows.take(data)?)
        })
    }
}
