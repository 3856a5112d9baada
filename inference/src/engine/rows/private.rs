//! Trains the part of θ that stays in one party, with an optimiser of its own.

use partita_core::{AnyModel, Device, shared_theta, theta};

use crate::engine::checkpoint::{named, prefixed, with_prefix};
use crate::engine::error::Result;
use crate::engine::estimator::ElboTerm;
use crate::engine::optimiser::{Schedule, UpdateRule};
use crate::engine::settings::Settings;
use crate::engine::terms::coordinator::tensors;
use crate::engine::trainer::units::{enter, leave, of_theta};

/// The last values of θ where the model keeps them private, [`partita_core::Model::private_len`] of them.
pub(crate) struct PrivateTheta {
    values: Vec<f64>,
    /// The units in which they move; empty for a rate that is a function of the step.
    units: Vec<f64>,
    rule: Box<dyn UpdateRule>,
}

const VALUES: &str = "private.parameters";
const RULE: &str = "private.rule.";

impl PrivateTheta {
    pub(crate) fn of(model: &AnyModel, settings: &Settings, device: &Device) -> Result<Self> {
        let (mut all, shared) = (theta(model)?, shared_theta(model)?.len());
        let units = match settings.schedule {
            Schedule::Adaptive { .. } => of_theta(&all, &tensors(model)).split_off(shared),
            _ => Vec::new(),
        };
        let values = all.split_off(shared);
        Ok(Self { values, units, rule: settings.optimiser.start(device) })
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Takes the private part out of the ELBO terms' gradients by θ.
    pub(crate) fn take(&self, shares: &mut [ElboTerm]) -> Vec<Vec<f64>> {
        shares.iter_mut().map(|share| share.theta.split_off(share.theta.len() - self.values.len())).collect()
    }

    pub(crate) fn descend(&mut self, gradient: &[f64], rate: f64) {
        if !self.values.is_empty() {
            let mut gradient = gradient.to_vec();
            enter(&self.units, &mut self.values, &mut gradient);
            self.rule.step(rate, &mut self.values, &gradient);
            leave(&self.units, &mut self.values);
        }
    }

    /// Lets the rule forget what it has seen.
    pub(crate) fn forget(&mut self, settings: &Settings, device: &Device) {
        self.rule = settings.optimiser.start(device);
    }

    /// Everything as named vectors.
    pub(crate) fn save(&self) -> Vec<(String, Vec<f64>)> {
        if self.values.is_empty() {
            return Vec::new();
        }
        std::iter::once((VALUES.to_owned(), self.values.clone())).chain(prefixed(RULE, self.rule.save())).collect()
    }

    /// Restores what [`PrivateTheta::save`] gave; false if it does not fit.
    pub(crate) fn load(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        if self.values.is_empty() {
            return true;
        }
        match named(state, VALUES) {
            Some(values) if values.len() == self.values.len() => {
                self.values.copy_from_slice(values);
                self.rule.load(with_prefix(state, RULE))
            }
            _ => false,
        }
    }
}
