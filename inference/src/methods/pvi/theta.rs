//! Takes steps of the model's own parameters θ between visits, and moves the prior of the posterior with them.

use crate::engine::algorithm::{StepInfo, Tally, movable};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::Outcome;
use crate::engine::natural::ExponentialFamily;
use crate::engine::trainer::Moved;
use crate::methods::pvi::prior::exact_prior;
use crate::methods::pvi::{MissingSilo, Pvi, is_complete};

impl Pvi {
    /// Whether the next exchange is one for θ.
    pub(super) fn theta_is_due(&self) -> bool {
        let every = self.options.theta_every;
        let all_here = self.ledger.present.iter().all(|here| *here);
        !self.coordinator.trainer.theta().is_empty()
            && every > 0
            && self.turn.turn.is_multiple_of(every)
            && !self.theta_done
            && all_here
    }

    /// Takes a step of θ from the silos' shares at the present posterior, and moves the prior with it.
    pub(super) fn step_theta(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let step = self.coordinator.step;
        if self.options.missing_silo == MissingSilo::GoOn && !is_complete(&outcomes) {
            // Without a silo's share there is no gradient: θ stays until the next turn.
            self.theta_done = true;
            return Ok(StepInfo::still(step, Tally::default()));
        }
        let (elbo, mut gradient) = self.coordinator.theta_gradient(outcomes)?;
        let of_theta = |index: usize| format!("the gradient by θ[{index}]");
        let gradient_norm = movable("the coordinator", step, self.coordinator.settings.clip, of_theta, &gradient)?;
        gradient.iter_mut().for_each(|g| *g = -*g);
        let mut theta = self.coordinator.trainer.theta().to_vec();
        let rate = self.theta_descent.rate(step);
        let is_clipped = self.theta_descent.step(rate, None, &mut theta, &mut gradient);
        self.coordinator.set_theta(&theta)?;
        // A factor that stands for the prior hears of the new θ at its next refinement.
        let prior = match &self.prior_solver {
            None => exact_prior(&self.coordinator, &self.family)?.ok_or_else(|| Error::Improper {
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
        // The next local updates are not to see the noise and the minibatch of this step.
        self.coordinator.step += 1;
        self.theta_done = true;
        self.publish()?;
        let tally = Tally { parallel_steps: 1, silo_steps: self.sizes.len() as u64, ..Tally::default() };
        Ok(StepInfo::moved(step, elbo, Moved { gradient_norm, is_clipped, rate }, tally))
    }
}
