//! Evaluates the loss of a whole batch, one event after another, with its derivatives.

use super::evaluate::{Evaluation, View, Wanted};
use super::few::Few;
use super::formula::{Formula, Slots};
use super::loss::Loss;
use crate::error::{Error, Result};

impl View<'_> {
    /// Minus `scale` times the loss summed over events, with the derivatives asked for.
    ///
    /// By the chain rule over $\log p$ and $\log\int p^\beta$, which densities differentiate themselves. Errors name no
    /// operation; the caller adds it with [`Error::at`].
    pub(super) fn evaluate_loss(&self, loss: Loss, values: &[f64], scale: f64, wanted: &Wanted) -> Result<Evaluation> {
        if let Loss::GeneralisedCrossEntropy(_) = loss
            && !self.support().is_discrete()
        {
            let problem = "it is a loss of probabilities and this has a density. Use the β or the γ loss.";
            return Err(self.undefined(loss, problem));
        }
        let zeros = |wanted: bool, length: usize| vec![0.0; if wanted { length } else { 0 }];
        let places = 0..self.parameters.len();
        let mut out = Evaluation {
            value: zeros(wanted.value, values.len()),
            parameters: places.clone().map(|k| zeros(wanted.by(k), self.parameters[k].len())).collect(),
            ..Evaluation::default()
        };
        let width = |k: usize| if wanted.by(k) { self.widths[k].min(self.parameters[k].len()) } else { 0 };
        let event_width = if wanted.value { self.event } else { 0 };
        let widths: Few<usize> = places.clone().map(width).collect();
        let (mut of_log_prob, mut of_integral) =
            (Partials::new(event_width, &widths), Partials::new(event_width, &widths));
        // If all events have the same parameters there is one integral.
        let one = places.into_iter().all(|k| self.is_shared(k));
        let mut log_integral = 0.0;
        let mut at = self.at(0);
        for (index, event) in values.chunks_exact(self.event.max(1)).enumerate() {
            self.move_to(index, &mut at);
            of_log_prob.clear();
            let log_prob = of_log_prob.fill(|slots| self.density.log_prob(event, &at, slots));
            if let Some(power) = loss.power()
                && (index == 0 || !one)
            {
                of_integral.clear();
                log_integral = of_integral
                    .fill(|slots| integral(&**self.density, power, &at, slots))
                    .map_err(|problem| self.undefined(loss, problem))?;
            }
            let (value, [by_log_prob, by_integral]) = loss.with_slopes(log_prob, log_integral);
            // A bounded loss would hide an event whose log density is not finite.
            out.total -= if log_prob.is_finite() { scale * value } else { f64::NAN };
            of_log_prob.add_to(&mut out, index, -scale * by_log_prob);
            if loss.power().is_some() {
                of_integral.add_to(&mut out, index, -scale * by_integral);
            }
        }
        Ok(out)
    }

    fn undefined(&self, loss: Loss, problem: &'static str) -> Error {
        Error::Loss { operation: String::new(), loss: loss.to_string(), distribution: self.density.name(), problem }
    }
}

/// The logarithm of the normalising integral of a power, or the reason why it does not exist.
fn integral(
    density: &dyn Formula,
    power: f64,
    parameters: &[&[f64]],
    slots: &mut Slots<'_, '_>,
) -> std::result::Result<f64, &'static str> {
    match density.log_power_integral(power, parameters, slots) {
        Some(infinite) if infinite == f64::INFINITY => Err(
            "the integral of that power of the density diverges. Take an index closer to 1, or parameters without a pole.",
        ),
        Some(log_integral) => Ok(log_integral),
        None if density.support(parameters).is_discrete() => Err(
            "the sum of that power of the probabilities is not known. Use the generalised cross-entropy, which needs none, or observations one by one (Categorical, Bernoulli); counts of moderate size if it is one of counts.",
        ),
        None => Err(
            "the integral of that power of the density is not known. Give the density a `log_power_integral`, or use a distribution that has one (Normal, StudentT, Laplace, Gamma, MultivariateNormal, ...).",
        ),
    }
}

/// The derivatives of one number of one event: by the value, then by each parameter.
struct Partials {
    value: Vec<f64>,
    parameters: Few<Vec<f64>>,
}

impl Partials {
    fn new(event: usize, widths: &[usize]) -> Self {
        Self { value: vec![0.0; event], parameters: widths.iter().map(|width| vec![0.0; *width]).collect() }
    }

    fn clear(&mut self) {
        self.value.fill(0.0);
        self.parameters.iter_mut().for_each(|own| own.fill(0.0));
    }

    fn fill<T>(&mut self, of: impl FnOnce(&mut Slots<'_, '_>) -> T) -> T {
        let mut parameters: Few<&mut [f64]> = self.parameters.iter_mut().map(Vec::as_mut_slice).collect();
        of(&mut Slots { scale: 1.0, value: &mut self.value, parameters: &mut parameters })
    }

    /// Adds `factor` times these derivatives of event `index` to those of the whole batch.
    fn add_to(&self, out: &mut Evaluation, index: usize, factor: f64) {
        let all = std::iter::once(&mut out.value).chain(&mut *out.parameters);
        for (own, all) in std::iter::once(&self.value).chain(&*self.parameters).zip(all) {
            // A parameter of one event is shared by all of them.
            let start = if all.len() > own.len() { index * own.len() } else { 0 };
            let slots = all.iter_mut().skip(start);
            slots.zip(own).for_each(|(slot, partial)| *slot += factor * partial);
        }
    }
}
