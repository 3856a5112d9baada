//! Defines the logistic mixed model: binary repeated measurements with a random intercept for each child or patient.

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::{Array, Bernoulli, Design, Device, Error, Groups, Model, Normal, Result, Scope, elementwise};

use crate::six_cities::{AGES, Child};

/// Logistic regression with a random intercept for each child, each of whom was seen any number of times.
///
/// $$ \beta_k \sim N(0, 10^2),\quad \omega \sim N(0, 10^2),\quad b_i \mid \omega \sim N(0, e^{-2\omega}),\quad
///    \operatorname{logit} p_{it} = x_{it}^\top\beta + b_i $$
/// The standard deviation of $b_i$ is $e^{-\omega}$.
///
/// # Shapes
/// Globals: `beta` `[columns]`, `omega` `[1]`; locals: `b` `[children]` in the plate `child`; data `y` `[visits]` in the
/// plate `visit` inside it.
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

/// One silo's children: a design and binary outcomes of their visits.
#[derive(Debug, Clone)]
pub struct RepeatedBinary {
    visits: Groups,
    design: Design<2>,
    outcomes: Tensor<1>,
}

impl RepeatedBinary {
    /// Outcomes of visits; `visits` says whose each visit is, and children may have unequal numbers of them.
    ///
    /// # Shapes
    /// `design`: `[visits, columns]`; `outcomes`: `[visits]`.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is one outcome a visit; [`Error::Shape`] unless the design has one row a visit.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Design, Device, Groups};
    /// use partita_models::RepeatedBinary;
    /// let visits = Groups::by_key(&["ada", "bea", "ada"])?;
    /// let design = Design::new(vec![1.0, 0.5, 1.0, -0.5, 1.0, 1.5], [3, 2])?;
    /// let data = RepeatedBinary::new(visits, design, vec![1.0, 0.0, 1.0], &Device::flex())?;
    /// assert_eq!((data.rows(), data.visits().rows()), (2, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(visits: Groups, design: Design<2>, outcomes: Vec<f64>, device: &Device) -> Result<Self> {
        let (found, count) = (design.shape(), visits.rows());
        let remedy = "Give the design one row a visit.";
        Error::same_shape("design of repeated outcomes", &found, &[count, found[1]], remedy)?;
        let outcomes = Array::new(outcomes, vec![count])?.values;
        Ok(Self { visits, design, outcomes: device.tensor(outcomes, [count]) })
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
        let index: Vec<usize> = (0..children.len()).flat_map(|child| [child; AGES.len()]).collect();
        let Ok(visits) = Groups::new(index, children.len()) else {
            unreachable!("invariant: every child of the study has an outcome at every age")
        };
        let design = Design::new(children.iter().flat_map(covariates).collect(), [visits.rows(), 4])?;
        let outcomes = children.iter().flat_map(|child| child.wheeze.map(|wheeze| f64::from(u8::from(wheeze))));
        Self::new(visits, design, outcomes.collect(), device)
    }

    /// The number of children.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.visits.groups()
    }

    /// The child of each visit.
    #[must_use]
    pub fn visits(&self) -> &Groups {
        &self.visits
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
        scope.plate("child", data.rows(), |scope, _| {
            let omega = globals.omega.clone();
            let deviation = if scope.stays_on_device() {
                omega.neg().exp()
            } else {
                elementwise(omega, |omega| (-omega).exp(), |omega| -(-omega).exp())
            };
            let effects = Normal::new(0.0, deviation);
            let effects = if self.centred { effects } else { effects.non_centred() };
            let intercepts = scope.sample("b", effects)?;
            scope.plate("visit", &data.visits, |scope, visits| {
                let logits = data.design.take(visits)?.predictor_by_group(globals.beta.clone(), intercepts)?;
                scope.observe("y", Bernoulli::logits(logits), visits.take(&data.outcomes)?)
            })
        })
    }
}
