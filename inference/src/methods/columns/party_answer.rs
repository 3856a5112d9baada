//! Answers the requests of a vertical fit: auxiliary variables, shares of a power likelihood, assessments, predictions.

use std::borrow::Cow;

use partita_core::kernel::add_scaled;
use partita_core::{Key, Purpose};

use crate::engine::algorithm::finite;
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::{Error, Result};
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::trust::estimate::DRAWS_A_REQUEST;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::methods::columns::party::{Drawn, Pending, VerticalParty};
use crate::methods::columns::{ASSESS, ASSESS_SHARE, PREDICT, SHARE, STEP, as_rows};
use partita_core::vertical::{Augmentation, LikelihoodAt};

impl VerticalParty {
    fn refuse<T>(&self, request: &Message, problem: String) -> Result<T> {
        let problem = format!("party `{}`: {problem}", self.party.name());
        Err(Error::Message { kind: request.kind.clone(), problem })
    }

    /// Makes sure that the request is of this run and of these rows.
    fn same_run(&self, request: &Message) -> Result<()> {
        let (seed, total) = (request.get_word("seed")?, request.get_word("rows_in_all")?);
        if seed != self.settings.seed {
            let problem = format!("the request has seed {seed}, this party was set up with {}", self.settings.seed);
            return self.refuse(request, problem);
        }
        if total != self.party.rows() as u64 {
            let problem = format!(
                "the request is about {total} rows, this party holds {}. Align the rows of all parties by a shared key first",
                self.party.rows()
            );
            return self.refuse(request, problem);
        }
        Ok(())
    }

    /// The rows the coordinator announced; `None` for all.
    fn rows(&self, request: &Message) -> Result<Option<Vec<usize>>> {
        if !request.has("rows") {
            return Ok(None);
        }
        match as_rows(&request.get_floats("rows")?) {
            Some(rows) if !rows.is_empty() => Ok(Some(rows)),
            _ => self.refuse(request, "the rows announced are no indices".into()),
        }
    }

    /// The draws of a step, made anew from the same noise where a restart has lost them.
    fn draws(&self, step: u64, rows: Option<&[usize]>) -> Result<Vec<Drawn>> {
        let particles = self.settings.particles;
        (0..particles).zip(0_u32..).map(|(_, particle)| self.draw(Purpose::Fit, step, particle, rows)).collect()
    }

    /// Takes the step whose gradient the request brings; nothing if it was taken before.
    fn settle(&mut self, request: &Message) -> Result<()> {
        if !request.has("gradient") {
            return Ok(());
        }
        let answered = request.get_count("answered", LARGEST_COUNT)?;
        if self.step == answered + 1 {
            return Ok(());
        }
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.step == answered) else {
            let problem =
                format!("it brings the gradient of step {answered}, this party has taken {} steps", self.step);
            return self.refuse(request, problem);
        };
        let draws = std::mem::take(&mut pending.draws);
        let (rows, shares) = (pending.rows.clone(), pending.shares.clone());
        let draws = if draws.is_empty() { self.draws(answered, rows.as_deref())? } else { draws };
        let size = draws.iter().map(|drawn| drawn.sample.value.len()).sum();
        let gradient = request.expect_floats("gradient", size)?;
        let parts = gradient.chunks_exact((size / draws.len()).max(1));
        let mut ascents = Vec::with_capacity(draws.len());
        for (index, (drawn, part)) in draws.into_iter().zip(parts).enumerate() {
            ascents.push(self.vjp(drawn, part, shares.get(index).map(Vec::as_slice))?);
        }
        let ascent = self.mean_ascent(ascents);
        self.check(&ascent, answered)?;
        self.clipped = u64::from(self.ascend(ascent, rows.as_deref(), answered)?);
        self.pending = None;
        self.step = answered + 1;
        for number in 1..self.options.local_steps {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            self.clipped += u64::from(self.local_step(answered, number, rows.as_deref())?);
        }
        Ok(())
    }

    /// Answers `vertical.step`: settles the step before, and sends $`z_j`$ of this one and, where gradients are
    /// clipped, how often that of the step before was.
    fn step(&mut self, request: &Message) -> Result<Message> {
        self.same_run(request)?;
        // All of the request is read before anything is done, so that one that is refused changes nothing.
        let (step, rows) = (request.get_count("step", LARGEST_COUNT)?, self.rows(request)?);
        let taken = match request.has("gradient") {
            true => request.get_count("answered", LARGEST_COUNT)?.saturating_add(1),
            false => self.step,
        };
        if step != taken {
            let problem = format!("it asks for step {step}, this party will have taken {taken} steps");
            return self.refuse(request, problem);
        }
        self.settle(request)?;
        let draws = self.draws(step, rows.as_deref())?;
        let mut reply = self.values(Message::new("vertical.value").word("step", step), &draws, step)?;
        if self.descent.clips() {
            reply = reply.word("clipped", self.clipped);
        }
        self.pending = Some(Pending { step, rows, shares: Vec::new(), draws });
        Ok(reply)
    }

    /// Puts $`z_j`$ of every draw in a message, and the party's bounds where no further exchange follows.
    fn values(&self, message: Message, draws: &[Drawn], step: u64) -> Result<Message> {
        let values: Cow<'_, [f64]> = match draws {
            [one] => one.sample.value.as_slice().into(),
            _ => draws.iter().flat_map(|drawn| drawn.sample.value.iter().copied()).collect(),
        };
        finite(self.party.name(), step, |index| format!("its auxiliary variable {index}"), &values)?;
        let shape = [draws.len(), values.len() / (draws.len() * self.outputs).max(1), self.outputs];
        let message = message.array("z", &values, &shape);
        if let Augmentation::PowerLikelihood { .. } = self.options.augmentation {
            return Ok(message);
        }
        let bounds: Vec<f64> = draws.iter().map(|drawn| self.bound(drawn)).collect();
        finite(self.party.name(), step, |_| "its share of the bound".into(), &bounds)?;
        Ok(message.floats("elbo", &bounds))
    }

    /// The party's share of a power likelihood at one draw: its bound, its gradient by the unknowns of the head, and
    /// that by its contribution, which is the one by every other party's $`z_k`$ too.
    fn power_share(
        &self,
        drawn: &Drawn,
        (sum, head): (&[f64], &[f64]),
        rows: Option<&[usize]>,
        parties: u64,
    ) -> Result<(f64, Vec<f64>, Vec<f64>)> {
        let Some((labels, table)) = &self.labels else {
            let expected = "labels at every party, as the power likelihood needs";
            return Err(Error::Setting { setting: "labels", found: "none".into(), expected });
        };
        let mut eta = sum.to_vec();
        add_scaled(&mut eta, -1.0, &drawn.sample.value);
        add_scaled(&mut eta, 1.0, &drawn.contributed.outputs().values);
        #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 parties")]
        let weight = 1.0 / parties as f64;
        let share = labels.likelihood(&self.device, table, LikelihoodAt { latents: head, eta: &eta, rows, weight })?;
        Ok((self.bound(drawn) + share.value, share.latents, share.eta))
    }

    /// Answers `vertical.share`: the party's part of the power likelihood given the sum of all $`z_k`$.
    fn share(&mut self, request: &Message) -> Result<Message> {
        self.same_run(request)?;
        let step = request.get_count("step", LARGEST_COUNT)?;
        let Some(mut pending) = self.pending.take().filter(|pending| pending.step == step) else {
            return self.refuse(request, format!("it asks for the share of step {step}, which was not drawn"));
        };
        if pending.draws.is_empty() {
            pending.draws = self.draws(step, pending.rows.as_deref())?;
        }
        let answer = self.shares(
            Message::new("vertical.shared").word("step", step),
            request,
            &pending.draws,
            pending.rows.as_deref(),
        );
        let (reply, shares) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.pending = Some(pending);
                return Err(error);
            }
        };
        pending.shares = shares;
        self.pending = Some(pending);
        Ok(reply)
    }

    fn shares(
        &self,
        message: Message,
        request: &Message,
        draws: &[Drawn],
        rows: Option<&[usize]>,
    ) -> Result<(Message, Vec<Vec<f64>>)> {
        let each = draws.first().map_or(0, |drawn| drawn.sample.value.len());
        let unknowns = self.labels.as_ref().map_or(0, |(_, table)| table.global_len());
        let sums = request.expect_floats("sum", draws.len() * each)?;
        let heads = request.expect_floats("head", draws.len() * unknowns)?;
        let parties = request.get_word("parties")?;
        let (mut bounds, mut by_head, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        for (index, drawn) in draws.iter().enumerate() {
            let at = (&sums[index * each..(index + 1) * each], &heads[index * unknowns..(index + 1) * unknowns]);
            let (bound, head, share) = self.power_share(drawn, at, rows, parties)?;
            bounds.push(bound);
            by_head.extend(head);
            shares.push(share);
        }
        let (who, step) = (self.party.name(), self.step);
        finite(who, step, |_| "its share of the bound".into(), &bounds)?;
        finite(who, step, |index| format!("its gradient by unknown {index} of the head"), &by_head)?;
        let joined = shares.concat();
        finite(who, step, |index| format!("its gradient by predictor {index}"), &joined)?;
        let shape = [draws.len(), each / self.outputs.max(1), self.outputs];
        let message = message.floats("elbo", &bounds).floats("head_gradient", &by_head);
        Ok((message.array("share", &joined, &shape), shares))
    }

    /// Answers `vertical.estimate_elbo` and `vertical.assess_share`: report draws on all rows; changes nothing but what
    /// waited for its gradient.
    fn estimate_elbo(&mut self, request: &Message) -> Result<Message> {
        self.same_run(request)?;
        let offset = request.get_count("step", LARGEST_COUNT)?;
        let count = u32::try_from(request.get_count("draws", DRAWS_A_REQUEST as u64)?).unwrap_or(u32::MAX);
        self.settle(request)?;
        let draws =
            (0..count).map(|draw| self.draw(Purpose::Report, offset, draw, None)).collect::<Result<Vec<_>>>()?;
        if request.kind == ASSESS_SHARE {
            let message = Message::new("vertical.assessment").word("step", offset);
            // A report needs no gradient by predictors: none is sent.
            let (mut reply, _) = self.shares(message, request, &draws, None)?;
            reply.records.retain(|record| record.name != "share");
            return Ok(reply);
        }
        self.values(Message::new("vertical.assessment").word("step", offset), &draws, self.step)
    }

    /// Answers `vertical.predict`: contributions to the held-out rows, with the noise of auxiliary variables unless the
    /// request is without it.
    fn predict(&mut self, request: &Message) -> Result<Message> {
        self.settle(request)?;
        let Some(rows) = &mut self.held_out else {
            return self.refuse(request, "it holds no rows to predict. Give it some first".into());
        };
        if !self.theta.is_empty() {
            rows.set_theta(&self.theta, &self.device)?;
        }
        let total = request.get_word("rows_in_all")?;
        if total != rows.rows() as u64 {
            let problem = format!("the request is about {total} held-out rows, this party holds {}", rows.rows());
            return self.refuse(request, problem);
        }
        let Some(rows) = &self.held_out else { unreachable!("invariant: checked above") };
        let (first, count) =
            (request.get_count("first", LARGEST_COUNT)?, request.get_count("draws", DRAWS_A_REQUEST as u64)?);
        let (parties, noisy) = (request.get_word("parties")?, request.get_word("noise")? > 0);
        let mut values = Vec::new();
        for draw in first..first + count {
            let key = Key::new(Purpose::Predictive, draw).silo(self.index);
            let mut noise = vec![0.0; self.family.noise_len()];
            self.noise.normal(key, &mut noise);
            let latents = self.family.draw(&self.parameters, &noise).latent;
            let contributed = rows.contribute(&self.device, &self.table, &latents, None)?;
            let mut own = contributed.outputs().values.clone();
            // In the power-likelihood model one party's contribution enters without its noise: each in its turn.
            let is_plain = matches!(self.options.augmentation, Augmentation::PowerLikelihood { .. })
                && draw % parties.max(1) == u64::from(self.index);
            if noisy && !is_plain {
                let mut tau = vec![0.0; own.len()];
                self.noise.normal(key.block(1), &mut tau);
                add_scaled(&mut own, self.options.augmentation.rho(), &tau);
            }
            values.extend(own);
        }
        finite(self.party.name(), self.step, |index| format!("its contribution {index}"), &values)?;
        Ok(Message::new("vertical.prediction").floats("z", &values))
    }
}

impl Program for VerticalParty {
    fn standing(&self) -> Standing<'_> {
        Standing { name: self.party.name(), seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            STEP => self.step(request),
            SHARE => self.share(request),
            ASSESS | ASSESS_SHARE => self.estimate_elbo(request),
            PREDICT => self.predict(request),
            _ => self.refuse(request, "a party of a vertical fit does not know this request".into()),
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        Ok(self.state())
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let fits = self.restore(state)?;
        self.step = if fits { step } else { self.step };
        Ok(fits)
    }

    fn commit(&self, request: &Message) -> Commit {
        // A copy of all rows for a step on a few of them would cost more than the step: such a step is taken back by
        // nothing.
        let is_whole = self.pending.as_ref().is_some_and(|pending| pending.rows.is_none());
        if request.has("gradient") && is_whole { Commit::AsItGoes } else { Commit::AtItsEnd }
    }

    /// Means and standard deviations of the party's unconstrained latents.
    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        Ok(vec![(self.family.mean(&self.parameters), self.family.spread(&self.parameters).deviations())])
    }

    fn kept_theta(&self) -> Vec<f64> {
        self.theta.clone()
    }
}
