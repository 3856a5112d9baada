//! Gives the coordinator of federated point estimation: local steps on mean losses, then one rule that joins the points.

use partita_core::{AnyModel, Device, Model, Noise};

use super::fed_opt_options::FedOptOptions;
use super::join::{Join, Joined, LocalSteps};
use super::messages::POINT_ROUND;
use super::server::ServerRule;
use crate::engine::algorithm::{Algorithm, ElboSamples, Posterior, StepInfo, finite, same_run};
use crate::engine::checkpoint::{prefixed, with_prefix};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::real;
use crate::engine::report::Privacy;
use crate::engine::settings::Settings;
use crate::engine::terms::coordinator::Coordinator;
use crate::engine::terms::silo::global_signature;
use crate::engine::trust::objective::Objective;
use crate::engine::turn::subset;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// The kind of a saved coordinator.
const STATE: &str = "fed.coordinator";
/// What the names of the rule's vectors begin with.
const RULE: &str = "server.";

/// Federated point estimation: FedAvg, FedSGD, FedProx, FedOpt and gradient-masked averaging, by their server rule.
///
/// The latents and θ together are one point $w$, on the unconstrained scale. With $n = \sum_m n_m$ the objective is
/// ```math
/// f(w) = \sum_m \frac{n_m}{n} F_m(w), \qquad
/// F_m(w) = -\frac1{n_m}\log p(y_m \mid w) - \frac1n\log p(w)
/// ```
/// so that $f$ is the negative log joint density a row: its minimum is the posterior mode. Without
/// [`FedOptOptions::prior`] the last term is left out and the minimum is the maximum of the likelihood. In a round every
/// silo asked takes $E$ steps of its optimiser, started afresh, on $`F_m(w) + \tfrac\mu2\lVert w - w_t\rVert^2`$ from
/// $`w_t`$; the rule gets their points with weights $`n_m/\sum_{k \in S} n_k`$ over the silos $S$ asked.
///
/// The bound reported is the log joint density at the point, with the prior and without the proximal term; that of a
/// step is its mean over the last tenth of the silos' local steps, at their own points, and has the prior where the
/// objective has.
///
/// # References
/// McMahan et al. (2017), arXiv:1602.05629, Algorithm 1; Li et al. (2020), Federated optimization in heterogeneous
/// networks, arXiv:1812.06127, eq. 2; Reddi et al. (2021), arXiv:2003.00295, Algorithm 2.
#[derive(Debug)]
pub struct FedOpt {
    join: Join,
    options: FedOptOptions,
    server: Box<dyn ServerRule>,
}

impl FedOpt {
    /// The coordinator of a run over the silos of these names, with these numbers of observations.
    ///
    /// # Errors
    /// As for [`crate::Sfvi::new`]; [`Error::Setting`] for a family that is no point mass, options that mean nothing,
    /// and sizes that are not one positive number a silo.
    pub fn new<M: Model>(
        model: &M,
        device: &Device,
        settings: &Settings,
        silos: &[String],
        sizes: Vec<usize>,
        options: FedOptOptions,
    ) -> Result<Self> {
        let model = &AnyModel::new(model);
        let join =
            Join::new(Coordinator::new(model, device, settings, silos)?, options.local_steps, sizes, options.private)?;
        let server = options.start(silos.len())?;
        let (family, expected) = (join.globals.family(), "point masses for FedOpt: FamilyPlan::point_masses");
        Error::unless(family.noise_len() == 0, "family", format_args!("{family:?}"), expected)?;
        Ok(Self { join, options, server })
    }

    /// The silos of the present round, in their order.
    fn asked(&self) -> Vec<usize> {
        let all = self.join.sizes.len();
        let size = self.options.silos_a_round.unwrap_or(all);
        subset((0..all).collect(), size, Noise::new(self.join.globals.settings.seed), self.join.round)
    }
}

impl Algorithm for FedOpt {
    fn objective(&self) -> Objective {
        Objective::LogJoint
    }

    fn outgoing(&mut self) -> Result<Vec<Request>> {
        let prior = if self.options.prior { 1.0 / self.join.total() } else { 0.0 };
        let shared = self.join.shared();
        let ask = |silo| {
            let weight = 1.0 / real(self.join.sizes[silo]);
            let proximal = self.options.proximal;
            self.join.ask(
                silo,
                LocalSteps {
                    kind: POINT_ROUND,
                    keep_optimiser: false,
                    weight,
                    entropy: weight,
                    prior,
                    proximal,
                    rates: None,
                },
                &shared,
            )
        };
        Ok(self.asked().into_iter().map(ask).collect())
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        self.incoming_in_turn(&mut outcomes.into_iter().map(Ok))
    }

    fn incoming_in_turn(&mut self, outcomes: &mut dyn Iterator<Item = Result<Outcome>>) -> Result<StepInfo> {
        let (step, asked) = (self.join.first_step(), self.asked());
        let names: Vec<String> = asked.iter().map(|&silo| self.join.globals.silos[silo].clone()).collect();
        let present: f64 = asked.iter().map(|&silo| real(self.join.sizes[silo])).sum();
        let weights: Vec<f64> = asked.iter().map(|&silo| real(self.join.sizes[silo]) / present).collect();
        let total = self.join.total();
        let (mut elbo, mut clipped_steps, mut members) = (0.0, 0, Vec::with_capacity(names.len()));
        let clipped_rows = self.join.each_answer(outcomes, &names, |mut answer| {
            elbo += weights[members.len()] * answer.elbo * total;
            clipped_steps = answer.clipped_steps.max(clipped_steps);
            answer.global.extend_from_slice(&answer.theta);
            members.push(answer.global);
            Ok(())
        })?;
        self.join.check_bound("the log joint density", elbo)?;
        let mut parameters = self.server.apply(self.join.globals.trainer.values(), &members, &weights);
        finite("the coordinator", step, |index| format!("number {index} of the point"), &parameters)?;
        let theta = parameters.split_off(self.join.globals.trainer.parameters().len());
        self.join.end_round(Joined { parameters, theta, elbo, clipped_steps, silos: names.len(), clipped_rows })
    }

    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        self.join.ask_bounds(draws, offset)
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples> {
        self.join.bounds(outcomes, draws, offset)
    }

    fn privacy(&self) -> Option<Privacy> {
        self.join.privacy()
    }

    fn manifest(&self) -> &Manifest {
        &self.join.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        self.join.globals.posterior()
    }

    fn save(&self) -> Message {
        let rule = prefixed(RULE, self.server.save());
        rule.fold(self.join.save(STATE), |state, (name, values)| state.floats(&name, &values))
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        let globals = &self.join.globals;
        same_run(state, STATE, &global_signature(&globals.table), globals.settings.seed)?;
        let own = with_prefix(&state.named_floats(), RULE);
        let numbers = globals.trainer.values().len();
        let is_ours = own.iter().all(|(_, values)| values.len() == numbers) && self.server.load(own);
        Error::well_formed(is_ours, &state.kind, "the state of its server rule is of another rule")?;
        self.join.load(state, STATE)
    }
}
