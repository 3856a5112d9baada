//! Fits pooled data without leaving the device: many steps between two reads, each equal to one of the pooled fit.

use partita_core::{AnyData, AnyModel, Device, Key, Model};

use super::messages::{Bounds, BoundsRequest, Sizes, Stepped, StepsRequest};
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::{Error, Result};
use crate::engine::on_device::{DeviceFit, Interval, Owner, Weights};
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::settings::Settings;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::engine::wire::typed::{Written, length};

/// The one party of a fit that stays on its device: data, posterior and optimiser are tensors there.
///
/// The draws of a step are evaluated together where the latents are those of linear layers
/// ([`partita_core::Scope::linear`]) alone and a first evaluation of two draws together gives what each gives alone;
/// otherwise one after another.
///
/// Its steps are those of [`crate::CentralSilo`] with the same keyed noise, which is made on the host and uploaded: the
/// two runs are equal to rounding. Bound, gradient norm, global posterior and θ are read together, once for every
/// request of some steps. A bound that is not finite is therefore found at the end of an interval, not at its step.
pub struct OnDeviceSilo {
    name: String,
    settings: Settings,
    fit: DeviceFit,
    step: u64,
}

impl std::fmt::Debug for OnDeviceSilo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OnDeviceSilo")
            .field("name", &self.name)
            .field("step", &self.step)
            .field("has_draws_together", &self.fit.has_draws_together())
            .finish_non_exhaustive()
    }
}

impl OnDeviceSilo {
    /// The party called `name` with all the data.
    ///
    /// # Errors
    /// What the model refuses of the data; [`Error::Setting`] for what has no device form: estimators with inner draws,
    /// optimisers other than Adam (and Sgd, where rows have no latents), clipping, low-rank globals, rows with correlated columns.
    pub fn new<M: Model>(name: &str, model: &M, data: &M::Data, device: &Device, settings: &Settings) -> Result<Self> {
        let owner = Owner { globals: Key::COORDINATOR, silo: 0, seed: settings.seed };
        let (model, data) = (AnyModel::new(model), AnyData::new(data));
        let fit = DeviceFit::new(name, owner, (&model, &data), device, settings)?;
        Ok(Self { name: name.to_owned(), settings: settings.clone(), fit, step: 0 })
    }

    /// Takes some steps; where it fails, the party stands where it stood before.
    fn steps(&mut self, request: &StepsRequest) -> Result<Message> {
        let (first, count) = (request.step, request.count.max(1));
        let rate = |step: u64| self.settings.rate(step);
        let interval = Interval {
            first,
            count,
            heard: count,
            weights: Weights::ONE,
            cavity: None,
            proximal: 0.0,
            rate: &rate,
            units: None,
        };
        let before = self.fit.standing();
        let read = match self.fit.interval(&interval) {
            Ok(read) => read,
            Err(error) => {
                self.fit.go_back(before);
                return Err(error);
            }
        };
        self.step = first + count;
        Ok(Stepped {
            bound: read.bound,
            gradient_norm: read.gradient_norm,
            clipped: false,
            global: Written::of(&read.global),
            theta: read.theta,
            rate: None,
            converged: false,
        }
        .write())
    }
}

impl Program for OnDeviceSilo {
    fn standing(&self) -> Standing<'_> {
        Standing { name: &self.name, seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        let sizes = Sizes { parameters: 0, theta: 0, steps: LARGEST_COUNT, draws: self.settings.most_draws() as u64 };
        match request.kind.as_str() {
            StepsRequest::KIND => self.steps(&StepsRequest::read(request, &sizes)?),
            BoundsRequest::KIND => {
                let BoundsRequest { step, draws, .. } = BoundsRequest::read(request, &sizes)?;
                Ok(Bounds { elbo: self.fit.bounds(step, length(draws))? }.write())
            }
            other => Err(Error::malformed(other, "a party that stays on its device does not know it")),
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        self.fit.state()
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let fits = self.fit.load(state);
        if fits {
            self.step = step;
        }
        Ok(fits)
    }

    /// Tensors that did not move are shared: what a failed interval changed is taken back without a read.
    fn commit(&self, _: &Message) -> Commit {
        Commit::AtItsEnd
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.fit.moments(self.fit.covariance()?.as_ref())
    }
}
