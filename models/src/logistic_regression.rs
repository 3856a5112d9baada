//! Defines Bayesian logistic regression: a binary outcome from covariates, with one coefficient vector for all silos.

use std::f64::consts::PI;

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::special::sigmoid;
use partita_core::{Array, Bernoulli, Design, Device, Model, Normal, Result, Scope};

use crate::coefficients::{Coefficients, length, with_intercept};

/// Logistic regression with independent normal priors on the intercept and all coefficients.
///
/// ```math
/// \beta_k \sim N(0, s^2),\qquad \operatorname{logit} \Pr(y_i = 1) = \beta_0 + \sum_{k \ge 1} x_{ik}\beta_k
/// ```
/// with $`s`$ = `prior_sd`.
///
/// # Shapes
/// Global: `beta` `[columns + 1]`, the intercept first; no local latents; data `y` `[rows]` in the plate `row`.
///
/// # References
/// Ashman et al. (2022), Partitioned variational inference, arXiv:2202.12275, section 5.1.
#[derive(Module, Debug)]
pub struct LogisticRegression {
    #[module(skip)]
    columns: usize,
    #[module(skip)]
    prior_sd: f64,
}

/// One silo's covariates, with the one of the intercept, and its labels.
#[derive(Debug, Clone)]
pub struct BinaryRows {
    design: Design<2>,
    labels: Tensor<1>,
}

impl BinaryRows {
    /// Rows of covariates with a label each; each row gets a one for the intercept in front.
    ///
    /// # Shapes
    /// `inputs`: `[rows, columns]`, row by row; `labels`: `[rows]`.
    ///
    /// # Errors
    /// [`partita_core::Error::Length`] unless `inputs` has rows × columns numbers; [`partita_core::Error::NotFinite`]
    /// for an input that is not finite.
    ///
    /// # Example
    /// ```
    /// use partita_core::Device;
    /// use partita_models::BinaryRows;
    /// let data = BinaryRows::new(&[0.5, -1.0, 2.0, 0.0], 2, &[true, false], &Device::flex())?;
    /// assert_eq!(data.design().shape(), [2, 3]);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn new(inputs: &[f64], columns: usize, labels: &[bool], device: &Device) -> Result<Self> {
        let inputs = Array::new(inputs.to_vec(), vec![labels.len(), columns])?.values;
        let values = if columns == 0 { vec![1.0; labels.len()] } else { with_intercept(&inputs, columns) };
        let design = Design::new(values, [labels.len(), columns + 1])?;
        let numbers = labels.iter().map(|label| f64::from(u8::from(*label))).collect();
        Ok(Self { design, labels: device.tensor(numbers, [labels.len()]) })
    }

    /// The design with the one of the intercept: `[rows, columns + 1]`.
    #[must_use]
    pub fn design(&self) -> &Design<2> {
        &self.design
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.design.shape()[0]
    }
}

/// The constant $`c`$ of the probit approximation that matches the slopes of the normal and the logistic function at
/// zero.
pub const PROBIT_CONSTANT: f64 = PI / 8.0;

impl LogisticRegression {
    /// The model with `columns` covariates and standard normal priors.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        Self { columns, prior_sd: 1.0 }
    }

    /// The same model with another standard deviation of all priors.
    #[must_use]
    pub fn prior_sd(self, prior_sd: f64) -> Self {
        Self { prior_sd, ..self }
    }

    /// The probabilities of no and of yes for each row by the probit approximation.
    ///
    /// ```math
    /// \Pr(y_i = 1) \approx \sigma\Big(m_i \big/ \sqrt{1 + c\thinspace s_i^2}\Big)
    /// ```
    /// with $`m_i`$ and $`s_i^2`$ the mean and the variance of the linear predictor of row $`i`$ under `posterior`
    /// ([`Coefficients::project`]) and $`c`$ = `constant`. Use [`PROBIT_CONSTANT`], or $`\pi`$ to reproduce the formula
    /// printed in the PVI paper.
    ///
    /// # Shapes
    /// `inputs`: `[rows, columns]`; returns `[rows, 2]`, row by row, the format of the measures of predictions.
    ///
    /// # Numerics
    /// For $`m = 2`$, $`s^2 = 4`$ the exact value is 0.7752; $`c = \pi/8`$ gives 0.7768, $`c = \pi`$ 0.6325.
    ///
    /// # Errors
    /// [`partita_core::Error::Length`] for inputs or coefficients with another number of columns.
    ///
    /// # Example
    /// ```
    /// use partita_models::{Coefficients, LogisticRegression, PROBIT_CONSTANT};
    /// let posterior = Coefficients::mean_field(vec![2.0, 0.0], &[4.0, 0.0])?;
    /// let probabilities = LogisticRegression::new(1).predict(&[0.3], &posterior, PROBIT_CONSTANT)?;
    /// assert!((probabilities[1] - 0.7768).abs() < 5e-5);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// MacKay (1992), The evidence framework applied to classification networks; Bishop (2006), section 4.5.2.
    pub fn predict(&self, inputs: &[f64], posterior: &Coefficients, constant: f64) -> Result<Vec<f64>> {
        length("coefficients of a prediction", posterior.mean().len(), self.columns + 1)?;
        let logits = posterior.project(inputs)?.into_iter().map(|(mean, var)| mean / (1.0 + constant * var).sqrt());
        Ok(logits.flat_map(|logit| [sigmoid(-logit), sigmoid(logit)]).collect())
    }
}

impl Model for LogisticRegression {
    type Globals = Tensor<1>;
    type Data = BinaryRows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("beta", Normal::new(0.0, self.prior_sd).iid([self.columns + 1]))
    }

    fn local(&self, scope: &mut Scope<'_>, beta: &Tensor<1>, data: &BinaryRows) -> Result<()> {
        scope.plate("row", data.rows(), |scope, rows| {
            let logits = data.design.take(rows)?.predictor(beta.clone(), None)?;
            scope.observe("y", Bernoulli::logits(logits), rows.take(&data.labels)?)
        })
    }
}
