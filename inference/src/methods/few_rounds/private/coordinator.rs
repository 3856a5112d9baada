//! Gives the coordinator's side of private rounds: as many sums as were promised, filtered into a posterior with its noise.

use partita_core::{Device, LogDensity, Model, SiteTable, theta};

use super::super::coordinator::{check, prior_share};
use super::super::messages::Sizes;
use super::super::step::Share;
use super::messages::{PrivateAnswer, PrivateRequest};
use super::options::PrivateRoundsOptions;
use super::quadratics::Quadratics;
use super::silo::begin;
use crate::engine::algorithm::{Algorithm, ElboSamples, Ending, Posterior, StepInfo, Tally, finite, replies, same_run};
use crate::engine::belief::{Belief, Heard};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::FullRankGaussian;
use crate::engine::natural::triangle::unpack;
use crate::engine::report::Privacy;
use crate::engine::settings::Settings;
use crate::engine::terms::silo::global_signature;
use crate::engine::whitened::Draws;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// The kind of a saved coordinator.
const STATE: &str = "private.coordinator";

/// Few rounds in which silos answer with noised sums over clipped rows, and nothing else.
///
/// Row $i$ contributes the gradient and the curvature of its log marginal likelihood over the draws of what is believed
/// of the globals, in the coordinates in which that is standard normal, clipped together. The clip needs no look at
/// data: where the posterior is right, squares of the rows' gradients sum to the number of globals. The number of rounds
/// is fixed. A filter takes each noised sum as far as its known noise lets it, and the posterior at the end has the noise
/// in it.
///
/// No bound, importance weight, step taken back by data, or start from the silos' own posteriors: all of these would
/// need sums without noise.
#[derive(Debug)]
pub struct PrivateRounds<M: Model> {
    model: M,
    device: Device,
    settings: Settings,
    options: PrivateRoundsOptions,
    table: SiteTable,
    silos: Vec<String>,
    rows: usize,
    draws: Draws,
    family: FullRankGaussian,
    belief: Belief,
    parameters: Vec<f64>,
    step: u64,
    manifest: Manifest,
}

impl<M: Model> PrivateRounds<M> {
    /// The coordinator of a run over the silos of these names, which have so many rows each.
    ///
    /// # Errors
    /// [`Error::Setting`] for a model or options that the method does not take, [`Error::NoSilos`], or what the model's
    /// global function refuses.
    pub fn new(
        model: &M,
        device: &Device,
        settings: &Settings,
        silos: &[String],
        rows: &[usize],
        options: &PrivateRoundsOptions,
    ) -> Result<Self> {
        settings.check()?;
        options.check()?;
        if silos.is_empty() {
            return Err(Error::NoSilos);
        }
        let table = SiteTable::globals(model, device)?;
        check(settings, &table, &theta(model)?)?;
        let (len, rows) = (table.global_len(), rows.iter().sum());
        let belief = Belief::new(begin(settings, &table), options.start, rows);
        Ok(Self {
            model: model.clone(),
            device: device.clone(),
            settings: settings.clone(),
            options: options.clone(),
            silos: silos.to_vec(),
            rows,
            draws: Draws::new(settings.seed, len, Quadratics::draws(len))?,
            family: FullRankGaussian::new(len),
            parameters: belief.whole()?.parameters(),
            belief,
            table,
            step: 0,
            manifest: Manifest { fields: PrivateAnswer::fields(&Sizes::of(len)) },
        })
    }

    /// The request of this round.
    #[expect(clippy::cast_precision_loss, reason = "rows are far fewer than 2^52")]
    fn request(&self) -> Result<PrivateRequest> {
        let (rows, len, stretch) = (self.rows.max(1) as f64, self.table.global_len() as f64, self.belief.stretch()?);
        Ok(PrivateRequest {
            step: self.step,
            seed: self.settings.seed,
            global: self.belief.whole()?.parameters(),
            clip: self.options.clip * (len / rows).sqrt() * stretch,
            curvature: self.options.curvature * rows.sqrt() / stretch,
            noise: self.options.noise,
        })
    }
}

impl<M: Model> Algorithm for PrivateRounds<M> {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        Ok(Request::to_all(self.silos.len(), &self.request()?.write()))
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let (len, request) = (self.table.global_len(), self.request()?);
        let sizes = Sizes::of(len);
        let at = self.belief.whole()?;
        let density = LogDensity::new(&self.model, &self.device, &self.table);
        let mut total = prior_share(&density, &self.draws, &at)?;
        for (reply, silo) in replies(outcomes, &self.silos, self.step)?.iter().zip(&self.silos) {
            let PrivateAnswer { gradient, curvature } = PrivateAnswer::read(reply, &sizes)?;
            finite(silo, self.step, |_| "its noised sum".into(), &[gradient.as_slice(), &curvature].concat())?;
            total = total.plus(&Share { value: 0.0, gradient, curvature });
        }
        #[expect(clippy::cast_precision_loss, reason = "silos are few")]
        let noise = request.noise * request.clip * (self.silos.len() as f64).sqrt();
        self.belief.hear(&Heard {
            curvature: unpack(len, &total.curvature, 1.0, 1.0),
            gradient: total.gradient,
            gradient_noise: noise,
            curvature_noise: noise / request.curvature,
        })?;
        self.parameters = self.belief.whole()?.parameters();
        self.step += 1;
        Ok(StepInfo::still(self.step, Tally::steps(1, self.silos.len())))
    }

    fn ended(&self) -> Option<Ending> {
        (self.step >= self.options.rounds).then_some(Ending::Converged)
    }

    /// None: a bound is a sum without noise.
    fn elbo_requests(&self, _: usize, _: u64) -> Vec<Request> {
        Vec::new()
    }

    fn elbo_samples(&self, _: Vec<Outcome>, draws: usize, _: u64) -> Result<ElboSamples> {
        Ok(ElboSamples { elbos: vec![f64::NAN; draws], ..ElboSamples::default() })
    }

    fn trust_draws(&self) -> usize {
        0
    }

    fn privacy(&self) -> Option<Privacy> {
        let PrivateRoundsOptions { epsilon, delta, noise, .. } = self.options;
        let unit = "an outermost plate".to_owned();
        Some(Privacy { epsilon, delta, unit, releases: self.step, noise, widened: self.belief.widened() })
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        Posterior { family: &self.family, parameters: &self.parameters, theta: &[] }
    }

    fn save(&self) -> Message {
        Message::new(STATE)
            .word("step", self.step)
            .word("seed", self.settings.seed)
            .setting("globals", &global_signature(&self.table))
            .floats("belief", &self.belief.flat())
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        same_run(state, STATE, &global_signature(&self.table), self.settings.seed)?;
        let wrong = || Error::Message { kind: state.kind.clone(), problem: "`belief` is none of this model".into() };
        let belief = Belief::of_flat(&state.get_floats("belief")?, self.table.global_len()).ok_or_else(wrong)?;
        let (step, parameters) = (state.get_count("step", LARGEST_COUNT)?, belief.whole()?.parameters());
        (self.step, self.parameters, self.belief) = (step, parameters, belief);
        Ok(())
    }
}
