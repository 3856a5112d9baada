//! Gives the coordinator of SOUL: it adds up the auxiliary variables and answers with one gradient a row.

use partita::core::{Part, SiteTable};
use partita::inference::{
    Algorithm, Delta, ElboSamples, Error, Field, Manifest, Message, Outcome, Posterior, Release, Request, Result,
    StepInfo, Tally,
};
use partita::vertical::{Labels, LikelihoodAt, Party};
use partita::{Device, Settings};

use super::{MOST_STEPS, Rule, finite, vectors};

/// What its saved state is called.
const STATE: &str = "soul.coordinator";
/// What the names of the optimiser's vectors begin with.
const RULE: &str = "rule.";

/// The coordinator of [`Soul`](crate::Soul): the holder of the labels.
///
/// In a round party $`j`$ sends $`z_j`$. With $`s = \sum_j z_j`$ the coordinator takes a step on the head's unknowns
/// $`\gamma`$, a point, up $`\log p(y \mid s, \gamma) + \log p(\gamma)`$, and keeps $`a = \partial \log p(y \mid s,
/// \gamma)/\partial s`$, which by the chain rule is the gradient by every $`z_j`$. It sends $`a`$ with the next
/// request, the same vector to all. One exchange a round, and $`n`$ numbers each way; the first request has no
/// gradient.
///
/// The "bound" that is reported is $`\log p(y \mid s, \gamma) + \log p(\gamma)`$ at these points. It bounds no
/// evidence.
pub struct SoulCoordinator {
    labels: Labels,
    device: Device,
    settings: Settings,
    table: SiteTable,
    family: Delta,
    head: Vec<f64>,
    rule: Rule,
    parties: Vec<String>,
    step: u64,
    /// The gradient of the last step, empty before the first.
    gradient: Vec<f64>,
    manifest: Manifest,
}

impl std::fmt::Debug for SoulCoordinator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("SoulCoordinator");
        shown.field("parties", &self.parties).field("step", &self.step).finish_non_exhaustive()
    }
}

impl SoulCoordinator {
    /// The holder of `labels` for these parties.
    pub(super) fn new(parties: &[Party], labels: Labels, device: &Device, settings: &Settings) -> Result<Self> {
        settings.check()?;
        check_rows(parties, &labels)?;
        let table = labels.table(device)?;
        let field = |name, meaning, limit, release| Field { name, meaning, limit, release };
        let numbers = labels.rows() * labels.outputs();
        let manifest = Manifest {
            fields: vec![
                field("step", "the step answered", 1, Release::Public),
                field(
                    "auxiliary",
                    "z: the point for the party's auxiliary variable of each row",
                    numbers,
                    Release::Forbidden,
                ),
            ],
        };
        Ok(Self {
            device: device.clone(),
            family: Delta::new(table.global_len()),
            head: vec![0.0; table.global_len()],
            rule: Rule::new(settings, device),
            parties: parties.iter().map(|party| party.name().to_owned()).collect(),
            settings: settings.clone(),
            labels,
            table,
            step: 0,
            gradient: Vec::new(),
            manifest,
        })
    }

    /// The unknowns of the head $`\gamma`$, unconstrained, in the order of its site table.
    #[must_use]
    pub fn head(&self) -> &[f64] {
        &self.head
    }

    /// The sum over parties, in their order, of the vectors they sent, and nothing of a party that sent another thing.
    fn sum(&self, outcomes: Vec<Outcome>) -> Result<Vec<f64>> {
        let (step, outputs) = (self.step, self.labels.outputs());
        let mut sum = vec![0.0; self.labels.rows() * outputs];
        for (outcome, party) in outcomes.into_iter().zip(&self.parties) {
            let reply = outcome.reply(party, step)?;
            let found = reply.get_count("step", MOST_STEPS).map_err(|error| error.in_silo(party, step))?;
            if found != step {
                let problem = format!("step {found} was answered, asked was step {step}");
                return Err(Error::Message { kind: reply.kind.clone(), problem }.in_silo(party, step));
            }
            let own = reply.expect_floats("auxiliary", sum.len()).map_err(|error| error.in_silo(party, step))?;
            finite(
                &format!("silo `{party}`"),
                step,
                |index| format!("its auxiliary variable of row {}", index / outputs),
                &own,
            )?;
            sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        Ok(sum)
    }
}

impl Algorithm for SoulCoordinator {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        let message = Message::new("soul.step").word("step", self.step).word("seed", self.settings.seed);
        let message = if self.gradient.is_empty() { message } else { message.floats("gradient", &self.gradient) };
        Ok(Request::to_all(self.parties.len(), &message))
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let step = self.step;
        let predictor = self.sum(outcomes)?;
        let at = LikelihoodAt { latents: &self.head, eta: &predictor, rows: None, weight: 1.0 };
        let share = self.labels.likelihood(&self.device, &self.table, at)?;
        let prior = self.labels.prior(&self.device, &self.table, &self.head)?;
        let elbo = share.value + prior.value;
        // The optimisers descend; the log density is to ascend.
        let gradient: Vec<f64> = share.latents.iter().zip(&prior.globals).map(|(y, p)| -(y + p)).collect();
        let who = "the coordinator";
        finite(who, step, |_| "the log likelihood".into(), &[elbo])?;
        finite(who, step, |index| format!("the gradient by the predictor of row {index}"), &share.eta)?;
        finite(who, step, |index| format!("the gradient by number {index} of the head"), &gradient)?;
        let squares: f64 = gradient.iter().chain(&share.eta).map(|g| g * g).sum();
        let rate = self.rule.step(step, &mut self.head, &gradient);
        self.gradient = share.eta;
        self.step += 1;
        let tally = Tally { parallel_steps: 1, silo_steps: self.parties.len() as u64, ..Tally::default() };
        let (gradient_norm, rate) = (Some(squares.sqrt()), Some(rate));
        Ok(StepInfo { step: self.step, elbo, gradient_norm, movement: None, clipped_steps: 0, rate, tally })
    }

    fn elbo_requests(&self, _: usize, _: u64) -> Vec<Request> {
        Request::to_all(self.parties.len(), &Message::new("soul.estimate_elbo").word("step", self.step))
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, _: u64) -> Result<ElboSamples> {
        let predictor = self.sum(outcomes)?;
        let at = LikelihoodAt { latents: &self.head, eta: &predictor, rows: None, weight: 1.0 };
        let share = self.labels.likelihood(&self.device, &self.table, at)?;
        let value = share.value + self.labels.prior(&self.device, &self.table, &self.head)?.value;
        finite("the coordinator", self.step, |_| "the log likelihood".into(), &[value])?;
        // Points have no draws that differ.
        Ok(ElboSamples { elbos: vec![value; draws], ..ElboSamples::default() })
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        Posterior { family: &self.family, parameters: &self.head, theta: &[] }
    }

    fn save(&self) -> Message {
        let message = Message::new(STATE)
            .word("step", self.step)
            .word("seed", self.settings.seed)
            .floats("head", &self.head)
            .floats("gradient", &self.gradient)
            .setting("globals", &unknowns(&self.table));
        self.rule.save(RULE).iter().fold(message, |message, (name, values)| message.floats(name, values))
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        let refuse = |problem: &str| Err(Error::Message { kind: state.kind.clone(), problem: problem.to_owned() });
        if state.kind != STATE {
            return refuse("it is the state of another algorithm");
        }
        if state.get_setting("globals")? != unknowns(&self.table) || state.get_word("seed")? != self.settings.seed {
            return refuse("it was made by another model or with another seed");
        }
        let (step, head) = (state.get_count("step", MOST_STEPS)?, state.expect_floats("head", self.head.len())?);
        let gradient = state.get_floats("gradient")?;
        if !self.rule.load(&vectors(state)?, RULE) {
            return refuse("its optimiser state is of another optimiser");
        }
        (self.head, self.gradient, self.step) = (head, gradient, step);
        Ok(())
    }
}

/// The unknowns of the head with their shapes, to compare between runs.
fn unknowns(table: &SiteTable) -> String {
    let sites = table.latents(Part::Global).map(|site| format!("{} {} {:?}", site.name, site.distribution, site.shape));
    sites.collect::<Vec<_>>().join("; ")
}

/// Refuses parties whose rows are not those of the labels.
fn check_rows(parties: &[Party], labels: &Labels) -> Result<()> {
    if parties.is_empty() {
        return Err(Error::NoSilos);
    }
    let Some(party) = parties.iter().find(|party| party.rows() != labels.rows()) else { return Ok(()) };
    let problem = partita::core::Error::Shape {
        operation: "rows of a party".into(),
        found: vec![party.rows()],
        expected: vec![labels.rows()],
        remedy: "Align the rows of all parties by a shared key first (`Alignment`).".into(),
    };
    Err(Error::Model(problem).in_silo(party.name(), 0))
}
