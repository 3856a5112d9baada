//! Gives SFVI-Avg's coordinator: many local steps a round, then one average of the global posteriors.

use partita_core::{AnyModel, Device, Model, Precision};
use serde::{Deserialize, Serialize};

use super::average::{Averaging, Barycentre, Members, WeightedMean};
use super::join::{Join, Joined, LocalSteps};
use super::messages::Round;
use crate::engine::algorithm::{Algorithm, ElboSamples, Ending, Posterior, StepInfo};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::{Family, real};
use crate::engine::plug::Plug;
use crate::engine::private_steps::PrivateSteps;
use crate::engine::report::Privacy;
use crate::engine::settings::Settings;
use crate::engine::symmetric::Eigen;
use crate::engine::terms::climbing::Steps;
use crate::engine::terms::coordinator::Coordinator;
use crate::engine::trainer::Coordinates;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// How SFVI-Avg takes its rounds, and how silos stand in for the whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundOptions {
    /// Local steps $m$ of each silo in a round; [`Settings::steps`] counts local steps over all rounds.
    pub local_steps: u64,
    /// How global posteriors become one: as they are, but in coordinates of the covariance at which the round began for full-rank
    /// ones of at most 64 numbers that began at a mode and whose units are too far apart.
    pub averaging: Plug<dyn Averaging>,
    /// Averages with weights $N_j/N$, by the observations of each silo, instead of equal ones.
    pub by_size: bool,
    /// Keeps the state of the silos' optimiser for the globals between rounds instead of starting afresh.
    pub keep_optimiser: bool,
    /// Multiplies the entropy of the local posterior by $N/N_j$ too. The paper multiplies the log density alone, which
    /// tempers the local posteriors: with many local latents they become too narrow and the method fails.
    pub scale_entropy: bool,
    /// Takes steps of plain SFVI after this many rounds: a warm start.
    pub most: Option<u64>,
    /// Local steps stay on each silo's device, of which one read a round is made ([`crate::DeviceAveragingSilo`]).
    #[serde(default)]
    pub on_device: bool,
    /// Lets the local steps of every silo know its rows by noised sums over clipped ones alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<PrivateSteps>,
}

impl RoundOptions {
    /// The paper's SFVI-Avg($m$) with Wasserstein barycentres and equal weights.
    #[must_use]
    pub fn paper(local_steps: u64) -> Self {
        let averaging = Barycentre.into();
        let [by_size, keep_optimiser, scale_entropy, on_device] = [false; 4];
        Self { local_steps, averaging, by_size, keep_optimiser, scale_entropy, most: None, on_device, private: None }
    }
}

/// Structured federated variational inference with averaging.
///
/// A round: the coordinator sends $(\theta, \eta_G)$; silo $j$ takes $m$ steps of variational inference on its own data
/// with $\log p(Z_{L_j}, y_j \mid Z_G)$ multiplied by $N/N_j$; the coordinator averages $\theta$ and the global
/// posteriors. Local posteriors stay in their silos. One round carries $m$ steps, at the price of a bias where silos
/// differ. With [`RoundOptions::most`] the run goes on as plain SFVI after some rounds.
///
/// # References
/// Hassan, Salomone and Mengersen (2023), Algorithm 2.
#[derive(Debug)]
pub struct SfviAvg {
    join: Join,
    options: RoundOptions,
}

/// The kind of a saved coordinator.
const STATE: &str = "avg.coordinator";

impl SfviAvg {
    /// The coordinator of a run over the silos of these names, with these numbers $N_j$ of observations: a silo
    /// multiplies its local density by $N/N_j$.
    ///
    /// # Errors
    /// As for [`crate::Sfvi::new`]; [`crate::Error::Setting`] for no local steps, for sizes that are not one positive
    /// number a silo, and for [`Estimator::LocallyEnhanced`] without [`RoundOptions::scale_entropy`].
    pub fn new<M: Model>(
        model: &M,
        device: &Device,
        settings: &Settings,
        silos: &[String],
        sizes: Vec<usize>,
        options: RoundOptions,
    ) -> Result<Self> {
        let model = &AnyModel::new(model);
        let mut globals = Coordinator::new(model, device, settings, silos)?;
        globals.adapt();
        let is_served = !options.on_device || options.private.is_none();
        let expected = "false: the sums over rows that are clipped and noised are computed on the host";
        Error::unless(is_served, "on_device", "true with private rounds", expected)?;
        let is_whole = options.scale_entropy || !matches!(settings.estimator, Estimator::LocallyEnhanced { .. });
        let expected = "true: each row's average holds its density and its entropy together, and is multiplied as one";
        Error::unless(is_whole, "scale_entropy", "false with LocallyEnhanced", expected)?;
        if let (Some(most), Some(_)) = (options.most, options.private) {
            let found = format!("{most} rounds and plain SFVI after them, in a private run");
            return Err(Error::Setting { setting: "most", found, expected: "None: steps of plain SFVI have no noise" });
        }
        if options.private.is_none() {
            // Slopes have no noise.
            globals.begin_climb(Steps::OfSilos);
        }
        let join = Join::new(globals, options.local_steps, sizes, options.private)?;
        Ok(Self { join, options })
    }

    /// Whether the rounds are over and plain SFVI has taken over.
    fn is_over(&self) -> bool {
        self.options.most.is_some_and(|most| self.join.round >= most)
    }

    /// What each silo counts in an average.
    fn weights(&self) -> Vec<f64> {
        let (equal, total) = (1.0 / real(self.join.sizes.len()), self.join.total());
        let weight = |size: &usize| if self.options.by_size { real(*size) / total } else { equal };
        self.join.sizes.iter().map(weight).collect()
    }

    /// Moves the globals to the average of what the present round has led to.
    fn average(&mut self, outcomes: &mut dyn Iterator<Item = Result<Outcome>>) -> Result<StepInfo> {
        let (weights, family) = (self.weights(), self.join.globals.family());
        let averaging = &*self.options.averaging;
        // Members whose units are too far apart for an average as they are have it in the coordinates in which they moved.
        let at = self.join.globals.trainer.parameters();
        let frame = Coordinates::of_covariance(family, at)
            .filter(|_| self.join.is_whitened && condition(family, at) > MOST_APART);
        let inside = |member| match &frame {
            Some(frame) => frame.inside(member),
            None => member,
        };
        let (mut elbo, mut clipped_steps, mut place) = (0.0, 0, 0);
        let (mut members, mut theta) = (Members::new(averaging, family), WeightedMean::default());
        let clipped_rows = self.join.each_answer(outcomes, &self.join.globals.silos, |answer| {
            let weight = weights[place];
            elbo += weight * answer.elbo;
            clipped_steps = answer.clipped_steps.max(clipped_steps);
            theta.add(&answer.theta, weight);
            place += 1;
            // Without global latents there is only θ to average.
            if family.is_empty() { Ok(()) } else { members.add(inside(answer.global), weight) }
        })?;
        self.join.check_bound("the bound", elbo)?;
        let parameters = match (family.is_empty(), &frame) {
            (true, _) => Vec::new(),
            (false, Some(frame)) => frame.outside(members.average()?),
            (false, None) => members.average()?,
        };
        self.join.end_round(Joined { parameters, theta: theta.sum, elbo, clipped_steps, silos: place, clipped_rows })
    }
}

/// The condition number of a covariance above which averages of such covariances lose digits.
const MOST_APART: f64 = 1e8;

/// The condition number of the covariance of a family's member.
fn condition(family: &dyn Family, parameters: &[f64]) -> f64 {
    let values = Eigen::of(&family.covariance_matrix(parameters).matrix()).map(|eigen| eigen.values);
    let ends = values.as_deref().and_then(|values| Some((*values.first()?, *values.last()?)));
    ends.map_or(f64::INFINITY, |(least, most)| if least > 0.0 { most / least } else { f64::INFINITY })
}

impl Algorithm for SfviAvg {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        if let Some(slopes) = self.join.globals.ask_slope() {
            return Ok(slopes);
        }
        if self.is_over() {
            return Ok(self.join.globals.ask_step());
        }
        let rates = self.join.globals.trainer.rates(self.join.local_steps);
        let shared = self.join.shared();
        let round = |(silo, size): (usize, &usize)| {
            let weight = self.join.total() / real(*size);
            let entropy = if self.options.scale_entropy { weight } else { 1.0 };
            let keep_optimiser = self.options.keep_optimiser;
            let (kind, prior, proximal) = (Round::KIND, 1.0, 0.0);
            let steps = LocalSteps { kind, keep_optimiser, weight, entropy, prior, proximal, rates };
            self.join.ask(silo, steps, &shared)
        };
        Ok(self.join.sizes.iter().enumerate().map(round).collect())
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        self.incoming_in_turn(&mut outcomes.into_iter().map(Ok))
    }

    fn incoming_in_turn(&mut self, outcomes: &mut dyn Iterator<Item = Result<Outcome>>) -> Result<StepInfo> {
        if self.join.globals.is_climbing() {
            let info = self.join.globals.take_slope(outcomes)?;
            // Devices have units alone.
            self.join.is_whitened = !self.options.on_device && self.join.globals.trainer.has_begun();
            return Ok(info);
        }
        if self.is_over() {
            return self.join.globals.take_step(outcomes);
        }
        match self.average(outcomes) {
            // An adaptive rate that began higher than the model bears undoes what it did.
            Err(error) if error.is_outside() && self.join.globals.trainer.undo() => self.join.end_undone(),
            found => found,
        }
    }

    fn ended(&self) -> Option<Ending> {
        self.join.globals.trainer.has_converged().then_some(Ending::Converged)
    }

    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        self.join.ask_bounds(draws, offset)
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples> {
        self.join.bounds(outcomes, draws, offset)
    }

    fn draws_a_bound(&self) -> usize {
        self.join.globals.draws_a_bound()
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

    fn compute_in(&mut self, precision: Precision) -> Result<bool> {
        self.join.globals.recast(precision).map(|()| true)
    }

    fn save(&self) -> Message {
        self.join.save(STATE)
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        self.join.load(state, STATE)
    }
}

#[cfg(test)]
mod tests {
    use partita_core::burn::module::Module;
    use partita_core::burn::tensor::Tensor;
    use partita_core::{Normal, Result as Declared, Scope};

    use super::*;
    use crate::engine::exchange::SiloProgram;
    use crate::engine::family::FamilyPlan;
    use crate::engine::optimiser::Schedule;
    use crate::engine::party::Program;
    use crate::engine::settings::StartFrom;
    use crate::engine::terms::Silo;
    use crate::methods::rounds::silo::AveragingSilo;

    /// Rows with a latent each around a common mean.
    #[derive(Module, Debug)]
    struct Effects {}

    impl Model for Effects {
        type Globals = Tensor<1>;
        type Data = Tensor<1>;

        fn global(&self, scope: &mut Scope<'_>) -> Declared<Tensor<1>> {
            scope.sample("mean", Normal::new(0.0, 1.0))
        }

        fn local(&self, scope: &mut Scope<'_>, mean: &Tensor<1>, y: &Tensor<1>) -> Declared<()> {
            scope.plate("row", y.dims()[0], |scope, rows| {
                let effect = scope.sample("effect", Normal::new(mean.clone(), 0.7))?;
                scope.observe("y", Normal::new(effect, 1.0), rows.take(y)?)
            })
        }
    }

    /// Steps that each rule of a silo has seen.
    fn times(silo: &AveragingSilo) -> Vec<f64> {
        let state = Program::save(silo).unwrap();
        state.iter().filter(|(name, _)| name.ends_with(".time")).map(|(_, values)| values[0]).collect()
    }

    #[test]
    fn a_round_that_is_not_finite_is_undone_at_a_lower_rate_and_all_rules_forget_it() {
        let (device, names) = (Device::flex(), ["a", "b"].map(str::to_owned));
        let settings = Settings { steps: 1_000, schedule: Schedule::adaptive(), ..Settings::default() };
        let options = RoundOptions { keep_optimiser: true, ..RoundOptions::paper(5) };
        let mut method = SfviAvg::new(&Effects {}, &device, &settings, &names, vec![3, 3], options).unwrap();
        let data = device.tensor(vec![0.3, -1.0, 2.0], [3]);
        let silo = |(name, index): (&String, u32)| {
            AveragingSilo::new(Silo::new(name, index, &Effects {}, &data, &device, &settings).unwrap(), index)
        };
        let mut silos: Vec<AveragingSilo> = names.iter().zip(0..).map(silo).collect();
        let start = method.posterior().parameters.to_vec();
        // The first round fails, of which nothing but local steps was taken; the others do not.
        for (round, expected) in [(0.05, None), (0.0125, Some(1)), (0.0125, None)].into_iter().enumerate() {
            let requests = method.outgoing().unwrap();
            let asked = Round::read(&requests[0].message, &silos[0].sizes()).unwrap();
            let (rate, undone) = expected;
            assert!((asked.rates.unwrap()[0] - rate).abs() < 1e-15 && asked.undone == undone, "{round}");
            let answers = silos.iter_mut().zip(&requests);
            let answers = answers.map(|(silo, request)| Outcome::Reply(silo.answer(&request.message).unwrap()));
            let mut outcomes: Vec<Outcome> = answers.collect();
            if round == 0 {
                let (who, quantity) = ("b".to_owned(), "the gradient".to_owned());
                outcomes[1] = Outcome::Failed(Error::NotFinite { who, step: 3, quantity, found: f64::NAN });
            }
            let info = method.incoming(outcomes).unwrap();
            assert_eq!((info.step, info.elbo.is_nan()), (5 * (round as u64 + 1), round == 0));
            assert_eq!(method.posterior().parameters == start, round == 0);
            let seen = [5.0, 5.0, 10.0][round];
            assert!(times(&silos[0]).len() > 1 && times(&silos[0]).iter().all(|time| (time - seen).abs() < 0.5));
        }
    }

    /// Rows around the sum of two numbers.
    #[derive(Module, Debug)]
    struct Sum {}

    impl Model for Sum {
        type Globals = [Tensor<1>; 2];
        type Data = Tensor<1>;

        fn global(&self, scope: &mut Scope<'_>) -> Declared<[Tensor<1>; 2]> {
            let one = scope.sample("one", Normal::new(0.0, 1.0))?;
            Ok([one, scope.sample("other", Normal::new(0.0, 1.0))?])
        }

        fn local(&self, scope: &mut Scope<'_>, [one, other]: &[Tensor<1>; 2], y: &Tensor<1>) -> Declared<()> {
            scope.plate("row", y.dims()[0], |scope, rows| {
                scope.observe("y", Normal::new(one.clone() + other.clone(), 1.0).over(rows), rows.take(y)?)
            })
        }
    }

    #[test]
    fn rounds_after_a_start_at_a_mode_are_the_same_after_a_checkpoint_between_any_two() {
        let (device, names) = (Device::flex(), ["a", "b"].map(str::to_owned));
        let family = FamilyPlan::new().full_rank_globals();
        let settings = Settings { steps: 1_000, start: StartFrom::Mode, family, ..Settings::default() };
        let method = || SfviAvg::new(&Sum {}, &device, &settings, &names, vec![3, 3], RoundOptions::paper(5)).unwrap();
        let data = [vec![0.3, -1.0, 2.0], vec![1.3, 0.2, 0.9]].map(|own| device.tensor(own, [3]));
        let run = |is_cut: bool| {
            let silo = |((name, index), data): ((&String, u32), &Tensor<1>)| {
                AveragingSilo::new(Silo::new(name, index, &Sum {}, data, &device, &settings).unwrap(), index)
            };
            let mut silos: Vec<AveragingSilo> = names.iter().zip(0..).zip(&data).map(silo).collect();
            let (mut own, mut rounds) = (method(), 0);
            while rounds < 3 {
                if is_cut && !own.join.globals.is_climbing() {
                    let saved = own.save();
                    own = method();
                    own.load(&saved).unwrap();
                }
                let requests = own.outgoing().unwrap();
                if requests[0].message.kind == Round::KIND {
                    let asked = Round::read(&requests[0].message, &silos[0].sizes()).unwrap();
                    assert_eq!(asked.whitened, Some(1));
                    rounds += 1;
                }
                let answers = silos.iter_mut().zip(&requests);
                let answers = answers.map(|(silo, request)| Outcome::Reply(silo.answer(&request.message).unwrap()));
                own.incoming(answers.collect()).unwrap();
            }
            own.posterior().parameters.to_vec()
        };
        assert_eq!(run(false), run(true));
    }
}
