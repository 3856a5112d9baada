//! Answers the requests of a vertical fit: auxiliary variables, factors of a power likelihood, predictions.

use partita_core::kernel::add_scaled;
use partita_core::vertical::{Augmentation, LikelihoodAt, Party};
use partita_core::{Key, Precision, Purpose};

use crate::engine::algorithm::finite;
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::{Error, Result};
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::settings::DRAWS_A_REQUEST;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;
use crate::engine::wire::typed::{Rows, length};
use crate::methods::columns::VerticalOptions;
use crate::methods::columns::auxiliary::Ascent;
use crate::methods::columns::messages::{
    Answered, AtMost, Contributions, EstimateRequest, FactorRequest, FactorTerms, Indices, PredictRequest, Sizes,
    StepRequest, Values, brings_gradient, manifest, wrong_length,
};
use crate::methods::columns::party::{Drawn, Pending, VerticalParty};
use crate::methods::columns::unknowns::{Draws, Unknowns};

fn refuse<T>(kind: &str, problem: String) -> Result<T> {
    Err(Error::Message { kind: kind.to_owned(), problem })
}

impl VerticalParty {
    /// The longest that requests may be.
    fn sizes(&self) -> Sizes {
        let (rows, draws) = (self.party.rows(), self.settings.particles.max(DRAWS_A_REQUEST));
        let unknowns = self.labels.as_ref().map_or(0, |(_, table)| table.global_len());
        let values = (draws * rows * self.outputs) as u64;
        Sizes { rows: rows as u64, values, unknowns: (draws * unknowns) as u64, ..Sizes::default() }
    }

    /// What may leave this party in answer to a request of this kind, whatever its label holder checks.
    fn listed(&self, kind: &str) -> Manifest {
        let (rows, draws) = (self.party.rows(), self.settings.most_draws());
        let values = |draws: usize, rows: usize| (draws * rows * self.outputs) as u64;
        if kind == PredictRequest::KIND {
            let rows = self.held_out.as_ref().map_or(0, Party::rows);
            let sizes = Sizes { values: values(DRAWS_A_REQUEST, rows), ..Sizes::default() };
            return Manifest { fields: Contributions::fields(&sizes) };
        }
        let predictors = values(self.settings.particles, rows);
        let sizes = Sizes { draws: draws as u64, values: values(draws, rows), predictors, ..self.sizes() };
        manifest(&sizes, self.options.augmentation, self.settings.clip.is_some())
    }

    /// Makes sure that a request is about the rows that the party holds.
    fn same_rows(&self, kind: &str, rows_in_all: u64) -> Result<()> {
        let own = self.party.rows();
        let problem = format_args!(
            "the request is about {rows_in_all} rows, this party holds {own}. Align the rows of all parties by a shared key first"
        );
        Error::well_formed(rows_in_all == own as u64, kind, problem)
    }

    /// The draws of a step.
    fn draws_of_step(&self, step: u64, rows: Option<&[usize]>) -> Result<Vec<Drawn>> {
        self.draws(Draws::of_step(step, self.settings.particles), rows)
    }

    /// Takes the step whose gradient a request brings; nothing if it was taken before.
    fn settle(&mut self, kind: &str, gradient: Option<Answered>) -> Result<()> {
        let Some(Answered { step, gradient: AtMost(gradient) }) = gradient else { return Ok(()) };
        if self.step == step + 1 {
            return Ok(());
        }
        let Some(Pending { rows, by_predictor, mut draws, .. }) = self.pending.take_if(|own| own.step == step) else {
            let problem = format!("it brings the gradient of step {step}, this party has taken {} steps", self.step);
            return refuse(kind, problem);
        };
        let rows = rows.as_deref();
        if draws.is_empty() {
            draws = self.draws_of_step(step, rows)?;
        }
        let size = draws.iter().map(|drawn| drawn.sample.value.len()).sum();
        if gradient.len() != size {
            return wrong_length(kind, "gradient", gradient.len(), size);
        }
        let each = (size / draws.len()).max(1);
        let mut by_predictor = by_predictor.chunks_exact(each);
        let (mut sum, count) = (Ascent::default(), draws.len());
        for (drawn, by_value) in draws.into_iter().zip(gradient.chunks_exact(each)) {
            self.vjp(drawn, by_value, by_predictor.next(), &mut sum)?;
        }
        self.clipped = u64::from(self.ascend(sum, count, rows, step)?);
        self.step = step + 1;
        for number in 1..self.options.local_steps {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            self.clipped += u64::from(self.local_step(step, number, rows)?);
        }
        Ok(())
    }

    /// Settles the step before, and sends $`z_j`$ of this one and, where gradients are clipped, how often that of the
    /// step before was.
    fn step(&mut self, request: StepRequest) -> Result<Message> {
        let StepRequest { step, rows_in_all, rows, gradient, .. } = request;
        self.same_rows(StepRequest::KIND, rows_in_all)?;
        let taken = gradient.as_ref().map_or(self.step, |answered| answered.step + 1);
        let problem = format_args!("it asks for step {step}, this party will have taken {taken} steps");
        Error::well_formed(step == taken, StepRequest::KIND, problem)?;
        self.settle(StepRequest::KIND, gradient)?;
        let rows = rows.map(|Indices(rows)| rows);
        let mut draws = self.draws_of_step(step, rows.as_deref())?;
        let clipped = self.trainer.descent.clips().then_some(self.clipped);
        let reply = self.values(step, &mut draws, clipped)?;
        self.pending = Some(Pending { step, rows, by_predictor: Vec::new(), draws });
        Ok(reply)
    }

    /// $`z_j`$ of every draw, and the party's bounds where no further exchange follows.
    fn values(&self, step: u64, draws: &mut [Drawn], clipped: Option<u64>) -> Result<Message> {
        // The numbers of one draw are lent to the message; those of several are copied one after another.
        let values = match &mut *draws {
            [only] => std::mem::take(&mut only.sample.value),
            several => several.iter().map(|drawn| drawn.sample.value.as_slice()).collect::<Vec<_>>().concat(),
        };
        let z = Rows { count: draws.len(), values };
        finite(self.party.name(), self.step, |index| format!("its auxiliary variable {index}"), &z.values)?;
        let elbo = match self.options.augmentation {
            Augmentation::PowerLikelihood { .. } => Vec::new(),
            _ => draws.iter().map(|drawn| self.bound(drawn)).collect(),
        };
        finite(self.party.name(), self.step, |_| "its ELBO term".into(), &elbo)?;
        let reply = Values { step, z, elbo, clipped };
        let message = reply.write();
        if let [only] = draws {
            only.sample.value = reply.z.values;
        }
        Ok(message)
    }

    /// Settles the last step, and sends $`z_j`$ of report draws on all rows.
    fn estimate_elbo(&mut self, request: EstimateRequest) -> Result<Message> {
        self.same_rows(EstimateRequest::KIND, request.rows_in_all)?;
        self.settle(EstimateRequest::KIND, request.gradient)?;
        let mut draws = self.draws(Draws::of_report(request.step, length(request.draws)), None)?;
        self.values(request.step, &mut draws, None)
    }

    /// The party's factor of the power likelihood given the sum of all $`z_k`$: at the draws of the step that waits, or
    /// at report draws, which need no gradient by predictors.
    fn factor(&mut self, request: &FactorRequest) -> Result<Message> {
        self.same_rows(FactorRequest::KIND, request.rows_in_all)?;
        let step = request.step;
        if let Some(count) = request.draws {
            let draws = self.draws(Draws::of_report(step, length(count)), None)?;
            let terms = self.factor_terms(request, &draws, None)?;
            return Ok(FactorTerms { predictor_gradient: Rows::default(), ..terms }.write());
        }
        let Some(pending) = self.pending.as_ref().filter(|own| own.step == step) else {
            return refuse(FactorRequest::KIND, format!("it asks for the factor of step {step}, which was not drawn"));
        };
        let rows = pending.rows.as_deref();
        let again = if pending.draws.is_empty() { self.draws_of_step(step, rows)? } else { Vec::new() };
        let draws = if again.is_empty() { &pending.draws } else { &again };
        let terms = self.factor_terms(request, draws, rows)?;
        if let Some(pending) = &mut self.pending {
            pending.by_predictor.clone_from(&terms.predictor_gradient.values);
            pending.draws.extend(again);
        }
        Ok(terms.write())
    }

    /// The party's bound, its gradient by the unknowns of the head, and that by its contribution, which is the one by
    /// every other party's $`z_k`$ too, draw by draw.
    fn factor_terms(&self, request: &FactorRequest, draws: &[Drawn], rows: Option<&[usize]>) -> Result<FactorTerms> {
        let Some((labels, table)) = &self.labels else {
            let expected = "labels at every party, as the power likelihood needs";
            return Err(Error::Setting { setting: "labels", found: "none".into(), expected });
        };
        let (each, unknowns) = (draws.first().map_or(0, |drawn| drawn.sample.value.len()), table.global_len());
        let (AtMost(sums), AtMost(heads)) = (&request.sum, &request.head);
        for (name, found, expected) in
            [("sum", sums.len(), draws.len() * each), ("head", heads.len(), draws.len() * unknowns)]
        {
            if found != expected {
                return wrong_length(FactorRequest::KIND, name, found, expected);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 parties")]
        let weight = 1.0 / request.parties as f64;
        let (mut elbo, mut head_gradient, mut by_predictor) = (Vec::new(), Vec::new(), Vec::new());
        for (index, drawn) in draws.iter().enumerate() {
            let mut eta = sums[index * each..(index + 1) * each].to_vec();
            add_scaled(&mut eta, -1.0, &drawn.sample.value);
            add_scaled(&mut eta, 1.0, drawn.contribution());
            let latents = &heads[index * unknowns..(index + 1) * unknowns];
            let at = LikelihoodAt { latents, eta: &eta, rows, weight };
            let factor = labels.likelihood(&self.device, table, at)?;
            elbo.push(self.bound(drawn) + factor.value);
            head_gradient.extend(factor.latents);
            by_predictor.extend(factor.eta);
        }
        let (who, step) = (self.party.name(), self.step);
        finite(who, step, |_| "its ELBO term".into(), &elbo)?;
        finite(who, step, |index| format!("its gradient by unknown {index} of the head"), &head_gradient)?;
        finite(who, step, |index| format!("its gradient by predictor {index}"), &by_predictor)?;
        let predictor_gradient = Rows { count: draws.len(), values: by_predictor };
        Ok(FactorTerms { step: request.step, elbo, head_gradient, predictor_gradient })
    }

    /// Contributions to the held-out rows, with the noise of auxiliary variables unless the request is without it.
    fn predict(&mut self, request: PredictRequest) -> Result<Message> {
        let PredictRequest { rows_in_all, first, draws, parties, noise: is_noisy, gradient } = request;
        self.settle(PredictRequest::KIND, gradient)?;
        let Some(mut rows) = self.held_out.clone() else {
            return refuse(PredictRequest::KIND, "it holds no rows to predict. Give it some first".into());
        };
        rows.set_theta(self.theta(), &self.device)?;
        let own = rows.rows();
        let problem = format_args!("the request is about {rows_in_all} held-out rows, this party holds {own}");
        Error::well_formed(rows_in_all == own as u64, PredictRequest::KIND, problem)?;
        let VerticalOptions { augmentation, .. } = self.options;
        let mut z = Vec::new();
        for draw in first..first + draws {
            let key = Key::new(Purpose::Predictive, draw).silo(self.index);
            let latents = Unknowns::draw(&self.trainer, &self.noise, key).draw.latent;
            let contributed = rows.contribute(&self.device, &self.table, &latents, None)?;
            let mut own = contributed.outputs().values.clone();
            // In the power-likelihood model one party's contribution enters without its noise: each in its turn.
            let is_plain = matches!(augmentation, Augmentation::PowerLikelihood { .. })
                && draw % parties.max(1) == u64::from(self.index);
            if is_noisy && !is_plain {
                let mut tau = vec![0.0; own.len()];
                self.noise.normal(key.block(1), &mut tau);
                add_scaled(&mut own, augmentation.rho(), &tau);
            }
            z.extend(own);
        }
        finite(self.party.name(), self.step, |index| format!("its contribution {index}"), &z)?;
        Ok(Contributions { z }.write())
    }
}

impl Program for VerticalParty {
    fn standing(&self) -> Standing<'_> {
        Standing { name: self.party.name(), seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        let sizes = self.sizes();
        // All of a request is read before anything is done.
        let answer = match request.kind.as_str() {
            StepRequest::KIND => StepRequest::read(request, &sizes).and_then(|asked| self.step(asked)),
            FactorRequest::KIND => FactorRequest::read(request, &sizes).and_then(|asked| self.factor(&asked)),
            EstimateRequest::KIND => EstimateRequest::read(request, &sizes).and_then(|asked| self.estimate_elbo(asked)),
            PredictRequest::KIND => PredictRequest::read(request, &sizes).and_then(|asked| self.predict(asked)),
            other => refuse(other, "a party of a vertical fit does not know this request".into()),
        };
        let answer = answer.map_err(|error| error.in_silo(self.party.name(), self.step))?;
        self.listed(&request.kind).check(self.party.name(), &answer)?;
        Ok(answer)
    }

    fn save(&self) -> Result<NamedVectors> {
        Ok(self.state(self.auxiliary.save()))
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let fits = self.restore(state)?;
        self.step = if fits { step } else { self.step };
        Ok(fits)
    }

    /// A request without a gradient changes nothing before its answer is made. A step on some rows keeps these rows
    /// alone: a copy of all would cost more than the step.
    fn commit(&self, request: &Message) -> Commit {
        if !brings_gradient(request) {
            return Commit::AtItsEnd;
        }
        let rows = self.pending.as_ref().and_then(|pending| pending.rows.as_deref());
        match rows.and_then(|rows| self.auxiliary.save_rows(rows)) {
            Some(rows) => Commit::Part(self.state(rows)),
            None => Commit::AsItGoes,
        }
    }

    fn set_precision(&mut self, precision: Precision) -> Result<bool> {
        self.recast(precision).map(|()| true)
    }

    /// Means and standard deviations of the party's unconstrained latents.
    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let (family, parameters) = (self.family(), self.parameters());
        Ok(vec![(family.mean(parameters), family.deviations(parameters))])
    }

    fn kept_theta(&self) -> Vec<f64> {
        self.theta().to_vec()
    }
}
