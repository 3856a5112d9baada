//! Defines multinomial regression with learned prior scales: classes from many covariates, most of them zero.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use partita_core::kernel::exponential;
use partita_core::{
    Array, Categorical, Device, Error, Handle, Key, Model, Noise, Normal, Purpose, Result, Scope, SparseRows,
    elementwise,
};

/// Multinomial regression with normal priors whose scales are trained (empirical Bayes).
///
/// ```math
/// W_{jk} \sim N(0, \sigma_W^2),\quad b_k \sim N(0, \sigma_b^2),\quad
/// y_i \sim \operatorname{Categorical}(\operatorname{softmax}(x_i^\top W + b))
/// ```
/// with the point parameters $`\theta = (\log\sigma_W, \log\sigma_b)`$. The latents are $`W/\sigma_W`$ and
/// $`b/\sigma_b`$ (non-centred). The posterior of a weight on which the data have no information, such as that of a
/// pixel that is always black, then does not depend on $`\sigma_W`$. In the centred form every such posterior would
/// have to follow each step of $`\sigma_W`$.
///
/// # Shapes
/// Globals: `weights` `[columns, classes]`, `intercepts` `[classes]`; no local latents; data in the plate `row`.
///
/// # References
/// Hassan, Salomone and Mengersen (2023), section 4.1.
#[derive(Module, Debug)]
pub struct MultinomialRegression {
    log_sigma_weights: Param<Tensor<1>>,
    log_sigma_intercepts: Param<Tensor<1>>,
    #[module(skip)]
    shape: [usize; 2],
    #[module(skip)]
    centred: bool,
}

/// The globals of [`MultinomialRegression`].
#[derive(Debug, Clone)]
pub struct MultinomialRegressionGlobals {
    /// $W$.
    pub weights: Tensor<2>,
    /// $b$.
    pub intercepts: Tensor<1>,
}

/// One silo's covariates and classes.
#[derive(Debug, Clone)]
pub struct ClassifiedRows {
    covariates: SparseRows,
    labels: Vec<u8>,
    classes: Tensor<1>,
}

impl ClassifiedRows {
    /// Rows of `covariates` with a class each.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is one class for each row.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, SparseRows};
    /// use partita_models::ClassifiedRows;
    /// let covariates = SparseRows::from_dense(&[0.0, 1.0, 0.2, 0.0], [2, 2])?;
    /// let data = ClassifiedRows::new(covariates, &[1, 0], &Device::flex())?;
    /// assert_eq!(data.covariates().row(1), (&[0][..], &[0.2][..]));
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn new(covariates: SparseRows, classes: &[u8], device: &Device) -> Result<Self> {
        let numbers = Array::new(classes.iter().map(|class| f64::from(*class)).collect(), vec![covariates.rows()])?;
        let numbers = device.tensor(numbers.values, [covariates.rows()]);
        Ok(Self { covariates, labels: classes.to_vec(), classes: numbers })
    }

    /// The covariates.
    #[must_use]
    pub fn covariates(&self) -> &SparseRows {
        &self.covariates
    }

    /// The class of each row.
    #[must_use]
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }
}

/// The starting value of both prior standard deviations.
const INITIAL_SIGMA: f64 = 0.1;

impl MultinomialRegression {
    /// The model of `classes` classes given `columns` covariates, with both prior standard deviations starting at 0.1.
    #[must_use]
    pub fn new([columns, classes]: [usize; 2], device: &Device) -> Self {
        let start = || Param::from_tensor(device.tensor(vec![INITIAL_SIGMA.ln()], [1]));
        Self { log_sigma_weights: start(), log_sigma_intercepts: start(), shape: [columns, classes], centred: false }
    }

    /// The same model with weights and intercepts themselves as latents.
    #[must_use]
    pub fn centred(self) -> Self {
        Self { centred: true, ..self }
    }

    /// The probability of each class for each row of `covariates`, averaged over `draws` draws from the posterior.
    ///
    /// ```math
    /// p_{ik} = \frac1S \sum_s \operatorname{softmax}(x_i^\top W_s + b_s)_k
    /// ```
    /// `latents` gives draw $`s`$ of the unconstrained global vector from its noise stream; the same seed gives the
    /// same probabilities. `theta` are the point parameters that belong to them.
    ///
    /// # Shapes
    /// Returns rows × classes numbers, row-major.
    ///
    /// # Errors
    /// [`Error::Length`] for draws or parameters of the wrong length; [`Error::Shape`] for another number of
    /// covariates.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, SparseRows};
    /// use partita_models::MultinomialRegression;
    /// let device = Device::flex();
    /// let model = MultinomialRegression::new([1, 2], &device).centred();
    /// let covariates = SparseRows::from_dense(&[1.0], [1, 1])?;
    /// let at_the_mode = |_: &mut partita_core::NoiseStream| vec![2.0, -2.0, 0.0, 0.0];
    /// let probabilities = model.predict(&covariates, &[0.0, 0.0], at_the_mode, 1, 4, &device)?;
    /// assert!((probabilities[0] - 1.0 / (1.0 + (-4.0_f64).exp())).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn predict(
        &self,
        covariates: &SparseRows,
        theta: &[f64],
        mut latents: impl FnMut(&mut partita_core::NoiseStream) -> Vec<f64>,
        seed: u64,
        draws: u64,
        device: &Device,
    ) -> Result<Vec<f64>> {
        let [columns, classes] = self.shape;
        let length = |operation: &str, found: usize, expected: usize| {
            Error::same_length(operation, found, expected, "Give the posterior of this model.")
        };
        length("trained parameters of a prediction", theta.len(), 2)?;
        if draws == 0 {
            return Err(Error::Length {
                operation: "draws of a prediction".into(),
                found: 0,
                expected: 1,
                remedy: "Ask for at least one draw.".into(),
            });
        }
        let scales = if self.centred { [1.0; 2] } else { [theta[0].exp(), theta[1].exp()] };
        let mut sum = vec![0.0; covariates.rows() * classes];
        for draw in 0..draws {
            let mut values = latents(&mut Noise::new(seed).stream(Key::new(Purpose::Predictive, draw)));
            length("a draw of a prediction", values.len(), (columns + 1) * classes)?;
            let mut intercepts = values.split_off(columns * classes);
            values.iter_mut().for_each(|value| *value *= scales[0]);
            intercepts.iter_mut().for_each(|value| *value *= scales[1]);
            let (weights, intercepts) =
                (device.tensor(values, [columns, classes]), device.tensor(intercepts, [classes]));
            let logits = Handle::from(covariates.predictor(weights, Some(intercepts))?).read()?;
            add_softmax(&mut sum, logits.values, classes);
        }
        let share = 1.0 / draws as f64;
        sum.iter_mut().for_each(|probability| *probability *= share);
        Ok(sum)
    }
}

/// Adds the softmax of each row of `logits` to `sum`.
fn add_softmax(sum: &mut [f64], mut logits: Vec<f64>, classes: usize) {
    for row in logits.chunks_exact_mut(classes.max(1)) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter_mut().for_each(|logit| *logit -= largest);
    }
    exponential(&mut logits);
    for (out, row) in sum.chunks_exact_mut(classes.max(1)).zip(logits.chunks_exact(classes.max(1))) {
        let total: f64 = row.iter().sum();
        out.iter_mut().zip(row).for_each(|(slot, power)| *slot += power / total);
    }
}

impl Model for MultinomialRegression {
    type Globals = MultinomialRegressionGlobals;
    type Data = ClassifiedRows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        let [columns, classes] = self.shape;
        let on_device = scope.stays_on_device();
        let scale = |log: &Param<Tensor<1>>| match on_device {
            true => log.val().exp(),
            false => elementwise(log.val(), f64::exp, f64::exp),
        };
        let weights = Normal::new(0.0, scale(&self.log_sigma_weights));
        let intercepts = Normal::new(0.0, scale(&self.log_sigma_intercepts));
        let (weights, intercepts) = (weights.iid([columns, classes]), intercepts.iid([classes]));
        let (weights, intercepts) =
            if self.centred { (weights, intercepts) } else { (weights.non_centred(), intercepts.non_centred()) };
        Ok(MultinomialRegressionGlobals {
            weights: scope.sample("weights", weights)?,
            intercepts: scope.sample("intercepts", intercepts)?,
        })
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Self::Globals, data: &Self::Data) -> Result<()> {
        scope.plate("row", data.covariates.rows(), |scope, rows| {
            let covariates = data.covariates.take(rows)?;
            let logits = covariates.predictor(globals.weights.clone(), Some(globals.intercepts.clone()))?;
            scope.observe("class", Categorical::logits(logits), rows.take(&data.classes)?)
        })
    }
}
