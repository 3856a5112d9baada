//! Gives SFVI-Avg's coordinator: many local steps a round, then one average of the global posteriors.

use partita_core::{Device, Model};

use crate::engine::algorithm::{Algorithm, Assessed, Posterior, StepInfo, Tally, finite, replies};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::settings::Settings;
use crate::engine::terms::silo::describe_global;
use crate::engine::wire::manifest::{Field, Manifest};
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::methods::rounds::average::Averaging;
use crate::methods::sfvi::Sfvi;

/// How SFVI-Avg averages and how silos stand in for the whole.
#[derive(Debug)]
pub struct Rounds {
    /// Local steps $m$ of each silo in a round; [`Settings::steps`] counts local steps over all rounds.
    pub local_steps: u64,
    /// How global posteriors become one.
    pub averaging: Box<dyn Averaging>,
    /// Observations $N_j$ of each silo: a silo multiplies its local density by $N/N_j$.
    pub sizes: Vec<usize>,
    /// Averages with weights $N_j/N$ instead of equal ones.
    pub by_size: bool,
    /// Keeps the state of the silos' optimiser for the globals between rounds instead of starting afresh.
    pub keep_optimiser: bool,
    /// Takes steps of plain SFVI after this many rounds: a warm start.
    pub most: Option<u64>,
    /// Multiplies the entropy of the local posterior by $N/N_j$ too. The paper multiplies the log density alone, which
    /// tempers the local posteriors: with many local latents they become too narrow and the method fails.
    pub scale_entropy: bool,
}

/// Structured federated variational inference with averaging.
///
/// A round: the coordinator sends $(\theta, \eta_G)$; silo $j$ takes $m$ steps of variational inference on its own data
/// with $\log p(Z_{L_j}, y_j \mid Z_G)$ multiplied by $N/N_j$; the coordinator averages $\theta$ and the global posteriors.
/// Local posteriors stay in their silos. One round carries $m$ steps, at the price of a bias where silos differ. With
/// [`Rounds::most`] the run goes on as plain SFVI after some rounds.
///
/// # References
/// Hassan, Salomone and Mengersen (2023), Algorithm 2.
#[derive(Debug)]
pub struct SfviAvg<M: Model> {
    inner: Sfvi<M>,
    rounds: Rounds,
    round: u64,
    manifest: Manifest,
}

impl<M: Model> SfviAvg<M> {
    /// The coordinator of a run over the silos of these names.
    ///
    /// # Errors
    /// As for [`Sfvi::new`]; [`Error::Setting`] for no local steps, or sizes that are not one positive number a silo.
    pub fn new(model: &M, device: &Device, settings: &Settings, silos: &[String], rounds: Rounds) -> Result<Self> {
        check_rounds(rounds.local_steps, &rounds.sizes, silos)?;
        let inner = Sfvi::new(model, device, settings, silos)?;
        let manifest = round_manifest(&inner);
        Ok(Self { inner, rounds, round: 0, manifest })
    }

    /// Whether the rounds are over and plain SFVI has taken over.
    fn is_over(&self) -> bool {
        self.rounds.most.is_some_and(|most| self.round >= most)
    }

    fn total(&self) -> f64 {
        as_float(self.rounds.sizes.iter().sum())
    }
}

/// Refuses rounds without steps, and sizes that are not one positive number a silo.
pub(crate) fn check_rounds(local_steps: u64, sizes: &[usize], silos: &[String]) -> Result<()> {
    if local_steps == 0 {
        return Err(Error::Setting { setting: "local_steps", found: "0".into(), expected: "at least 1" });
    }
    if sizes.len() != silos.len() || sizes.contains(&0) {
        let found = format!("{sizes:?} for {} silos", silos.len());
        return Err(Error::Setting { setting: "sizes", found, expected: "one number of observations >= 1 a silo" });
    }
    Ok(())
}

/// What rounds of local steps let leave a silo, besides what SFVI does for reports.
pub(crate) fn round_manifest<M: Model>(inner: &Sfvi<M>) -> Manifest {
    let mut manifest = inner.manifest().clone();
    let field = |name, meaning, limit, depends_on_data| Field { name, meaning, limit, depends_on_data };
    manifest.fields.extend([
        field("round", "the round answered", 1, false),
        field("global", "the silo's global posterior's parameters", inner.posterior().parameters.len(), true),
        field("theta", "the silo's trained parameters", inner.posterior().theta.len(), true),
        field("clipped", "the local steps whose gradient was clipped", 1, true),
    ]);
    manifest
}

/// One silo's answer to a round, checked.
pub(crate) struct RoundAnswer {
    /// The parameters of its global posterior.
    pub(crate) parameters: Vec<f64>,
    pub(crate) theta: Vec<f64>,
    pub(crate) elbo: f64,
    pub(crate) clipped: bool,
}

impl RoundAnswer {
    /// Reads what `silo` says of `round`, which began at `step`.
    pub(crate) fn read<M: Model>(
        reply: &Message,
        inner: &Sfvi<M>,
        silo: &str,
        (round, step): (u64, u64),
    ) -> Result<Self> {
        let found = reply.get_count("round", LARGEST_COUNT)?;
        if found != round {
            let problem = format!("silo `{silo}` answered round {found}, asked was round {round}");
            return Err(Error::Message { kind: reply.kind.clone(), problem });
        }
        let parameters = reply.expect_floats("global", inner.parameters.len())?;
        finite(silo, step, |index| describe_global(&inner.table, index % inner.family.len().max(1)), &parameters)?;
        let shared = inner.theta.len();
        let theta = if shared > 0 { reply.expect_floats("theta", shared)? } else { Vec::new() };
        finite(silo, step, |index| format!("θ[{index}]"), &theta)?;
        let (elbo, clipped) = (reply.expect_floats("elbo", 1)?[0], reply.get_word("clipped")? > 0);
        Ok(Self { parameters, theta, elbo, clipped })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of observations are far below 2^52")]
pub(crate) fn as_float(count: usize) -> f64 {
    count as f64
}

impl<M: Model> Algorithm for SfviAvg<M> {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        if self.is_over() {
            return self.inner.outgoing();
        }
        let base = self.inner.request("avg.round", self.round * self.rounds.local_steps);
        let base = base.word("round", self.round).word("local_steps", self.rounds.local_steps);
        let word = |yes: bool| if yes { "yes" } else { "no" };
        let base = base
            .setting("keep_optimiser", word(self.rounds.keep_optimiser))
            .setting("scale_entropy", word(self.rounds.scale_entropy));
        let with_scale = |(silo, size): (usize, &usize)| Request {
            silo,
            message: base.clone().number("scale", self.total() / as_float(*size)),
        };
        Ok(self.rounds.sizes.iter().enumerate().map(with_scale).collect())
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        if self.is_over() {
            return self.inner.incoming(outcomes);
        }
        let step = self.round * self.rounds.local_steps;
        let replies = replies(outcomes, &self.inner.silos, step)?;
        let (mut members, mut thetas, mut bounds, mut clipped) = (Vec::new(), Vec::new(), Vec::new(), false);
        for (reply, silo) in replies.iter().zip(&self.inner.silos) {
            let answer = RoundAnswer::read(reply, &self.inner, silo, (self.round, step))?;
            members.push(answer.parameters);
            thetas.push(answer.theta);
            bounds.push(answer.elbo);
            clipped |= answer.clipped;
        }
        let equal = 1.0 / as_float(members.len());
        let weight = |size: &usize| if self.rounds.by_size { as_float(*size) / self.total() } else { equal };
        let weights: Vec<f64> = self.rounds.sizes.iter().map(weight).collect();
        let elbo: f64 = bounds.iter().zip(&weights).map(|(bound, weight)| weight * bound).sum();
        finite("the coordinator", step, |_| "the bound".into(), &[elbo])?;
        let before = self.inner.parameters.clone();
        // Without global latents there is only θ to average.
        if !self.inner.family.is_empty() {
            self.inner.parameters = self.rounds.averaging.average(&*self.inner.family, &members, &weights)?;
        }
        let theta =
            crate::methods::rounds::average::weighted(thetas.iter().map(Vec::as_slice), &vec![equal; thetas.len()]);
        self.inner.set_theta(theta)?;
        self.round += 1;
        self.inner.step = self.round * self.rounds.local_steps;
        let moved: f64 = self.inner.parameters.iter().zip(&before).map(|(a, b)| (a - b) * (a - b)).sum();
        let rate = self.inner.settings.schedule.rate(self.inner.step, self.inner.settings.steps);
        let tally = Tally::steps(self.rounds.local_steps, self.inner.silos.len());
        Ok(StepInfo { step: self.inner.step, elbo, gradient_norm: moved.sqrt(), clipped, rate, tally })
    }

    fn assessing(&self, draws: usize, offset: u64) -> Vec<Request> {
        self.inner.assessing(draws, offset)
    }

    fn assessed(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<Assessed> {
        self.inner.assessed(outcomes, draws, offset)
    }

    fn draws_a_bound(&self) -> usize {
        self.inner.draws_a_bound()
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        self.inner.posterior()
    }

    fn save(&self) -> Message {
        self.inner.save().word("round", self.round)
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        self.round = state.get_count("round", LARGEST_COUNT)?;
        self.inner.load(state)
    }
}
