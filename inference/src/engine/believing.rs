//! Keeps what the coordinator of a private method has: its belief of the globals, and where its run stands.

use partita_core::{AnyModel, Device, SiteTable};

use crate::engine::algorithm::{ElboSamples, Posterior, same_run};
use crate::engine::belief::{Belief, Heard, LastStep};
use crate::engine::clipped::{ClippedCount, CountedSums};
use crate::engine::error::{Error, Result};
use crate::engine::family::FullRankGaussian;
use crate::engine::report::Privacy;
use crate::engine::start_width::StartWidth;
use crate::engine::terms::silo::global_signature;
use crate::engine::whitened::Draws;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// The rounds of a private run unless options say otherwise: enough to come from a prior to a posterior a thousand times as
/// narrow. More rounds have more noise each, and as much together.
pub(crate) const ROUNDS: u64 = 24;

/// The coordinator's side of a run whose silos answer with noised sums alone.
#[derive(Debug)]
pub(crate) struct Believing {
    pub(crate) model: AnyModel,
    pub(crate) device: Device,
    pub(crate) table: SiteTable,
    pub(crate) silos: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) draws: Draws,
    pub(crate) belief: Belief,
    pub(crate) parameters: Vec<f64>,
    pub(crate) step: u64,
    /// Of the last third of the sums, where what is believed is near the answer.
    pub(crate) clipped: ClippedCount,
    pub(crate) manifest: Manifest,
    rows: usize,
    family: FullRankGaussian,
}

/// What a method makes of the globals of a model.
pub(crate) struct Beginning<'a> {
    pub(crate) mean: Vec<f64>,
    /// How wide the globals begin.
    pub(crate) width: StartWidth<'a>,
    pub(crate) draws: Draws,
    pub(crate) manifest: Manifest,
}

impl Believing {
    /// A run over silos that have so many rows each.
    pub(crate) fn new(
        (model, device, table): (&AnyModel, &Device, SiteTable),
        (silos, rows): (&[String], &[usize]),
        seed: u64,
        Beginning { mean, width, draws, manifest }: Beginning<'_>,
    ) -> Result<Self> {
        let rows = rows.iter().sum();
        let start = width.covariance((model, device, &table), &mean)?;
        let belief = Belief::new(mean, &start, rows);
        Ok(Self {
            model: model.clone(),
            device: device.clone(),
            silos: silos.to_vec(),
            seed,
            draws,
            parameters: belief.whole()?.parameters(),
            belief,
            family: FullRankGaussian::new(table.global_len()),
            table,
            step: 0,
            clipped: ClippedCount::default(),
            manifest,
            rows,
        })
    }

    /// All rows, at least one.
    pub(crate) fn rows(&self) -> f64 {
        self.rows.max(1) as f64
    }

    /// So many times the root mean square over rows of the norm of a row's gradient, where the posterior is right.
    pub(crate) fn clip(&self, times: f64) -> Result<f64> {
        Ok(times * (self.table.global_len() as f64 / self.rows()).sqrt() * self.belief.stretch()?)
    }

    /// How many times the variance of a promise's noise is in a sum over all silos, of which so many have it together.
    pub(crate) fn noises(&self, shares: u64) -> f64 {
        self.silos.len() as f64 / shares as f64
    }

    /// Refuses shares of the noise of more silos than there are.
    pub(crate) fn check_shares(&self, shares: u64) -> Result<()> {
        let silos = self.silos.len();
        let found = format_args!("{shares} of {silos} silos");
        Error::unless(shares <= silos as u64, "shares", found, "at most as many as there are silos")
    }

    /// Moves what is believed.
    pub(crate) fn hear(&mut self, heard: &Heard) -> Result<()> {
        self.belief.hear(heard)?;
        self.parameters = self.belief.whole()?.parameters();
        Ok(())
    }

    /// No bound: it is a sum without noise.
    pub(crate) fn no_bounds(draws: usize) -> ElboSamples {
        ElboSamples { elbos: vec![f64::NAN; draws], ..ElboSamples::default() }
    }

    /// What was promised, what the noise did, and how many rows were clipped in sums with noise of this scale, of which so
    /// many silos have it together, over samples at this rate.
    pub(crate) fn privacy(&self, epsilon: f64, delta: f64, (noise, shares, rate): (f64, u64, f64)) -> Privacy {
        let LastStep { moved: last_step, of_noise: last_step_of_noise } = self.belief.last_step();
        let promised = Privacy::promised(epsilon, delta, self.step, noise);
        let sums = CountedSums { silos: self.noises(shares), a_round: 1.0, noise, rate };
        let clipped = self.clipped.share(sums, self.rows());
        // Whoever works with all but those that have it together reads less noise than is promised.
        let colluders = (shares > 1).then(|| (self.silos.len() as u64).saturating_sub(shares));
        Privacy { widened: self.belief.widened(), last_step, last_step_of_noise, clipped, colluders, ..promised }
    }

    pub(crate) fn posterior(&self) -> Posterior<'_> {
        Posterior { family: &self.family, parameters: &self.parameters, theta: &[] }
    }

    /// As for [`crate::Algorithm::save`], as a message of this kind.
    pub(crate) fn save(&self, kind: &str) -> Message {
        let state = Message::new(kind)
            .word("step", self.step)
            .word("seed", self.seed)
            .setting("globals", &global_signature(&self.table))
            .floats("belief", &self.belief.flat());
        self.clipped.write(state, "clipped")
    }

    /// As for [`crate::Algorithm::load`].
    pub(crate) fn load(&mut self, state: &Message, kind: &str) -> Result<()> {
        same_run(state, kind, &global_signature(&self.table), self.seed)?;
        let wrong = || Error::Message { kind: state.kind.clone(), problem: "`belief` is none of this model".into() };
        let belief = Belief::of_flat(&state.get_floats("belief")?, self.table.global_len()).ok_or_else(wrong)?;
        let clipped = ClippedCount::read(state, "clipped")?;
        let (step, parameters) = (state.get_count("step", LARGEST_COUNT)?, belief.whole()?.parameters());
        (self.step, self.parameters, self.belief) = (step, parameters, belief);
        self.clipped = clipped;
        Ok(())
    }
}
