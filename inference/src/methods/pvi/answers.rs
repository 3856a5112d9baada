//! Takes what became of PVI's visits: answers, answers that did not come, and time on the virtual clock.

use crate::engine::algorithm::{StepInfo, Tally, finite};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::Outcome;
use crate::engine::trainer::distance;
use crate::engine::wire::message::Message;
use crate::methods::pvi::{Answer, Asked, MissingSilo, Pvi, SiloSchedule, Turn};

/// So many answers in a row that do not come from any silo end a run: no silo is left to go on with.
const SILENCE: u64 = 100;

impl Pvi {
    /// Takes the outcomes of what was asked. Exchanges in which no answer is taken are no steps, and leave the
    /// posterior and its version as they are.
    pub(super) fn visited(&mut self, outcomes: Vec<(Asked, Outcome)>) -> Result<StepInfo> {
        let step = self.coordinator.step;
        let (mut tally, mut counts) = (Tally::default(), self.counts);
        // All answers are read before any is taken: a wrong one changes nothing.
        let (mut heard, mut changes, mut clipped_steps, mut clipped_rows) =
            (Vec::new(), Vec::new(), 0, self.clipped_rows);
        for (asked, outcome) in outcomes {
            let is_lost = self.is_lost(asked.silo);
            let reply = if asked.is_void { None } else { self.reply(asked.silo, outcome)? };
            let mut log_likelihood = None;
            if let Some(reply) = reply {
                let answer = self.read(asked, &reply)?;
                clipped_steps = answer.clipped.max(clipped_steps);
                tally.parallel_steps = tally.parallel_steps.max(answer.steps);
                tally.silo_steps += answer.steps;
                counts.shortened_steps += answer.shortened;
                counts.held_components += answer.held;
                counts.improper_cavities += u64::from(answer.improper_cavity);
                if let Some(rows) = answer.clipped_rows.filter(|_| 3 * step >= 2 * self.coordinator.settings.steps) {
                    clipped_rows.add(rows, 1.0 / self.silo_count());
                }
                if !is_lost {
                    changes.push((asked.silo, answer.change));
                    log_likelihood = Some(answer.log_likelihood.unwrap_or(f64::NAN));
                }
            }
            heard.push((asked, log_likelihood));
        }
        let (product, share) = self.product(&changes)?;
        for (Asked { silo, version, is_void }, log_likelihood) in heard {
            self.pass_time(silo);
            match log_likelihood {
                Some(log_likelihood) => self.ledger.answered(silo, version, log_likelihood),
                // Of a silo that was removed nothing is missed.
                None if is_void => {}
                None => {
                    tally.missed_answers += 1;
                    self.ledger.missed(silo);
                    self.turn.put_off(silo, &self.ledger.present);
                }
            }
        }
        counts.missed_answers += tally.missed_answers;
        counts.shortened_rounds += u64::from(share < 1.0);
        self.turn.turn += 1;
        let movement = if changes.is_empty() {
            self.check_silence()?;
            None
        } else {
            let before = self.apply(product, &changes, share);
            self.refine_prior(step)?;
            self.version += 1;
            self.theta_done = false;
            self.coordinator.step += self.options.local_steps;
            self.publish()?;
            Some(distance(&self.natural, &before))
        };
        let rate = self.last_rate(step);
        let (step, elbo) = (self.coordinator.step, self.bound());
        (self.counts, self.clipped_rows) = (counts, clipped_rows);
        Ok(StepInfo { step, elbo, gradient_norm: None, movement, clipped_steps, rate, tally })
    }

    /// A silo's reply, or none where the run goes on without it; a silo that answers with an error is not absent.
    fn reply(&self, silo: usize, outcome: Outcome) -> Result<Option<Message>> {
        let (name, step) = (self.coordinator.silos[silo].clone(), self.coordinator.step);
        let reason = match outcome {
            Outcome::Reply(reply) => return Ok(Some(reply)),
            Outcome::Failed(error) => return Err(error.in_silo(&name, step)),
            Outcome::Lost { reason } => reason,
            Outcome::Timeout => "the deadline passed".into(),
        };
        if self.options.missing_silo == MissingSilo::Fail {
            return Err(Error::SiloLost { silo: name, step, reason });
        }
        Ok(None)
    }

    /// What a reply brings.
    fn read(&self, asked: Asked, reply: &Message) -> Result<Answer> {
        let Asked { silo, version, .. } = asked;
        let (name, own) = (&self.coordinator.silos[silo], self.natural.len());
        let answer = Answer::read(reply, &self.sizes_of_messages)?;
        let found = answer.version;
        let problem = format_args!("silo `{name}` answered from version {found}, asked was version {version}");
        Error::well_formed(found == version, &reply.kind, problem)?;
        let damping = self.damping(silo);
        let what = |index| format!("its change of natural parameter {index} of {own}, with damping rho = {damping},");
        finite(name, self.coordinator.step, what, &answer.change)?;
        let more = [answer.log_likelihood, answer.clipped_rows].map(Option::unwrap_or_default);
        let names = ["its expected log likelihood", "its number of clipped rows"];
        finite(name, self.coordinator.step, |index| names[index].into(), &more)?;
        Ok(answer)
    }

    /// Whether the answer of a silo's visit on the virtual clock is lost on its way.
    fn is_lost(&self, silo: usize) -> bool {
        let SiloSchedule::Asynchronous(delays) = self.options.schedule else { return false };
        // Of a real clock there is no work on this one.
        self.work[silo].is_some() && Turn::is_lost(delays, silo, self.ledger.updates[silo])
    }

    /// Moves the virtual clock to the end of a silo's visit.
    fn pass_time(&mut self, silo: usize) {
        if let Some(work) = self.work[silo].take() {
            self.clock = work.until;
            self.ledger.updates[silo] += 1;
        }
    }

    /// Refuses to go on where no silo has answered for long.
    fn check_silence(&self) -> Result<()> {
        let here = || (0..self.sizes.len()).filter(|&silo| self.ledger.present[silo]);
        if here().any(|silo| self.ledger.silence[silo] < SILENCE) {
            return Ok(());
        }
        let names: Vec<&str> = here().map(|silo| self.coordinator.silos[silo].as_str()).collect();
        let reason = format!("none of the last {SILENCE} requests to each was answered");
        Err(Error::SiloLost { silo: names.join("`, `"), step: self.coordinator.step, reason })
    }
}
