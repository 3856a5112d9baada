//! Gives the coordinator's side of private SFVI: sums at draws of the globals, filtered into a posterior with its noise.

use faer::Mat;
use partita_core::{AnyModel, Device, LogDensity, Model, SiteTable, theta};

use super::messages::{Sizes, StepAnswer, StepRequest};
use super::options::PrivateSfviOptions;
use crate::engine::algorithm::{Algorithm, ElboSamples, Ending, Posterior, StepInfo, Tally, finite, replies};
use crate::engine::belief::Heard;
use crate::engine::believing::{Beginning, Believing};
use crate::engine::clipped::{counted, whole};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::FullRankGaussian;
use crate::engine::normal::Normal;
use crate::engine::report::Privacy;
use crate::engine::settings::Settings;
use crate::engine::start_width::{Middles, StartWidth};
use crate::engine::whitened::Draws;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// The kind of a saved coordinator.
const STATE: &str = "private_sfvi.coordinator";

/// SFVI in which silos answer with noised sums over clipped rows, and nothing else.
///
/// An exchange is one draw $`Z = m + L\varepsilon_t`$ of the globals, as in [`crate::Sfvi`]. Row $`i`$ contributes
/// $`L^\top b_i`$, the gradient of its term of the bound by the globals along which its latents follow them, clipped; the
/// silo sends the noised sum. The draws of a round have mean zero and unit covariance exactly, so that
///
/// ```math
/// g = \frac1T \sum_t L^\top b_t, \qquad A = \frac1T \sum_t L^\top b_t\, \varepsilon_t^\top
/// ```
/// are the gradient and, symmetrised, the curvature of the expected log density: both from the same sums, at the price of
/// one vector. A filter takes them as far as their noise lets it, and the posterior at the end has the noise in it: that for
/// privacy, which is known, and beyond it what the rows' own draws and samples add, which the scatter of the noised sums
/// around a linear function of the draws shows.
///
/// # References
/// Hassan, Salomone and Mengersen (2023), Algorithm 1; Jälkö, Prediger, Honkela and Kaski (2023), DPVIm, who take gradients
/// by scales from noised gradients by draws as well.
#[derive(Debug)]
pub struct PrivateSfvi {
    run: Believing,
    options: PrivateSfviOptions,
    gathered: Gathered,
}

/// Sums over the draws of a round so far.
#[derive(Debug, Clone)]
struct Gathered {
    gradient: Vec<f64>,
    outer: Mat<f64>,
    /// Of all numbers.
    squares: f64,
}

impl Gathered {
    fn new(len: usize) -> Self {
        Self { gradient: vec![0.0; len], outer: Mat::zeros(len, len), squares: 0.0 }
    }

    fn add(&mut self, gradient: &[f64], noise: &[f64]) {
        self.gradient.iter_mut().zip(gradient).for_each(|(slot, value)| *slot += value);
        self.outer += Mat::from_fn(gradient.len(), noise.len(), |i, j| gradient[i] * noise[j]);
        self.squares += gradient.iter().map(|value| value * value).sum::<f64>();
    }

    /// The variance of a number around the linear function of so many draws that fits best: draws of mean zero and unit
    /// covariance make the coefficients means.
    fn scatter(&self, count: usize) -> f64 {
        let (len, draws) = (self.gradient.len(), count as f64);
        let explained = self.gradient.iter().map(|value| value * value).sum::<f64>() + self.outer.squared_norm_l2();
        let free = len * count.saturating_sub(len + 1);
        if free == 0 { 0.0 } else { ((self.squares - explained / draws) / free as f64).max(0.0) }
    }

    fn flat(&self) -> Vec<f64> {
        let len = self.gradient.len();
        let outer = (0..len * len).map(|at| self.outer[(at / len, at % len)]);
        self.gradient.iter().copied().chain(outer).chain([self.squares]).collect()
    }

    fn of_flat(values: &[f64], len: usize) -> Option<Self> {
        let (gradient, outer) = values.split_at_checked(len).filter(|(_, outer)| outer.len() == len * len + 1)?;
        let (gradient, squares) = (gradient.to_vec(), outer[len * len]);
        Some(Self { gradient, outer: Mat::from_fn(len, len, |i, j| outer[i * len + j]), squares })
    }
}

impl PrivateSfvi {
    /// The coordinator of a run over the silos of these names, which have so many rows each.
    ///
    /// # Errors
    /// [`Error::Setting`] for a model without globals or with trained parameters, and for options outside their ranges;
    /// [`Error::NoSilos`]; what the model's global function refuses.
    pub fn new<M: Model>(
        model: &M,
        device: &Device,
        settings: &Settings,
        silos: &[String],
        rows: &[usize],
        options: &PrivateSfviOptions,
    ) -> Result<Self> {
        let model = &AnyModel::new(model);
        settings.check()?;
        options.check()?;
        if silos.is_empty() {
            return Err(Error::NoSilos);
        }
        let table = SiteTable::globals(model, device)?;
        let (len, trained) = (table.global_len(), theta(model)?.len());
        let found = format_args!("a model of {len} globals with {trained} trained parameters");
        let expected = "a model with globals and without trained parameters";
        Error::unless(len > 0 && trained == 0, "privacy", found, expected)?;
        let mut mean = settings.family.start(&FullRankGaussian::new(len), &table);
        mean.truncate(len);
        let beginning = Beginning {
            mean,
            width: StartWidth { most: options.start, middles: &Middles::new() },
            draws: Draws::enough(settings.seed, len)?,
            manifest: Manifest { fields: StepAnswer::fields(&Sizes::of(len)) },
        };
        let run = Believing::new((model, device, table), (silos, rows), settings.seed, beginning)?;
        run.check_shares(options.shares)?;
        Ok(Self { run, options: options.clone(), gathered: Gathered::new(len) })
    }

    /// The request of this exchange.
    fn request(&self) -> Result<StepRequest> {
        let Self { run, options, .. } = self;
        Ok(StepRequest {
            step: run.step,
            seed: run.seed,
            global: run.parameters.clone(),
            clip: run.clip(options.clip)?,
            noise: options.noise,
            rate: options.rate,
        })
    }

    /// The place of this exchange's draw in its round.
    #[expect(clippy::cast_possible_truncation, reason = "a remainder of a number of draws")]
    fn place(&self) -> usize {
        (self.run.step % self.run.draws.len() as u64) as usize
    }

    /// Moves what is believed by the sums of a whole round, whose noise for privacy had this variance a number and
    /// exchange.
    fn hear(&mut self, known: f64) -> Result<()> {
        let gathered = std::mem::replace(&mut self.gathered, Gathered::new(self.run.table.global_len()));
        // Where the posterior is right, squares of a number of the rows' gradients sum to one: what draws and samples of
        // rows add is of that size at most, and what is larger is a bent gradient.
        let most = self.run.belief.stretch()?.powi(2) / self.options.rate;
        let variance = known + (gathered.scatter(self.run.draws.len()) - known).clamp(0.0, most);
        let Gathered { gradient, outer, .. } = gathered;
        let count = self.run.draws.len() as f64;
        let noise = (variance / count).sqrt();
        self.run.hear(&Heard {
            gradient: gradient.iter().map(|value| value / count).collect(),
            curvature: (&outer + outer.transpose()) * faer::Scale(0.5 / count),
            gradient_noise: noise,
            curvature_noise: noise,
        })
    }
}

impl Algorithm for PrivateSfvi {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        Ok(Request::to_all(self.run.silos.len(), &self.request()?.write()))
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let StepRequest { clip, noise, rate, .. } = self.request()?;
        let draw = self.run.draws.get(self.place()).to_vec();
        let run = &mut self.run;
        let len = run.table.global_len();
        let sizes = Sizes::of(len);
        let at = Normal::of_parameters(&run.parameters, len).ok_or(Error::NoSilos)?;
        let prior = LogDensity::new(&run.model, &run.device, &run.table).global(&at.draw(&draw))?;
        let (mut total, mut marks) = (at.pull(&prior.globals), 0.0);
        for (reply, silo) in replies(outcomes, &run.silos, run.step)?.iter().zip(&run.silos) {
            let StepAnswer { gradient, clipped } = StepAnswer::read(reply, &sizes)?;
            finite(silo, run.step, |_| "its noised sum".into(), &[gradient.as_slice(), &[clipped]].concat())?;
            marks += clipped;
            if gradient.len() != len {
                let problem = format!("its sum has {} numbers, expected {len}", gradient.len());
                return Err(Error::Message { kind: reply.kind.clone(), problem }.in_silo(silo, run.step));
            }
            total.iter_mut().zip(gradient).for_each(|(slot, value)| *slot += value);
        }
        self.gathered.add(&total, &draw);
        if 3 * run.step >= 2 * PrivateSfviOptions::releases(self.options.rounds, len) {
            // The silo has divided by the rate.
            run.clipped.add(counted(marks, clip, 1.0), 1.0);
        }
        run.step += 1;
        if self.place() == 0 {
            self.hear(self.run.noises(self.options.shares) * (noise * clip * whole() / rate).powi(2))?;
        }
        Ok(StepInfo::still(self.run.step, Tally::steps(1, self.run.silos.len())))
    }

    fn ended(&self) -> Option<Ending> {
        let releases = PrivateSfviOptions::releases(self.options.rounds, self.run.table.global_len());
        (self.run.step >= releases).then_some(Ending::Converged)
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
        let PrivateSfviOptions { epsilon, delta, noise, shares, rate, .. } = self.options;
        Some(self.run.privacy(epsilon, delta, (noise, shares, rate)))
    }

    fn manifest(&self) -> &Manifest {
        &self.run.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        self.run.posterior()
    }

    fn save(&self) -> Message {
        self.run.save(STATE).floats("gathered", &self.gathered.flat())
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        let wrong = || Error::Message { kind: state.kind.clone(), problem: "`gathered` is none of this model".into() };
        let len = self.run.table.global_len();
        let gathered = Gathered::of_flat(&state.get_floats("gathered")?, len).ok_or_else(wrong)?;
        self.run.load(state, STATE)?;
        self.gathered = gathered;
        Ok(())
    }
}
