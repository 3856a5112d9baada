//! Defines Bayesian linear regression with known noise, whose posterior and evidence are known exactly.

use std::f64::consts::PI;

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::{Array, Design, Device, Error, Model, Normal, Result, Scope};

use crate::coefficients::{Coefficients, dot, length, with_intercept};

/// Linear regression with independent normal priors on the intercept and all coefficients, and known noise.
///
/// ```math
/// \beta_k \sim N(0, s^2),\qquad y_i \sim N\Big(\beta_0 + \sum_{k \ge 1} x_{ik}\beta_k,\ \sigma^2\Big)
/// ```
/// with $`s`$ = `prior_sd` and $`\sigma`$ = `noise_sd`.
///
/// # Shapes
/// Global: `beta` `[columns + 1]`, the intercept first; no local latents; data `y` `[rows]` in the plate `row`.
///
/// # References
/// Bishop (2006), Pattern recognition and machine learning, section 3.3.
#[derive(Module, Debug)]
pub struct LinearRegression {
    #[module(skip)]
    columns: usize,
    #[module(skip)]
    prior_sd: f64,
    #[module(skip)]
    noise_sd: f64,
}

/// One silo's covariates, with the one of the intercept, and its measurements.
#[derive(Debug, Clone)]
pub struct MeasuredRows {
    inputs: Vec<f64>,
    targets: Vec<f64>,
    design: Design<2>,
    observed: Tensor<1>,
}

/// The exact posterior of a [`LinearRegression`].
#[derive(Debug, Clone, PartialEq)]
pub struct LinearPosterior {
    /// The posterior of the coefficients, $`N(m, \Lambda^{-1})`$.
    pub coefficients: Coefficients,
    /// $`\Lambda`$, row by row.
    pub precision: Vec<f64>,
    /// $`\log p(y)`$ in nats.
    pub log_evidence: f64,
}

impl LinearPosterior {
    /// The variances $`1 / \Lambda_{kk}`$ of the mean-field Gaussian that minimises $`\mathrm{KL}(q \| p)`$; its means
    /// are the exact ones.
    #[must_use]
    pub fn mean_field_variances(&self) -> Vec<f64> {
        self.precision.iter().step_by(self.coefficients.mean().len() + 1).map(|precision| 1.0 / precision).collect()
    }
}

impl MeasuredRows {
    /// Rows of covariates with a measurement each; each row gets a one for the intercept in front.
    ///
    /// # Shapes
    /// `inputs`: `[rows, columns]`, row by row, with at least one column; `targets`: `[rows]`.
    ///
    /// # Errors
    /// [`Error::Length`] unless `inputs` has rows × columns numbers; [`Error::NotFinite`] for an input or a target that
    /// is not finite.
    ///
    /// # Example
    /// ```
    /// use partita_core::Device;
    /// use partita_models::MeasuredRows;
    /// assert_eq!(MeasuredRows::new(&[0.5, -1.0], 1, &[3.0, 4.0], &Device::flex())?.rows(), 2);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn new(inputs: &[f64], columns: usize, targets: &[f64], device: &Device) -> Result<Self> {
        if let Some(index) = targets.iter().position(|target| !target.is_finite()) {
            return Err(Error::NotFinite { operation: "measurements".into(), found: targets[index], index });
        }
        let inputs = Array::new(inputs.to_vec(), vec![targets.len(), columns])?.values;
        let design = Design::new(with_intercept(&inputs, columns), [targets.len(), columns + 1])?;
        let observed = device.tensor(targets.to_vec(), [targets.len()]);
        Ok(Self { inputs, targets: targets.to_vec(), design, observed })
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.targets.len()
    }

    /// The covariates, `[rows, columns]`, row by row, without the one of the intercept.
    #[must_use]
    pub fn inputs(&self) -> &[f64] {
        &self.inputs
    }

    /// The measurements.
    #[must_use]
    pub fn targets(&self) -> &[f64] {
        &self.targets
    }
}

impl LinearRegression {
    /// The model with `columns` covariates, standard normal priors and noise of standard deviation `noise_sd`.
    #[must_use]
    pub fn new(columns: usize, noise_sd: f64) -> Self {
        Self { columns, prior_sd: 1.0, noise_sd }
    }

    /// The same model with another standard deviation of all priors.
    #[must_use]
    pub fn prior_sd(self, prior_sd: f64) -> Self {
        Self { prior_sd, ..self }
    }

    /// The exact posterior given the rows of all `silos`, and the evidence.
    ///
    /// ```math
    /// \Lambda = s^{-2} I + \sigma^{-2} X^\top X,\qquad m = \sigma^{-2} \Lambda^{-1} X^\top y
    /// ```
    /// ```math
    /// \log p(y) = -\tfrac12\big(n \log 2\pi\sigma^2 + \log\det s^2 \Lambda
    ///   + \sigma^{-2} y^\top y - m^\top \Lambda m\big)
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] for rows with another number of columns; [`Error::NotFiniteMade`] if a standard deviation is
    /// not a finite number above zero.
    ///
    /// # Example
    /// ```
    /// use partita_core::Device;
    /// use partita_models::{LinearRegression, MeasuredRows};
    /// // One row at x = 0: y ~ N(0, 1 + 1), and the intercept is halfway between prior and measurement.
    /// let data = MeasuredRows::new(&[0.0], 1, &[3.0], &Device::flex())?;
    /// let exact = LinearRegression::new(1, 1.0).posterior(&[data])?;
    /// assert!((exact.coefficients.mean()[0] - 1.5).abs() < 1e-12);
    /// let evidence = -0.5 * ((2.0 * std::f64::consts::PI * 2.0).ln() + 9.0 / 2.0);
    /// assert!((exact.log_evidence - evidence).abs() < 1e-12);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn posterior(&self, silos: &[MeasuredRows]) -> Result<LinearPosterior> {
        let (size, prior, noise) = (self.columns + 1, self.prior_sd.powi(-2), self.noise_sd.powi(-2));
        let (mut precision, mut weighted) = (vec![0.0; size * size], vec![0.0; size]);
        precision.iter_mut().step_by(size + 1).for_each(|cell| *cell = prior);
        let (mut squares, mut rows) = (0.0, 0.0);
        for silo in silos {
            let remedy = "Give rows with the model's columns.";
            Error::same_length("rows of a posterior", silo.design.shape()[1], size, remedy)?;
            for (x, y) in with_intercept(&silo.inputs, self.columns).chunks_exact(size).zip(&silo.targets) {
                for (line, a) in precision.chunks_exact_mut(size).zip(x) {
                    line.iter_mut().zip(x).for_each(|(cell, b)| *cell += noise * a * b);
                }
                weighted.iter_mut().zip(x).for_each(|(slot, a)| *slot += noise * a * y);
                squares += noise * y * y;
                rows += 1.0;
            }
        }
        let (covariance, log_determinant) = inverse(&precision, size);
        let mean: Vec<f64> = covariance.chunks_exact(size).map(|line| dot(line, &weighted)).collect();
        let scaled = log_determinant - f64::from(u32::try_from(size).unwrap_or(u32::MAX)) * prior.ln();
        let log_evidence = -0.5 * (rows * (2.0 * PI / noise).ln() + scaled + squares - dot(&mean, &weighted));
        if !log_evidence.is_finite() {
            return Err(Error::NotFiniteMade { operation: "exact posterior".into(), found: log_evidence });
        }
        Ok(LinearPosterior { coefficients: Coefficients::full(mean, covariance)?, precision, log_evidence })
    }

    /// The mean and the standard deviation of a new measurement at each row of `inputs`.
    ///
    /// ```math
    /// y_i \sim N(m_i,\ s_i^2 + \sigma^2)
    /// ```
    /// with $`m_i`$, $`s_i^2`$ as in [`Coefficients::project`].
    ///
    /// # Errors
    /// [`Error::Length`] for inputs or coefficients with another number of columns.
    pub fn predict(&self, inputs: &[f64], posterior: &Coefficients) -> Result<Vec<(f64, f64)>> {
        length("coefficients of a prediction", posterior.mean().len(), self.columns + 1)?;
        let projected = posterior.project(inputs)?;
        Ok(projected.into_iter().map(|(mean, variance)| (mean, variance.sqrt().hypot(self.noise_sd))).collect())
    }

    /// The mean over rows of minus the log predictive density of the measurements, in nats, and the root mean square
    /// error of the predictive means.
    ///
    /// # Errors
    /// [`Error::Length`] for rows or coefficients with another number of columns.
    ///
    /// # Example
    /// ```
    /// use partita_core::Device;
    /// use partita_models::{Coefficients, LinearRegression, MeasuredRows};
    /// let test = MeasuredRows::new(&[1.0, 2.0], 1, &[2.0, 5.0], &Device::flex())?;
    /// let known = Coefficients::mean_field(vec![1.0, 2.0], &[0.0, 0.0])?;
    /// let (loss, error) = LinearRegression::new(1, 1.0).test(&test, &known)?;
    /// // The predictions are 3 and 5, so that the squared errors are 1 and 0.
    /// assert!((error - 0.5_f64.sqrt()).abs() < 1e-12);
    /// assert!((loss - 0.25 - 0.5 * (2.0 * std::f64::consts::PI).ln()).abs() < 1e-12);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn test(&self, rows: &MeasuredRows, posterior: &Coefficients) -> Result<(f64, f64)> {
        length("columns of test rows, the intercept with them", rows.design.shape()[1], self.columns + 1)?;
        let (mut loss, mut squares, mut count) = (0.0, 0.0, 0.0);
        for ((mean, sd), target) in self.predict(&rows.inputs, posterior)?.into_iter().zip(&rows.targets) {
            let residual = target - mean;
            loss += 0.5 * (residual / sd).powi(2) + sd.ln() + 0.5 * (2.0 * PI).ln();
            squares += residual * residual;
            count += 1.0;
        }
        Ok((loss / count, (squares / count).sqrt()))
    }
}

/// The inverse of a symmetric positive definite matrix by Gauss and Jordan, and the logarithm of its determinant.
///
/// No pivoting is needed: the pivots of such a matrix are positive in any order.
fn inverse(matrix: &[f64], size: usize) -> (Vec<f64>, f64) {
    let mut left = matrix.to_vec();
    let mut right = vec![0.0; size * size];
    right.iter_mut().step_by(size + 1).for_each(|cell| *cell = 1.0);
    let mut log_determinant = 0.0;
    for pivot in 0..size {
        let value = left[pivot * size + pivot];
        log_determinant += value.ln();
        for half in [&mut left, &mut right] {
            half[pivot * size..(pivot + 1) * size].iter_mut().for_each(|cell| *cell /= value);
        }
        for row in (0..size).filter(|row| *row != pivot) {
            let factor = left[row * size + pivot];
            for half in [&mut left, &mut right] {
                for column in 0..size {
                    half[row * size + column] -= factor * half[pivot * size + column];
                }
            }
        }
    }
    (right, log_determinant)
}

impl Model for LinearRegression {
    type Globals = Tensor<1>;
    type Data = MeasuredRows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("beta", Normal::new(0.0, self.prior_sd).iid([self.columns + 1]))
    }

    fn local(&self, scope: &mut Scope<'_>, beta: &Tensor<1>, data: &MeasuredRows) -> Result<()> {
        scope.plate("row", data.rows(), |scope, rows| {
            let means = data.design.take(rows)?.predictor(beta.clone(), None)?;
            scope.observe("y", Normal::new(means, self.noise_sd), rows.take(&data.observed)?)
        })
    }
}
