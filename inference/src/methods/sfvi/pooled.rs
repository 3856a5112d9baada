//! Fits pooled data: a silo that holds the posterior of the globals too, and evaluates the whole bound in one pass.

use partita_core::{AnyData, AnyModel, Device, Model, Precision, shared_theta};

use super::messages::{Bounds, BoundsRequest, Sizes, Stepped, StepsRequest};
use crate::engine::checkpoint::NamedVectors;
use crate::engine::climb::Climb;
use crate::engine::error::{Error, Result};
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::settings::Settings;
use crate::engine::terms::Silo;
use crate::engine::terms::climbing::{Steps, begin_at, climb_of};
use crate::engine::terms::coordinator::tensors;
use crate::engine::terms::joint::Ahead;
use crate::engine::trainer::{Descent, Moved, Trainer};
use crate::engine::wire::message::Message;
use crate::engine::wire::typed::{Written, length};

/// The one party of a pooled fit: a [`Silo`] with all data, and the posterior of the globals.
#[derive(Debug)]
pub struct CentralSilo {
    silo: Silo,
    trainer: Trainer,
    ahead: Ahead,
}

impl CentralSilo {
    /// The party called `name` with all the data.
    ///
    /// # Errors
    /// As for [`Silo::new`].
    pub fn new<M: Model>(name: &str, model: &M, data: &M::Data, device: &Device, settings: &Settings) -> Result<Self> {
        let model = &AnyModel::new(model);
        let data = &AnyData::new(data);
        let silo = Silo::new(name, 0, model, data, device, settings)?;
        let family = settings.family.global_family(&silo.table)?;
        let start = settings.family.start(&*family, &silo.table);
        let mut trainer = Trainer::new(family, start, &shared_theta(model)?, Descent::new(settings, device));
        trainer.adapt(&tensors(model));
        trainer.know_rows(silo.table.has_local_latents());
        Ok(Self { silo, trainer, ahead: Ahead::default() })
    }

    /// The way to the start, where no step was taken yet.
    fn climb(&self) -> Option<Climb> {
        let Silo { settings, device, table, .. } = &self.silo;
        let is_first = self.silo.step == 0 && !self.trainer.has_begun();
        is_first.then(|| climb_of(&self.trainer, settings, device, table)).flatten()
    }

    fn step(&mut self, step: u64) -> Result<Message> {
        let summit = |climb| self.silo.summit(climb, |density, latents, data| density.joint(latents, data));
        if let Some(summit) = self.climb().map(summit).transpose()?.flatten() {
            begin_at(&summit, &mut self.trainer, Steps::Own);
        }
        // The rate of a step that is undone is the one that it was undone for.
        let adapts = self.trainer.rates(1).is_some();
        let rate = self.trainer.rate(step);
        let objective = self.silo.joint_objective(self.trainer.parameters(), step, &mut self.ahead);
        let (bound, moved) = match objective {
            Err(error) if error.is_outside() && self.trainer.undo() => {
                (f64::NAN, Moved { gradient_norm: f64::NAN, is_clipped: false, rate })
            }
            Err(error) => return Err(error),
            Ok(mut objective) => {
                let (bound, norm) = (objective.bound, objective.gradient_norm);
                let moved = self.trainer.step(step, bound, &mut objective.gradient, norm);
                self.ahead.keep_gradient(std::mem::take(&mut objective.gradient));
                self.silo.move_locals(objective, moved.rate);
                (bound, moved)
            }
        };
        if self.trainer.is_undone() {
            self.silo.locals.forget(&self.silo.settings, &self.silo.device);
        }
        self.silo.set_theta(self.trainer.theta())?;
        self.silo.step = step + 1;
        let Moved { gradient_norm, is_clipped: clipped, rate } = moved;
        let (global, theta) = (Written::of(self.trainer.parameters()), self.trainer.theta().to_vec());
        let (rate, converged) = (adapts.then_some(rate), self.trainer.has_converged());
        Ok(Stepped { bound, gradient_norm, clipped, global, theta, rate, converged }.write())
    }

    fn bounds(&mut self, request: &BoundsRequest) -> Result<Message> {
        let elbo = self.silo.joint_bounds(self.trainer.parameters(), request.step, length(request.draws))?;
        Ok(Bounds { elbo }.write())
    }
}

impl Program for CentralSilo {
    fn standing(&self) -> Standing<'_> {
        self.silo.standing()
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        // Each step is reported: what a failed one changed is then nothing.
        let sizes = Sizes::largest(&*self.silo.family, self.silo.theta_len, 1, &self.silo.settings);
        match request.kind.as_str() {
            StepsRequest::KIND => self.step(StepsRequest::read(request, &sizes)?.step),
            BoundsRequest::KIND => self.bounds(&BoundsRequest::read(request, &sizes)?),
            other => Err(Error::Message { kind: other.to_owned(), problem: "a pooled party does not know it".into() }),
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        Ok([self.silo.state(), self.trainer.save()].concat())
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        if !(self.trainer.load(state) && self.silo.load(step, state)?) {
            return Ok(false);
        }
        self.silo.set_theta(self.trainer.theta())?;
        Ok(true)
    }

    fn commit(&self, _: &Message) -> Commit {
        // The start moves before the first step can fail.
        if self.climb().is_some() { Commit::AsItGoes } else { Commit::AtItsEnd }
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.silo.moments_at(self.trainer.parameters())
    }

    fn set_precision(&mut self, precision: Precision) -> Result<bool> {
        self.silo.recast(precision).map(|()| true)
    }

    fn kept_theta(&self) -> Vec<f64> {
        self.silo.kept_theta()
    }
}
