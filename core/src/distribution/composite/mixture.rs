//! Gives finite mixtures: each event comes from one of several distributions of one support, and which is summed out.

use std::borrow::Cow;

use burn::tensor::Tensor;

use super::{Component, Own, compose};
use crate::distribution::batch::Distribution;
use crate::distribution::few::Few;
use crate::distribution::formula::{Formula, Slots};
use crate::distribution::{Domain, ParameterRule, Support};
use crate::error::{Error, Result};
use crate::math::special::{log_sum_exp, log_sum_exp_parts};
use crate::noise::NoiseStream;

/// A finite mixture of distributions of one support.
///
/// $$ \log p(x) = \log\sum_k w_k\thinspace p_k(x) $$
/// Its derivatives go through the weights $w$ and through all parameters of the components. A mixture of continuous
/// distributions may be a latent.
///
/// # Shapes
/// Weights `[components]`, shared by all events, or `[batch..., components]`, one set an event. Components have one batch
/// shape, or are of one event that serves all. Where all are of one event, as components with global parameters are,
/// `over(rows)` of each gives them the rows of a plate.
///
/// # Errors
/// On evaluation: [`Error::Argument`] for components of unlike supports, which it names; [`Error::Shape`] for weights of
/// another number than components, or unlike events.
///
/// # Example
/// ```
/// use partita_core::{Array, Device, Mixture, Normal};
/// let logits = Device::flex().tensor(vec![0.0, 0.0], [2]);
/// let two = Mixture::logits(logits, vec![Normal::new(-1.0, 1.0), Normal::new(1.0, 1.0)]);
/// // At zero both have one density.
/// let one = Normal::new(1.0, 1.0).log_prob_of(&Array::scalar(0.0))?;
/// assert!((two.log_prob_of(&Array::scalar(0.0))? - one).abs() < 1e-15);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Stan User's Guide, "Finite mixtures".
#[derive(Debug)]
pub struct Mixture {
    components: Vec<Component>,
    rules: Vec<ParameterRule>,
    weights: Weights,
}

/// How the weights are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weights {
    /// Unnormalised logarithms.
    Logits,
    /// Numbers above zero.
    Proportions,
}

impl Mixture {
    /// The mixture of `components` with these unnormalised log weights.
    #[must_use]
    pub fn logits<const R: usize, const D: usize, S>(
        logits: Tensor<R>,
        components: Vec<Distribution<D, S>>,
    ) -> Distribution<D, S> {
        Self::of(Weights::Logits, logits, components)
    }

    /// The mixture of `components` with these weights, numbers above zero that need not sum to one.
    #[must_use]
    pub fn weights<const R: usize, const D: usize, S>(
        weights: Tensor<R>,
        components: Vec<Distribution<D, S>>,
    ) -> Distribution<D, S> {
        Self::of(Weights::Proportions, weights, components)
    }

    fn of<const R: usize, const D: usize, S>(
        weights: Weights,
        tensor: Tensor<R>,
        components: Vec<Distribution<D, S>>,
    ) -> Distribution<D, S> {
        let count = components.len();
        let found = tensor.dims();
        let rule = match weights {
            Weights::Logits => ParameterRule::vector("logits", Domain::Real),
            Weights::Proportions => ParameterRule::vector("weights", Domain::Positive),
        };
        let laws: Vec<_> = components.into_iter().map(|component| component.law).collect();
        let events: Vec<Vec<usize>> = laws.iter().map(|law| law.event.clone()).collect();
        let own = Own { parameter: tensor.into(), rule };
        let mut law = compose(laws, vec![own], |components, rules| Self { components, rules, weights });
        if count == 0 || found[R - 1] != count {
            law.refuse(Error::Shape {
                operation: format!("parameter `{}` of {}", rule.name, law.density.name()),
                found: found.to_vec(),
                expected: vec![count.max(1)],
                remedy: "Give one weight for each component in the last dimension.".into(),
            });
        }
        if let Some(unlike) = events.iter().find(|event| Some(*event) != events.first()) {
            law.refuse(Error::Shape {
                operation: format!("event of {}", law.density.name()),
                found: unlike.clone(),
                expected: events[0].clone(),
                remedy: "Give all components events of one shape.".into(),
            });
        }
        Distribution::from_law(law)
    }

    fn raw<'a>(&self, parameters: &[&'a [f64]]) -> &'a [f64] {
        parameters[self.rules.len() - 1]
    }

    /// The normalised log weights.
    fn log_weights(&self, parameters: &[&[f64]]) -> Few<f64> {
        let raw = self.raw(parameters);
        match self.weights {
            Weights::Logits => {
                let (largest, rest) = log_sum_exp_parts(raw);
                raw.iter().map(|logit| (logit - largest) - rest).collect()
            }
            Weights::Proportions => {
                let total: f64 = raw.iter().sum();
                raw.iter().map(|weight| (weight / total).ln()).collect()
            }
        }
    }

    /// The logarithm of the weighted sum of what `of` gives for each component; adds derivatives.
    fn mix(
        &self,
        parameters: &[&[f64]],
        slots: &mut Slots<'_, '_>,
        of: impl Fn(&Component, &mut Slots<'_, '_>) -> Option<f64>,
    ) -> Option<f64> {
        let log_weights = self.log_weights(parameters);
        let mut logs = log_weights.clone();
        for (log, component) in logs.iter_mut().zip(&self.components) {
            *log += of(component, &mut Slots::none())?;
        }
        let total = log_sum_exp(&logs);
        if !slots.is_wanted() || total == f64::NEG_INFINITY {
            return Some(total);
        }
        for (k, (log, component)) in logs.iter().zip(&self.components).enumerate() {
            let share = (log - total).exp();
            if share > 0.0 {
                of(component, &mut slots.scaled(component.range.clone(), share));
            }
            let scale = slots.scale;
            let Some(slot) = slots.parameters.get_mut(self.rules.len() - 1).and_then(|slots| slots.get_mut(k)) else {
                continue;
            };
            let by_logit = scale * (share - log_weights[k].exp());
            *slot += match self.weights {
                Weights::Logits => by_logit,
                Weights::Proportions => by_logit / self.raw(parameters)[k],
            };
        }
        Some(total)
    }

    /// The means and the variances of the components, one vector each.
    fn moments(&self, parameters: &[&[f64]]) -> Option<Vec<(Vec<f64>, Vec<f64>)>> {
        let one = |component: &Component| {
            let own = component.at(parameters);
            Some((component.form.mean(own)?, component.form.variance(own)?))
        };
        self.components.iter().map(one).collect()
    }

    /// The weighted sum of one vector for each component.
    fn average(&self, parameters: &[&[f64]], vectors: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
        let mut sum = Vec::new();
        for (vector, log_weight) in vectors.zip(&*self.log_weights(parameters)) {
            sum.resize(vector.len(), 0.0);
            sum.iter_mut().zip(vector).for_each(|(slot, number)| *slot += log_weight.exp() * number);
        }
        sum
    }
}

impl Formula for Mixture {
    fn name(&self) -> Cow<'static, str> {
        let names: Vec<_> = self.components.iter().map(|component| component.form.name()).collect();
        format!("Mixture({})", names.join(", ")).into()
    }

    fn rules(&self) -> &[ParameterRule] {
        &self.rules
    }

    fn owner(&self, index: usize) -> Cow<'static, str> {
        let place = self.components.iter().position(|component| component.range.contains(&index));
        match place {
            Some(place) => {
                let component = &self.components[place];
                let own = component.form.owner(index - component.range.start);
                format!("component {place} ({own}) of {}", self.name()).into()
            }
            None => self.name(),
        }
    }

    fn support(&self, parameters: &[&[f64]]) -> Support {
        self.components[0].form.support(self.components[0].at(parameters))
    }

    fn log_prob(&self, value: &[f64], parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> f64 {
        let of = |component: &Component, slots: &mut Slots<'_, '_>| {
            Some(component.form.log_prob(value, component.at(parameters), slots))
        };
        self.mix(parameters, slots, of).unwrap_or(f64::NAN)
    }

    fn draw(&self, parameters: &[&[f64]], noise: &mut NoiseStream, out: &mut [f64]) {
        let mut left = noise.uniform();
        let mut chosen = self.components.len() - 1;
        for (k, log_weight) in self.log_weights(parameters).iter().enumerate() {
            left -= log_weight.exp();
            if left < 0.0 {
                chosen = k;
                break;
            }
        }
        let component = &self.components[chosen];
        component.form.draw(component.at(parameters), noise, out);
    }

    fn mean(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        let one = |component: &Component| component.form.mean(component.at(parameters));
        let means: Option<Vec<_>> = self.components.iter().map(one).collect();
        Some(self.average(parameters, means?.into_iter()))
    }

    fn variance(&self, parameters: &[&[f64]]) -> Option<Vec<f64>> {
        let moments = self.moments(parameters)?;
        let mean = self.average(parameters, moments.iter().map(|(mean, _)| mean.clone()));
        let around = |(own, variance): (Vec<f64>, Vec<f64>)| {
            let numbers = own.iter().zip(variance).zip(&mean);
            numbers.map(|((own, variance), mean)| variance + (own - mean).powi(2)).collect()
        };
        Some(self.average(parameters, moments.into_iter().map(around)))
    }

    fn event_rank(&self) -> usize {
        self.components.first().map_or(0, |component| component.form.event_rank())
    }

    fn is_improper(&self) -> bool {
        self.components.iter().any(|component| component.form.is_improper())
    }

    fn log_cdf(&self, value: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        self.mix(parameters, slots, |component, slots| component.form.log_cdf(value, component.at(parameters), slots))
    }

    fn log_survival(&self, value: f64, parameters: &[&[f64]], slots: &mut Slots<'_, '_>) -> Option<f64> {
        let of = |component: &Component, slots: &mut Slots<'_, '_>| {
            component.form.log_survival(value, component.at(parameters), slots)
        };
        self.mix(parameters, slots, of)
    }

    fn check(&self, parameters: &[&[f64]], index: usize) -> Result<()> {
        let expected = self.support(parameters);
        for (place, component) in self.components.iter().enumerate() {
            let own = component.at(parameters);
            component.form.check(own, index)?;
            let found = component.form.support(own);
            if found != expected {
                let name = |component: &Component| component.form.name();
                let (first, found) = (name(&self.components[0]), found.describe());
                return Err(Error::Argument {
                    operation: self.name().into_owned(),
                    argument: "components",
                    found: format!(
                        "component 0 ({first}) on {} and component {place} ({}) on {found} at event {index}",
                        expected.describe(),
                        name(component),
                    ),
                    expected: "components of one support; truncate or transform those that differ",
                });
            }
        }
        Ok(())
    }
}
