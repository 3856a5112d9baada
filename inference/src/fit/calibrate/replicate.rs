//! Fits one data set drawn from the prior, and finds the place of the truth in its posterior.

use partita_core::burn::module::ModuleDisplay;
use partita_core::{Device, Key, Model, Noise, Purpose, SiloNoise, Simulated, SimulatedData};
use serde::{Deserialize, Serialize};

use super::CalibrationOptions;
use crate::engine::algorithm::Ending;
use crate::engine::error::{Error, Result};
use crate::engine::family::real;
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::run::Counters;
use crate::engine::settings::Settings;
use crate::engine::trust::verdict::Verdict;
use crate::fit::{Fit, FitOptions, fit};

/// What became of one data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Outcome {
    Fitted {
        /// What its report says.
        verdict: Verdict,
        numbers: Vec<Number>,
    },
    Failed {
        reason: String,
    },
    /// The user interrupted; it is not kept.
    Interrupted,
}

/// The truth of one number among its posteriors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Number {
    pub(super) site: String,
    pub(super) label: String,
    pub(super) fitted: Place,
    /// In the posterior corrected by the round of trust, where there is one.
    pub(super) corrected: Option<Place>,
}

/// Where the truth lies in a posterior.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    /// How many of the draws are below it.
    pub(super) rank: u32,
    /// The probability of what is below it.
    pub(super) probability: f64,
}

/// Everything that data sets are drawn from and fitted with.
pub(super) struct Replicates<'a, M: Model> {
    model: &'a M,
    silos: &'a [(String, M::Data)],
    device: &'a Device,
    options: &'a CalibrationOptions,
}

impl<'a, M: Model + ModuleDisplay> Replicates<'a, M> {
    pub(super) fn new(
        model: &'a M,
        silos: &'a [(String, M::Data)],
        device: &'a Device,
        options: &'a CalibrationOptions,
    ) -> Self {
        Self { model, silos, device, options }
    }

    /// The same with model and data of its own, for another thread.
    pub(super) fn owned(&self) -> Owned<'a, M> {
        Owned { model: self.model.clone(), silos: self.silos.to_vec(), device: self.device, options: self.options }
    }

    /// A number that differs where models, data or seeds do, as far as the first data set shows.
    ///
    /// # Errors
    /// What forbids to draw from the model: the same for every data set.
    pub(super) fn fingerprint(&self) -> Result<String> {
        let mut hash = Fnv::default();
        let drawn = match caught(COORDINATOR, || self.owned().draw(0)) {
            Ok(drawn) => drawn,
            // This data set has latents for which the model has no density: others need not.
            Err(error) if error.is_outside() => {
                hash.add(error.to_string().as_bytes());
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        for (name, drawn) in drawn {
            hash.add(name.as_bytes());
            for (site, array) in drawn.globals().iter().chain(drawn.outcomes()) {
                hash.add(site.as_bytes());
                array.values.iter().for_each(|value| hash.add(&value.to_bits().to_le_bytes()));
            }
        }
        Ok(format!("{:016x}", hash.0))
    }
}

/// The hash of Fowler, Noll and Vo, the same in every version and on every machine.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }
}

/// [`Replicates`] that one thread has for itself.
pub(super) struct Owned<'a, M: Model> {
    model: M,
    silos: Vec<(String, M::Data)>,
    device: &'a Device,
    options: &'a CalibrationOptions,
}

type Drawn<M> = Vec<(String, SimulatedData<<M as Model>::Data>)>;

impl<M: Model + ModuleDisplay> Owned<'_, M> {
    fn noise(&self) -> Noise {
        Noise::new(self.options.seed)
    }

    /// The data set of this number, silo by silo.
    fn draw(&self, number: u32) -> Result<Drawn<M>> {
        let silo = |((name, data), silo): (&(String, M::Data), u32)| {
            let noise = SiloNoise { noise: self.noise(), draw: number, silo };
            let drawn = SimulatedData::draw(&self.model, self.device, data, noise);
            Ok((name.clone(), drawn.map_err(|error| Error::from(error).in_silo(name, 0))?))
        };
        self.silos.iter().zip(0..).map(silo).collect()
    }

    /// What becomes of the data set of this number, the bound of its fit, and what the fit took.
    pub(super) fn fit(&self, number: u32) -> (Outcome, f64, Counters) {
        let found = caught(COORDINATOR, || {
            let (fit, truth) = self.fitted(number)?;
            let is_over = fit.record.ending == Ending::Interrupted;
            let outcome = if is_over { Outcome::Interrupted } else { self.ranked(number, &fit, &truth) };
            Ok((outcome, fit.report.elbo, fit.record.counters))
        });
        found.unwrap_or_else(|error| (Outcome::Failed { reason: error.to_string() }, f64::NAN, Counters::default()))
    }

    /// The fit of the data set of this number, and the globals that it was drawn at.
    fn fitted(&self, number: u32) -> Result<(Fit, Vec<f64>)> {
        let silos = self.draw(number)?;
        let globals = silos.first().map(|(_, drawn)| drawn.globals()).unwrap_or_default();
        let truth = globals.iter().flat_map(|(_, array)| array.values.iter().copied()).collect();
        // Fits that share a seed share the draws of their posteriors: ranks would hang together.
        let seed = self.noise().stream(Key::new(Purpose::Check, u64::from(number))).word();
        let settings = Settings { seed, ..self.options.fit.settings.clone() };
        let summary_draws = self.options.fit.summary_draws.max(self.options.draws);
        let mut elbo_draws = self.options.fit.elbo_draws;
        if settings.estimator.weighs_draws() {
            elbo_draws = elbo_draws.max(self.options.draws as usize);
        }
        let options = FitOptions { settings, summary_draws, elbo_draws, ..self.options.fit.clone() };
        Ok((fit(&Simulated::new(self.model.clone()), &silos, self.device, &options, None)?, truth))
    }

    fn ranked(&self, number: u32, fit: &Fit, truth: &[f64]) -> Outcome {
        debug_assert_eq!(fit.draws.len(), truth.len(), "invariant: both are the globals of one model");
        let key = Key::new(Purpose::Report, u64::from(number));
        let places = fit.draws.iter().zip(truth).enumerate().map(|(index, ((site, label, draws), &truth))| {
            // Such as an element of a triangle that is always zero: it has no rank.
            if draws.iter().all(|draw| draw.total_cmp(&truth).is_eq()) {
                return None;
            }
            let below = |draws: &[f64]| draws.iter().filter(|draw| **draw < truth).count();
            let rank = below(&draws[..draws.len().min(self.options.draws as usize)]);
            let probability = real(below(draws)) / real(draws.len());
            let fitted = Place { rank: u32::try_from(rank).unwrap_or(u32::MAX), probability };
            // Of independent draws from a weighted sample as many are below as heads of a coin of this probability.
            let corrected = fit.wide.as_ref().and_then(|wide| wide.below(index, draws, truth)).map(|probability| {
                let mut stream = self.noise().stream(key.block(u32::try_from(index).unwrap_or(u32::MAX)));
                let heads = stream.binomial(f64::from(self.options.draws), probability);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "heads of that many coins")]
                let rank = heads as u32;
                Place { rank, probability }
            });
            Some(Number { site: site.clone(), label: label.clone(), fitted, corrected })
        });
        Outcome::Fitted { verdict: fit.report.verdict, numbers: places.flatten().collect() }
    }
}
