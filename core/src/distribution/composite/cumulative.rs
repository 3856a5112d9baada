//! Gives logarithms of the two tails of a component, at infinite ends too, and says whether it has them.

use super::Component;
use crate::array::Array;
use crate::distribution::batch::Distribution;
use crate::distribution::formula::{Form, Formula, Slots};
use crate::distribution::law::Law;
use crate::distribution::tail::Tail;
use crate::distribution::{Domain, ParameterRule};
use crate::error::{Error, Result};

/// The words of a refusal.
pub(super) const NO_CUMULATIVE: &str = "a distribution of numbers with a known cumulative distribution function; a density of your own states it in `log_cdf` and `log_survival`, and `.weighted(...)` comes last";

impl Component {
    /// The logarithm of a tail's probability; NaN if it is not known.
    pub(super) fn log_tail(&self, tail: Tail, at: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64 {
        if let Some(log) = tail.beyond(at) {
            return log;
        }
        let own = self.at(parameters);
        let found = match tail {
            Tail::Lower => self.form.log_cdf(at, own, slots),
            Tail::Upper => self.form.log_survival(at, own, slots),
        };
        found.unwrap_or(f64::NAN)
    }
}

impl Form {
    /// Whether both tails are known, which does not depend on the parameters.
    pub(super) fn has_tails(&self) -> bool {
        // Parameters within every domain: bounds in order, probabilities, vectors that increase and are long enough.
        const LONG: usize = 64;
        let number = |(place, rule): (usize, &ParameterRule)| {
            let first = match rule.domain {
                Domain::Probability => 0.5,
                Domain::Boolean | Domain::CholeskyFactor => 1.0,
                Domain::Real | Domain::Positive | Domain::Count | Domain::Bound => 1.0 + place as f64,
            };
            let length = if rule.event_rank == 0 { 1 } else { LONG };
            (0..length).map(|index| first + index as f64).collect()
        };
        let rules = self.rules().iter().enumerate();
        let numbers: Vec<Vec<f64>> = rules.map(number).collect();
        let parameters: Vec<&[f64]> = numbers.iter().map(Vec::as_slice).collect();
        self.event_rank() == 0
            && self.log_cdf(1.0, &parameters, &mut Slots::none()).is_some()
            && self.log_survival(1.0, &parameters, &mut Slots::none()).is_some()
    }
}

impl<const D: usize, S> Distribution<D, S> {
    /// $\log P(X \le x)$ of each event on the host.
    ///
    /// # Errors
    /// [`Error::Argument`] if the distribution has no known cumulative function; [`Error::Shape`] for a value of
    /// another shape; [`Error::Parameter`] for a bad parameter.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Exponential};
    /// let late = Exponential::new(2.0).truncated(1.0, f64::INFINITY);
    /// let survival = late.log_survival_of(&Array::scalar(1.5))?;
    /// assert!((survival.values[0] + 2.0 * 0.5).abs() < 1e-14);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn log_cdf_of(&self, value: &Array) -> Result<Array> {
        self.law.tails_of("log_cdf_of", value, |formula, value, own| formula.log_cdf(value, own, &mut Slots::none()))
    }

    /// $\log P(X > x)$ of each event on the host, accurate where the probability is small.
    ///
    /// # Errors
    /// As for [`Distribution::log_cdf_of`].
    pub fn log_survival_of(&self, value: &Array) -> Result<Array> {
        let tail = |formula: &dyn Formula, value, own: &[&[f64]]| formula.log_survival(value, own, &mut Slots::none());
        self.law.tails_of("log_survival_of", value, tail)
    }
}

impl Law {
    fn tails_of(
        &self,
        operation: &str,
        value: &Array,
        of: impl Fn(&dyn Formula, f64, &[&[f64]]) -> Option<f64>,
    ) -> Result<Array> {
        let arrays = self.arrays()?;
        self.check_shape(|| operation.into(), &value.shape)?;
        let view = self.view(&arrays);
        view.check_parameters(value.values.len())?;
        let one = |(index, value): (usize, &f64)| of(&*self.density, *value, &view.at(index));
        let found: Option<Vec<f64>> =
            if self.event.is_empty() { value.values.iter().enumerate().map(one).collect() } else { None };
        match found {
            Some(values) => Array::new(values, value.shape.clone()),
            None => Err(Error::argument(operation, "distribution", self.density.name(), NO_CUMULATIVE)),
        }
    }
}
