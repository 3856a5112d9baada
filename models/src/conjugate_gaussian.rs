//! Defines a hierarchical normal model with known posterior and evidence, the reference for tests of every method.

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::{Device, Model, Normal, Result, Scope};

/// Groups of normal observations around group means, which lie around one global mean.
///
/// $$ \mu \sim N(m_0, s_0^2),\qquad b_i \mid \mu \sim N(\mu, \tau^2),\qquad y_{it} \mid b_i \sim N(b_i, \sigma^2) $$
/// with $m_0$ = `prior_mean`, $s_0$ = `prior_sd`, $\tau$ = `group_sd`, $\sigma$ = `noise_sd`, all known.
///
/// # Shapes
/// Global `mu` `[1]`; local `b` `[groups]` in the plate `group`; data `[groups, repeats]`.
#[derive(Module, Debug)]
pub struct ConjugateGaussian {
    #[module(skip)]
    settings: ConjugateSettings,
}

/// The known scales of a [`ConjugateGaussian`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConjugateSettings {
    /// $m_0$.
    pub prior_mean: f64,
    /// $s_0$.
    pub prior_sd: f64,
    /// $\tau$.
    pub group_sd: f64,
    /// $\sigma$.
    pub noise_sd: f64,
}

/// The exact posterior of a [`ConjugateGaussian`], in the form of the structured Gaussian family.
///
/// $\mu \mid y \sim N(m, s^2)$ and $b_i \mid \mu, y \sim N(c_i + a(\mu - m), t^2)$, with $m$ = `mean`, $s$ = `sd`,
/// $c_i$ = `group_means`, $a$ = `slope` and $t$ = `group_sd`.
#[derive(Debug, Clone, PartialEq)]
pub struct ConjugatePosterior {
    /// Posterior mean of $\mu$.
    pub mean: f64,
    /// Posterior standard deviation of $\mu$.
    pub sd: f64,
    /// Posterior means of the $b_i$.
    pub group_means: Vec<f64>,
    /// $\partial E[b_i \mid \mu, y]/\partial\mu$, the same for every group.
    pub slope: f64,
    /// Standard deviation of $b_i$ given $\mu$ and the data.
    pub group_sd: f64,
    /// $\log p(y)$ in nats.
    pub log_evidence: f64,
}

impl ConjugateGaussian {
    /// The model with these known scales.
    #[must_use]
    pub fn new(settings: ConjugateSettings) -> Self {
        Self { settings }
    }

    /// The exact posterior given all groups, and the evidence.
    ///
    /// Integrating $b_i$ out, the mean of group $i$ is $\bar y_i \sim N(\mu, \tau^2 + \sigma^2/T)$: a normal model for
    /// $\mu$. Given $\mu$, $b_i$ has precision $\tau^{-2} + T\sigma^{-2}$. The evidence follows from
    /// $\log p(y) = \log p(y, b, \mu) - \log p(b, \mu \mid y)$ at the posterior mean.
    ///
    /// # Example
    /// ```
    /// use partita_models::{ConjugateGaussian, ConjugateSettings};
    /// let settings = ConjugateSettings { prior_mean: 0.0, prior_sd: 1.0, group_sd: 1.0, noise_sd: 1.0 };
    /// // y ~ N(0, 3) marginally, for one observation of one group.
    /// let exact = ConjugateGaussian::new(settings).posterior(&[vec![0.6]]);
    /// let marginal = -0.5 * (0.36 / 3.0 + (2.0 * std::f64::consts::PI * 3.0_f64).ln());
    /// assert!((exact.log_evidence - marginal).abs() < 1e-12);
    /// ```
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 observations")]
    pub fn posterior(&self, groups: &[Vec<f64>]) -> ConjugatePosterior {
        let ConjugateSettings { prior_mean, prior_sd, group_sd, noise_sd } = self.settings;
        let (mut precision, mut weighted) = (prior_sd.powi(-2), prior_mean * prior_sd.powi(-2));
        for group in groups {
            let average = group.iter().sum::<f64>() / group.len() as f64;
            let own = 1.0 / (group_sd.powi(2) + noise_sd.powi(2) / group.len() as f64);
            precision += own;
            weighted += own * average;
        }
        let (mean, sd) = (weighted / precision, precision.powf(-0.5));
        let repeats = groups.first().map_or(0, Vec::len) as f64;
        let group_precision = group_sd.powi(-2) + repeats * noise_sd.powi(-2);
        let slope = group_sd.powi(-2) / group_precision;
        let given = |group: &Vec<f64>| slope * mean + group.iter().sum::<f64>() * noise_sd.powi(-2) / group_precision;
        let group_means: Vec<f64> = groups.iter().map(given).collect();
        let conditional_sd = group_precision.powf(-0.5);
        let log_normal = |x: f64, location: f64, scale: f64| {
            -0.5 * ((x - location) / scale).powi(2) - scale.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln()
        };
        let mut log_evidence = log_normal(mean, prior_mean, prior_sd) - log_normal(mean, mean, sd);
        for (group, center) in groups.iter().zip(&group_means) {
            log_evidence += log_normal(*center, mean, group_sd) - log_normal(*center, *center, conditional_sd);
            log_evidence += group.iter().map(|y| log_normal(*y, *center, noise_sd)).sum::<f64>();
        }
        ConjugatePosterior { mean, sd, group_means, slope, group_sd: conditional_sd, log_evidence }
    }

    /// Groups of equal length as data on a device.
    ///
    /// # Errors
    /// [`partita_core::Error::Length`] if the groups differ in length.
    pub fn data(groups: &[Vec<f64>], device: &Device) -> Result<Tensor<2>> {
        let repeats = groups.first().map_or(0, Vec::len);
        let array = partita_core::Array::new(groups.concat(), vec![groups.len(), repeats])?;
        Ok(device.tensor(array.values, [groups.len(), repeats]))
    }
}

impl Model for ConjugateGaussian {
    type Globals = Tensor<1>;
    type Data = Tensor<2>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        let settings = self.settings;
        scope.sample("mu", Normal::new(settings.prior_mean, settings.prior_sd))
    }

    fn local(&self, scope: &mut Scope<'_>, mu: &Tensor<1>, data: &Tensor<2>) -> Result<()> {
        let settings = self.settings;
        let [groups, repeats] = data.dims();
        scope.plate("group", groups, |scope, rows| {
            let b = scope.sample("b", Normal::new(mu.clone(), settings.group_sd))?;
            let locations = b.reshape([rows.len(), 1]).expand([rows.len(), repeats]);
            scope.observe("y", Normal::new(locations, settings.noise_sd), rows.take(data)?)
        })
    }
}
