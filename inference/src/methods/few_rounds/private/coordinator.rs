//! Gives the coordinator's side of private rounds: as many sums as were promised, filtered into a posterior with its noise.

use partita_core::{AnyModel, Device, LogDensity, Model, SiteTable, theta};

use super::super::coordinator::{check, prior_share};
use super::super::messages::Sizes;
use super::super::step::Share;
use super::messages::{PrivateAnswer, PrivateRequest};
use super::options::PrivateRoundsOptions;
use super::quadratics::Quadratics;
use super::silo::begin;
use crate::engine::algorithm::{Algorithm, ElboSamples, Ending, Posterior, StepInfo, Tally, finite, replies};
use crate::engine::belief::Heard;
use crate::engine::believing::{Beginning, Believing};
use crate::engine::clipped::{counted, whole};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::natural::triangle::unpack;
use crate::engine::report::Privacy;
use crate::engine::settings::Settings;
use crate::engine::start_width::StartWidth;
use crate::engine::whitened::Draws;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

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
pub struct PrivateRounds {
    run: Believing,
    options: PrivateRoundsOptions,
}

impl PrivateRounds {
    /// The coordinator of a run over the silos of these names, which have so many rows each.
    ///
    /// # Errors
    /// [`Error::Setting`] for a model or options that the method does not take, [`Error::NoSilos`], or what the model's
    /// global function refuses.
    pub fn new<M: Model>(
        model: &M,
        device: &Device,
        settings: &Settings,
        silos: &[String],
        rows: &[usize],
        options: &PrivateRoundsOptions,
    ) -> Result<Self> {
        let model = &AnyModel::new(model);
        settings.check()?;
        options.check()?;
        if silos.is_empty() {
            return Err(Error::NoSilos);
        }
        let table = SiteTable::globals(model, device)?;
        check(settings, &table, &theta(model)?)?;
        let len = table.global_len();
        let beginning = Beginning {
            mean: begin(settings, &table),
            width: StartWidth { most: options.start, middles: &options.middles },
            draws: Draws::new(settings.seed, len, Quadratics::draws(len))?,
            manifest: Manifest { fields: PrivateAnswer::fields(&Sizes::of(len, 0)) },
        };
        let run = Believing::new((model, device, table), (silos, rows), settings.seed, beginning)?;
        run.check_shares(options.shares)?;
        Ok(Self { run, options: options.clone() })
    }

    /// The request of this round.
    fn request(&self) -> Result<PrivateRequest> {
        let Self { run, options, .. } = self;
        Ok(PrivateRequest {
            step: run.step,
            seed: run.seed,
            global: run.belief.whole()?.parameters(),
            clip: run.clip(options.times(run.table.global_len(), run.rows(), run.silos.len()))?,
            curvature: options.curvature * run.rows().sqrt() / run.belief.stretch()?,
            noise: options.noise,
        })
    }
}

impl Algorithm for PrivateRounds {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        Ok(Request::to_all(self.run.silos.len(), &self.request()?.write()))
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let request = self.request()?;
        let run = &mut self.run;
        let len = run.table.global_len();
        let (sizes, at) = (Sizes::of(len, 0), run.belief.whole()?);
        let density = LogDensity::new(&run.model, &run.device, &run.table);
        let mut total = prior_share(&density, &run.draws, &at)?;
        let mut marks = 0.0;
        for (reply, silo) in replies(outcomes, &run.silos, run.step)?.iter().zip(&run.silos) {
            let PrivateAnswer { gradient, curvature, clipped } = PrivateAnswer::read(reply, &sizes)?;
            finite(
                silo,
                run.step,
                |_| "its noised sum".into(),
                &[gradient.as_slice(), &curvature, &[clipped]].concat(),
            )?;
            marks += clipped;
            total = total.plus(&Share { value: 0.0, gradient, curvature, even: None });
        }
        let noise = request.noise * request.clip * whole() * run.noises(self.options.shares).sqrt();
        run.hear(&Heard {
            curvature: unpack(len, &total.curvature, 1.0, 1.0),
            gradient: total.gradient,
            gradient_noise: noise,
            curvature_noise: noise / request.curvature,
        })?;
        if 3 * run.step >= 2 * self.options.rounds {
            run.clipped.add(counted(marks, request.clip, 1.0), 1.0);
        }
        run.step += 1;
        Ok(StepInfo::still(run.step, Tally::steps(1, run.silos.len())))
    }

    fn ended(&self) -> Option<Ending> {
        (self.run.step >= self.options.rounds).then_some(Ending::Converged)
    }

    /// None: a bound is a sum without noise.
    fn elbo_requests(&self, _: usize, _: u64) -> Vec<Request> {
        Vec::new()
    }

    fn elbo_samples(&self, _: Vec<Outcome>, draws: usize, _: u64) -> Result<ElboSamples> {
        Ok(Believing::no_bounds(draws))
    }

    fn trust_draws(&self) -> usize {
        0
    }

    fn privacy(&self) -> Option<Privacy> {
        let PrivateRoundsOptions { epsilon, delta, noise, shares, ref unit, .. } = self.options;
        let unit = if unit == PrivateRoundsOptions::UNIT { Privacy::ROW } else { unit };
        Some(Privacy { unit: unit.to_owned(), ..self.run.privacy(epsilon, delta, (noise, shares, 1.0)) })
    }

    fn manifest(&self) -> &Manifest {
        &self.run.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        self.run.posterior()
    }

    fn save(&self) -> Message {
        self.run.save(STATE)
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        self.run.load(state, STATE)
    }
}
