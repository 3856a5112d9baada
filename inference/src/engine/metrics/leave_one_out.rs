//! Estimates how well a posterior expects each observation that it was not fitted to, from one fit to all of them.

use partita_core::special::log_sum_exp;

use super::{MetricError, SmoothedWeights, real};

/// The expected log predictive density of observations left out one at a time, by Pareto-smoothed importance sampling.
///
/// Its vectors have one number an observation and belong to the owner of the data; the sums tell of no single one.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaveOneOut {
    /// $`\log \hat p(y_i \mid y_{-i})`$ of each observation, in nats.
    pub log_densities: Vec<f64>,
    /// The shape $`\hat k_i`$ of the tail of each observation's weights; infinite where it is not known.
    pub pareto_k: Vec<f64>,
    /// $`\log \frac1S \sum_s p(y_i \mid z_s)`$ of each observation, which the posterior has seen, in nats.
    pub seen: Vec<f64>,
}

impl LeaveOneOut {
    /// From log likelihoods at draws of the posterior.
    ///
    /// ```math
    /// \log \hat p(y_i \mid y_{-i}) = \log \sum_s w_{is}\, p(y_i \mid z_s), \qquad w_{is} \propto 1 / p(y_i \mid z_s)
    /// ```
    /// with the weights smoothed ([`SmoothedWeights`]). An observation may be a whole row, such as a patient, where its
    /// log likelihood has the latents of that row integrated out: given the row's own latents, weights are far off.
    ///
    /// # Shapes
    /// `log_likelihood`: `[draws, observations]`, row-major, in nats.
    ///
    /// # Errors
    /// [`MetricError::Empty`] for numbers that are not one a draw and observation: give them draw after draw.
    ///
    /// # Example
    /// ```
    /// use partita_inference::metrics::LeaveOneOut;
    /// // Draws that are all alike: what is left out changes nothing, and no effective parameter is counted.
    /// let found = LeaveOneOut::of(&[-1.0, -2.0].repeat(100), 2)?;
    /// assert!((found.sum() + 3.0).abs() < 1e-12 && found.effective_parameters().abs() < 1e-12);
    /// # Ok::<(), partita_inference::metrics::MetricError>(())
    /// ```
    ///
    /// # References
    /// Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out cross-validation and
    /// WAIC, Statistics and Computing 27.
    pub fn of(log_likelihood: &[f64], observations: usize) -> Result<Self, MetricError> {
        let draws = log_likelihood.len() / observations.max(1);
        if draws == 0 || draws * observations != log_likelihood.len() {
            return Err(MetricError::Empty {
                operation: "leave-one-out",
                found: format!("{} log likelihoods of {observations} observations", log_likelihood.len()),
                expected: "one log likelihood a draw and observation, draw after draw, of at least one of each",
            });
        }
        let mut found = Self { log_densities: Vec::new(), pareto_k: Vec::new(), seen: Vec::new() };
        for index in 0..observations {
            let own: Vec<f64> = log_likelihood.iter().skip(index).step_by(observations).copied().collect();
            found.push(&own, &own);
        }
        Ok(found)
    }

    /// Adds an observation: at each draw what it is given all others and the globals, and what it is with itself seen.
    ///
    /// The posterior without it is $`p(z \mid y_{-i}) \propto p(z \mid y) / p(y_i \mid y_{-i}, z)`$, whatever else of
    /// its row is given.
    pub(crate) fn push(&mut self, left_out: &[f64], seen: &[f64]) {
        let smoothed = SmoothedWeights::of(&left_out.iter().map(|value| -value).collect::<Vec<_>>());
        let weighted: Vec<f64> = left_out.iter().zip(&smoothed.log_weights).map(|(own, weight)| own + weight).collect();
        self.log_densities.push(log_sum_exp(&weighted));
        self.pareto_k.push(smoothed.pareto_k);
        self.seen.push(log_sum_exp(seen) - real(seen.len()).ln());
    }

    /// The sum over observations, `elpd_loo`, in nats.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.log_densities.iter().sum()
    }

    /// The standard error of the sum over observations, in nats: $`\sqrt{n}`$ times the deviation of one.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        let count = real(self.log_densities.len());
        let mean = self.sum() / count;
        self.log_densities.iter().map(|own| (own - mean).powi(2)).sum::<f64>().sqrt()
    }

    /// The effective number of parameters, `p_loo`: what the posterior gained by seeing the observations, in nats.
    #[must_use]
    pub fn effective_parameters(&self) -> f64 {
        self.seen.iter().sum::<f64>() - self.sum()
    }

    /// How many observations have a $`\hat k`$ above `threshold`, beyond which theirs is not to be trusted; 0.7 with
    /// 2,200 draws or more ([`SmoothedWeights::threshold`]).
    #[must_use]
    pub fn above(&self, threshold: f64) -> usize {
        self.pareto_k.iter().filter(|own| **own > threshold).count()
    }
}
