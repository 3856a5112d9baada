//! Takes steps of the model's own parameters θ between visits, and moves the prior of the posterior with them.

use partita_core::Model;

use crate::engine::algorithm::{StepInfo, Tally};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::Outcome;
use crate::engine::natural::ExponentialFamily;
use crate::methods::pvi::prior::exact_prior;
use crate::methods::pvi::{Absence, Pvi, is_complete};

impl<M: Model> Pvi<M> {
    /// Whether the next exchange is one for θ.
    pub(super) fn theta_is_due(&self) -> bool {
        let every = self.options.theta_every;
        let all_here = self.ledger.present.iter().all(|here| *here);
        !self.inner.theta.is_empty()
            && every > 0
            && self.turn.turn.is_multiple_of(every)
            && !self.theta_done
            && all_here
    }

    /// Takes a step of θ from the silos' shares at the present posterior, and moves the prior with it.
    pub(super) fn step_theta(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let step = self.inner.step;
        if self.options.absence == Absence::GoOn && !is_complete(&outcomes) {
            // Without a silo's share there is no gradient: θ stays until the next turn.
            self.theta_done = true;
            let rate = self.inner.settings.schedule.rate(step, self.inner.settings.steps);
            let (elbo, gradient_norm, tally) = (f64::NAN, 0.0, Tally::default());
            return Ok(StepInfo { step, elbo, gradient_norm, clipped: false, rate, tally });
        }
        let (elbo, mut gradient) = self.inner.theta_gradient(outcomes)?;
        gradient.iter_mut().for_each(|g| *g = -*g);
        let gradient_norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let clipped = self.inner.settings.clip.is_some_and(|clip| clip.apply(&mut gradient));
        let rate = self.inner.settings.schedule.rate(step, self.inner.settings.steps);
        let mut theta = self.inner.theta.clone();
        self.theta_rule.step(rate, &mut theta, &gradient);
        self.inner.set_theta(theta)?;
        // A factor that stands for the prior hears of the new θ at its next refinement.
        let prior = match &self.prior_solver {
            None => exact_prior(&self.inner, &self.family)?.ok_or_else(|| Error::Improper {
                operation: "the prior after a step of θ".into(),
                component: "the prior, which was normal before,".into(),
                found: f64::NAN,
            })?,
            Some(_) => self.prior.clone(),
        };
        let moved = self.natural.iter().zip(&prior).zip(&self.prior).map(|((own, new), old)| own + new - old);
        let moved: Vec<f64> = moved.collect();
        self.family.check("the posterior under the prior after a step of θ", &moved)?;
        (self.natural, self.prior) = (moved, prior);
        self.version += 1;
        self.theta_done = true;
        self.publish()?;
        let tally = Tally { parallel_steps: 1, silo_steps: self.sizes.len() as u64, ..Tally::default() };
        Ok(StepInfo { step, elbo, gradient_norm, clipped, rate, tally })
    }
}
