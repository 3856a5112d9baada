//! Defines the logistic mixed model: binary repeated measurements with a random intercept for each row.

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::{Bernoulli, Design, Device, Model, Normal, Result, Scope, elementwise};

use crate::six_cities::{AGES, Child};

/// Logistic regression with a random intercept for each row (child, patient, ...).
///
/// $$ \beta_k \sim N(0, 10^2),\quad \omega \sim N(0, 10^2),\quad b_i \mid \omega \sim N(0, e^{-2\omega}),\quad
///    \operatorname{logit} p_{it} = x_{it}^\top\beta + b_i $$
/// The standard deviation of $b_i$ is $e^{-\omega}$.
///
/// # Shapes
/// Globals: `beta` `[columns]`, `omega` `[1]`; locals: `b` `[rows]` in the plate `child`; data `y` `[rows, repeats]`.
///
/// # References
/// Fitzmaurice and Laird (1993); Hassan, Salomone and Mengersen (2023), section 4.3.
#[derive(Module, Debug)]
pub struct MixedLogistic {
    #[module(skip)]
    columns: usize,
    #[module(skip)]
    centred: bool,
}

/// The globals of [`MixedLogistic`].
#[derive(Debug, Clone)]
pub struct MixedLogisticGlobals {
    /// Regression coefficients.
    pub beta: Tensor<1>,
    /// Minus the log standard deviation of the random intercepts.
    pub omega: Tensor<1>,
}

/// One silo's rows: a design and binary outcomes.
#[derive(Debug, Clone)]
pub struct RepeatedBinary {
    design: Design,
    outcomes: Tensor<2>,
}

impl RepeatedBinary {
    /// Rows with `repeats` outcomes each; the design has shape `[rows, repeats, columns]`.
    ///
    /// # Errors
    /// [`partita_core::Error`] if the number of outcomes is not rows × repeats.
    pub fn new(design: Design, outcomes: Vec<f64>, device: &Device) -> Result<Self> {
        let [rows, repeats, _] = design.shape();
        let outcomes = partita_core::Array::new(outcomes, vec![rows, repeats])?;
        Ok(Self { design, outcomes: device.tensor(outcomes.values, [rows, repeats]) })
    }

    /// Children of the six-cities study: intercept, smoking, age and their product.
    ///
    /// # Errors
    /// [`partita_core::Error`] for a design that is not finite, which cannot occur for these data.
    ///
    /// # Example
    /// ```
    /// use partita_core::Device;
    /// use partita_models::{RepeatedBinary, six_cities};
    /// let data = RepeatedBinary::six_cities(&six_cities(), &Device::flex())?;
    /// assert_eq!(data.rows(), 537);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn six_cities(children: &[Child], device: &Device) -> Result<Self> {
        let covariates = |child: &Child| {
            let smoke = f64::from(u8::from(child.smoke));
            AGES.into_iter().flat_map(move |age| [1.0, smoke, age, smoke * age])
        };
        let design = Design::new(children.iter().flat_map(covariates).collect(), [children.len(), AGES.len(), 4])?;
        let outcomes = children.iter().flat_map(|child| child.wheeze.map(|wheeze| f64::from(u8::from(wheeze))));
        Self::new(design, outcomes.collect(), device)
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.design.shape()[0]
    }
}

impl MixedLogistic {
    /// The model with `columns` coefficients and a non-centred random intercept.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        Self { columns, centred: false }
    }

    /// The same model with a centred random intercept, as in the SFVI paper.
    #[must_use]
    pub fn centred(self) -> Self {
        Self { centred: true, ..self }
    }
}

impl Model for MixedLogistic {
    type Globals = MixedLogisticGlobals;
    type Data = RepeatedBinary;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        Ok(MixedLogisticGlobals {
            beta: scope.sample("beta", Normal::new(0.0, 10.0).iid([self.columns]))?,
            omega: scope.sample("omega", Normal::new(0.0, 10.0))?,
        })
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Self::Globals, data: &Self::Data) -> Result<()> {
        scope.plate("child", data.rows(), |scope, rows| {
            let omega = globals.omega.clone();
            let deviation = if scope.stays_on_device() {
                omega.neg().exp()
            } else {
                elementwise(omega, |omega| (-omega).exp(), |omega| -(-omega).exp())
            };
            let effects = Normal::new(0.0, deviation);
            let effects = if self.centred { effects } else { effects.non_centred() };
            let intercepts = scope.sample("b", effects)?;
            let logits = data.design.take(rows)?.predictor(globals.beta.clone(), Some(intercepts))?;
            scope.observe("y", Bernoulli::logits(logits), rows.take(&data.outcomes)?)
        })
    }
}
