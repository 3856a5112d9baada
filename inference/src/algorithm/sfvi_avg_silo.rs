//! Gives the silo's side of SFVI-Avg: many steps of variational inference on its own data, from the common posterior.

use partita_core::{Model, Purpose};

use super::local_objective::GlobalPrior;
use super::sfvi_silo::{Draws, Silo};
use crate::checkpoint;
use crate::error::Result;
use crate::exchange::SiloProgram;
use crate::message::Message;
use crate::optimiser::UpdateRule;

/// One party of SFVI-Avg; it also answers what a party of SFVI does, so that one run may go from rounds to steps.
pub struct AveragingSilo<M: Model> {
    silo: Silo<M>,
    index: u32,
    rule: Box<dyn UpdateRule>,
    /// Local steps of the present round whose gradient was clipped.
    clipped: u64,
}

impl<M: Model> std::fmt::Debug for AveragingSilo<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AveragingSilo").field("silo", &self.silo).finish_non_exhaustive()
    }
}

impl<M: Model> AveragingSilo<M> {
    /// Lets a silo, the `index`-th of the run, take local steps.
    #[must_use]
    pub fn new(silo: Silo<M>, index: u32) -> Self {
        let rule = silo.settings.optimiser.start(&silo.device);
        Self { silo, index, rule, clipped: 0 }
    }

    fn round(&mut self, request: &Message) -> Result<Message> {
        let mut globals = self.silo.read_globals(request)?;
        let (first, count) = (request.get_word("step")?, request.get_word("local_steps")?);
        let scale = request.get_number("scale")?;
        let entropy = if request.get_setting("scale_entropy")? == "yes" { scale } else { 1.0 };
        if request.get_setting("keep_optimiser")? != "yes" {
            self.rule = self.silo.settings.optimiser.start(&self.silo.device);
        }
        let mut values = if self.silo.theta_len > 0 { request.get_floats("theta")? } else { Vec::new() };
        let mut last = Vec::new();
        self.clipped = 0;
        for step in first..first + count {
            let elbo = self.local_step(step, &mut globals, &mut values, (scale, entropy))?;
            // The bound reported is the mean over the last tenth of the round.
            if step - first >= count - count.div_ceil(10) {
                last.push(elbo);
            }
        }
        self.silo.step = first + count;
        let elbo = crate::assess::mean_and_variance(&last).0;
        let reply = Message::new("avg.answer").word("round", request.get_word("round")?).floats("global", &globals);
        let reply = reply.floats("elbo", &[elbo]).word("clipped", self.clipped);
        Ok(if values.is_empty() { reply } else { reply.floats("theta", &values) })
    }

    /// One step of variational inference on this silo's data, with the local part scaled to stand for all.
    fn local_step(
        &mut self,
        step: u64,
        globals: &mut Vec<f64>,
        values: &mut Vec<f64>,
        (weight, entropy_weight): (f64, f64),
    ) -> Result<f64> {
        let silo = &mut self.silo;
        let (owner, count) = (self.index, silo.settings.particles);
        let draw = Draws { purpose: Purpose::Fit, step, count, owner, weight, entropy_weight };
        let mut objective = silo.local_objective(globals, values.len(), draw, GlobalPrior::Model)?;
        let bound = objective.bound;
        if silo.settings.clip.is_some_and(|clip| clip.apply(&mut objective.gradient)) {
            self.clipped += 1;
        }
        let rate = silo.settings.schedule.rate(step, silo.settings.steps);
        let mut all = [globals.as_slice(), values].concat();
        self.rule.step(rate, &mut all, &objective.gradient);
        *values = all.split_off(globals.len());
        *globals = all;
        silo.move_locals(objective, rate);
        silo.set_theta(values)?;
        Ok(bound)
    }
}

impl<M: Model> SiloProgram for AveragingSilo<M> {
    fn name(&self) -> &str {
        self.silo.name()
    }

    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.silo.local_moments()
    }

    fn private_theta(&self) -> Vec<f64> {
        self.silo.private_theta()
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            "avg.round" => self.round(request),
            "silo.save" => {
                let mut state = self.silo.state();
                state.extend(self.rule.save().into_iter().map(|(name, values)| (format!("global.{name}"), values)));
                let folder = request.get_setting("folder")?;
                checkpoint::save_silo(folder.as_ref(), &self.silo.name, self.silo.step, state)?;
                Ok(Message::new("silo.saved"))
            }
            "silo.restore" => {
                let answer = self.silo.answer(request)?;
                let folder = request.get_setting("folder")?;
                let (_, state) = checkpoint::load_silo(folder.as_ref(), &self.silo.name)?;
                let own = |(name, values): (String, Vec<f64>)| Some((name.strip_prefix("global.")?.to_owned(), values));
                if !self.rule.load(state.into_iter().filter_map(own).collect()) {
                    return Err(checkpoint::other_model(folder.as_ref(), &self.silo.name));
                }
                Ok(answer)
            }
            _ => self.silo.answer(request),
        }
    }
}
