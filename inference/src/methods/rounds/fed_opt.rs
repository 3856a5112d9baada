//! Gives the coordinator of federated point estimation: local steps on mean losses, then one rule that joins the points.

use partita_core::{Device, Model, Noise};

use crate::engine::algorithm::{Algorithm, Assessed, Posterior, StepInfo, Tally, finite, replies, same_run};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::settings::Settings;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::methods::pvi::subset;
use crate::methods::rounds::server::ServerRule;
use crate::methods::rounds::sfvi_avg::{RoundAnswer, as_float, check_rounds, round_manifest};
use crate::methods::sfvi::Sfvi;
use crate::methods::sfvi::coordinator::STATE as INNER_STATE;

/// The kind of a saved coordinator.
const STATE: &str = "fed.coordinator";
/// What the names of the rule's vectors begin with.
const RULE: &str = "server.";

/// How [`FedOpt`] asks its silos and joins what they answer.
#[derive(Debug)]
pub struct PointRounds {
    /// Local steps $E$ of each silo in a round; [`Settings::steps`] counts local steps over all rounds.
    pub local_steps: u64,
    /// $\mu$ of the proximal term of FedProx; 0 for none.
    pub proximal: f64,
    /// How points become one.
    pub server: Box<dyn ServerRule>,
    /// Silos asked in a round, drawn anew for each; `None` for all.
    pub silos_a_round: Option<usize>,
    /// Whether the log density of the globals is part of the objective.
    pub prior: bool,
    /// Observations $`n_m`$ of each silo.
    pub sizes: Vec<usize>,
}

/// Federated point estimation: FedAvg, FedSGD, FedProx, FedOpt and gradient-masked averaging, by their server rule.
///
/// The latents and θ together are one point $w$, on the unconstrained scale. With $n = \sum_m n_m$ the objective is
/// ```math
/// f(w) = \sum_m \frac{n_m}{n} F_m(w), \qquad
/// F_m(w) = -\frac1{n_m}\log p(y_m \mid w) - \frac1n\log p(w)
/// ```
/// so that $f$ is the negative log joint density a row: its minimum is the posterior mode. Without
/// [`PointRounds::prior`] the last term is left out and the minimum is the maximum of the likelihood. In a round every
/// silo asked takes $E$ steps of its optimiser, started afresh, on $`F_m(w) + \tfrac\mu2\lVert w - w_t\rVert^2`$ from
/// $`w_t`$; the rule gets their points with weights $`n_m/\sum_{k \in S} n_k`$ over the silos $S$ asked.
///
/// The bound reported is the log joint density at the point, with the prior and without the proximal term; that of a step
/// is its mean over the last tenth of the silos' local steps, at their own points, and has the prior where the objective has.
///
/// # References
/// McMahan et al. (2017), arXiv:1602.05629, Algorithm 1; Li et al. (2020), Federated optimization in heterogeneous
/// networks, arXiv:1812.06127, eq. 2; Reddi et al. (2021), arXiv:2003.00295, Algorithm 2.
#[derive(Debug)]
pub struct FedOpt<M: Model> {
    inner: Sfvi<M>,
    rounds: PointRounds,
    round: u64,
    manifest: Manifest,
}

impl<M: Model> FedOpt<M> {
    /// The coordinator of a run over the silos of these names.
    ///
    /// # Errors
    /// As for [`Sfvi::new`]; [`Error::Setting`] for a family that is no point mass, no local steps, sizes that are not one
    /// positive number a silo, more silos a round than there are or none, and a proximal term that is negative or infinite.
    pub fn new(model: &M, device: &Device, settings: &Settings, silos: &[String], rounds: PointRounds) -> Result<Self> {
        check_rounds(rounds.local_steps, &rounds.sizes, silos)?;
        let refuse = |setting, found: String, expected| Err(Error::Setting { setting, found, expected });
        if !(rounds.proximal >= 0.0 && rounds.proximal.is_finite()) {
            return refuse("proximal", rounds.proximal.to_string(), "a finite number >= 0, such as 0.1");
        }
        if rounds.silos_a_round.is_some_and(|count| !(1..=silos.len()).contains(&count)) {
            let found = format!("{:?} of {}", rounds.silos_a_round, silos.len());
            return refuse("silos_a_round", found, "at least 1 and at most the number of silos, or None for all");
        }
        let inner = Sfvi::new(model, device, settings, silos)?;
        if inner.family.noise_len() > 0 {
            let found = format!("{:?}", inner.family);
            return refuse("family", found, "point masses for FedOpt: FamilyPlan::point_masses");
        }
        let manifest = round_manifest(&inner);
        Ok(Self { inner, rounds, round: 0, manifest })
    }

    /// The silos of the present round, in their order.
    fn asked(&self) -> Vec<usize> {
        let all = self.rounds.sizes.len();
        let size = self.rounds.silos_a_round.unwrap_or(all);
        subset((0..all).collect(), size, Noise::new(self.inner.settings.seed), self.round)
    }

    fn total(&self) -> f64 {
        as_float(self.rounds.sizes.iter().sum())
    }
}

impl<M: Model> Algorithm for FedOpt<M> {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        let base = self.inner.request("fed.round", self.round * self.rounds.local_steps);
        let prior = if self.rounds.prior { 1.0 / self.total() } else { 0.0 };
        let base = base
            .word("round", self.round)
            .word("local_steps", self.rounds.local_steps)
            .number("prior", prior)
            .number("proximal", self.rounds.proximal);
        let weight = |silo: usize| 1.0 / as_float(self.rounds.sizes[silo]);
        let to = |silo| Request { silo, message: base.clone().number("weight", weight(silo)) };
        Ok(self.asked().into_iter().map(to).collect())
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let step = self.round * self.rounds.local_steps;
        let asked = self.asked();
        let names: Vec<String> = asked.iter().map(|&silo| self.inner.silos[silo].clone()).collect();
        let replies = replies(outcomes, &names, step)?;
        let present: f64 = asked.iter().map(|&silo| as_float(self.rounds.sizes[silo])).sum();
        let weights: Vec<f64> = asked.iter().map(|&silo| as_float(self.rounds.sizes[silo]) / present).collect();
        let (mut members, mut elbo, mut clipped) = (Vec::new(), 0.0, false);
        for ((reply, silo), weight) in replies.iter().zip(&names).zip(&weights) {
            let answer = RoundAnswer::read(reply, &self.inner, silo, (self.round, step))?;
            members.push([answer.parameters, answer.theta].concat());
            elbo += weight * answer.elbo * self.total();
            clipped |= answer.clipped;
        }
        finite("the coordinator", step, |_| "the log joint density".into(), &[elbo])?;
        let before = [self.inner.parameters.as_slice(), &self.inner.theta].concat();
        let mut after = self.rounds.server.apply(&before, &members, &weights);
        finite("the coordinator", step, |index| format!("number {index} of the point"), &after)?;
        let moved: f64 = after.iter().zip(&before).map(|(a, b)| (a - b) * (a - b)).sum();
        let theta = after.split_off(self.inner.parameters.len());
        self.inner.parameters = after;
        self.inner.set_theta(theta)?;
        self.round += 1;
        self.inner.step = self.round * self.rounds.local_steps;
        let rate = self.inner.settings.schedule.rate(self.inner.step, self.inner.settings.steps);
        let tally = Tally::steps(self.rounds.local_steps, asked.len());
        Ok(StepInfo { step: self.inner.step, elbo, gradient_norm: moved.sqrt(), clipped, rate, tally })
    }

    fn assessing(&self, draws: usize, offset: u64) -> Vec<Request> {
        self.inner.assessing(draws, offset)
    }

    fn assessed(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<Assessed> {
        self.inner.assessed(outcomes, draws, offset)
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        self.inner.posterior()
    }

    fn save(&self) -> Message {
        let state = Message { kind: STATE.to_owned(), ..self.inner.save().word("round", self.round) };
        let named = self.rounds.server.save().into_iter();
        named.fold(state, |state, (name, values)| state.floats(&format!("{RULE}{name}"), &values))
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        let globals = crate::engine::terms::silo::global_signature(&self.inner.table);
        same_run(state, STATE, &globals, self.inner.settings.seed)?;
        let numbers = self.inner.parameters.len() + self.inner.theta.len();
        let own = state.records.iter().filter_map(|record| record.name.strip_prefix(RULE));
        let vector = |name: &str| Ok((name.to_owned(), state.expect_floats(&format!("{RULE}{name}"), numbers)?));
        if !self.rounds.server.load(own.map(vector).collect::<Result<_>>()?) {
            let problem = "the state of its server rule is of another rule".to_owned();
            return Err(Error::Message { kind: state.kind.clone(), problem });
        }
        self.round = state.get_count("round", LARGEST_COUNT)?;
        self.inner.load(&Message { kind: INNER_STATE.to_owned(), ..state.clone() })
    }
}
