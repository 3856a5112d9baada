//! Fits models to silos whose answers are differentially private sums over rows, and nothing else.

#[cfg(feature = "cli")]
pub(crate) mod audited;
#[cfg(feature = "cli")]
pub(crate) mod clipping;
#[cfg(feature = "cli")]
mod decoders;
mod noised_sums;
#[cfg(feature = "cli")]
pub(crate) mod secure;
mod shares;
mod silo;
mod subject;
#[cfg(feature = "cli")]
mod sums;

#[cfg(feature = "cli")]
pub use decoders::DECODERS;
#[cfg(feature = "cli")]
pub(crate) use noised_sums::ClippedRows;
pub use noised_sums::NoisedSums;
pub(crate) use shares::Shares;
use silo::Party;
#[cfg(feature = "cli")]
pub(crate) use silo::check_delta;
pub(crate) use silo::{Seated, silo};
#[cfg(feature = "cli")]
pub(crate) use sums::Sums;

use std::collections::BTreeMap;
use std::path::PathBuf;

use partita_core::{Device, Model, SiteTable};
use partita_inference::{
    Algorithm, AlgorithmChoice, Error, FedOptOptions, FitOptions, Fitted, InProcess, Privacy, PrivateRoundsOptions,
    PrivateSfviOptions, PrivateSteps, PviOptions, Refusal, Report, Result, RoundOptions, Settings, SiloProgram,
    SiloSchedule, coordinator, fit_parties,
};
use partita_privacy::{Accountant, Budget, Entropy, Ledger, SystemEntropy};

/// The methods whose silos answer with noised sums over clipped rows alone.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum PrivateMethod {
    /// Few rounds: rows with few latents, which are integrated, and few globals.
    #[default]
    FewRounds,
    /// SFVI: rows are integrated where they have at most three latents, have posteriors of their own where they have more, and a
    /// tape each; a round is as many sums as it has draws.
    Sfvi {
        /// The probability with which each row is in a sum; 1 for all rows.
        rate: f64,
    },
    /// PVI with perturbed local steps: a round is a visit of every silo, of as many sums as it has local steps. The noise is
    /// not in the posterior.
    Pvi {
        /// How PVI goes about it: silos one after another, or all together.
        options: PviOptions,
        /// The probability with which each row is in the sum of a step.
        rate: f64,
        /// The norm to which a row's gradient is clipped, on the unconstrained scale.
        clip: f64,
    },
    /// SFVI-Avg with perturbed local steps: a round is as many sums of every silo as it has local steps. The noise is not in the
    /// posterior.
    SfviAvg {
        /// How posteriors become one, and after how many local steps.
        options: RoundOptions,
        /// As for PVI.
        rate: f64,
        /// As for PVI.
        clip: f64,
    },
    /// Federated point estimation with perturbed local steps: a point, without a posterior.
    FedOpt {
        /// How points become one, and after how many local steps.
        options: FedOptOptions,
        /// As for PVI.
        rate: f64,
        /// As for PVI.
        clip: f64,
    },
}

/// The most rounds of noised sums.
const MOST_ROUNDS: u64 = 1_000;

/// What is promised of every row of every silo, and within which budget.
#[derive(Debug, Clone, PartialEq)]
pub struct PrivateOptions {
    /// Epsilon of everything that one silo sends in the run.
    pub epsilon: f64,
    /// The delta at which it is stated.
    pub delta: f64,
    /// By which method.
    pub method: PrivateMethod,
    /// Rounds, whose number is fixed before the run.
    pub rounds: u64,
    /// The folder in which every silo has its ledger, `NAME.ledger`, with the epsilon that its owner allows over all runs;
    /// `None` for a run without a record.
    pub ledgers: Option<(PathBuf, f64)>,
    /// The name of the study, such as the hash of its file: a ledger answers an identical request about the same study and
    /// the same rows from what it stores, and others anew until the study has had all its sums. A fit with other
    /// options, or another seed, is another study; so has to be one over other rows where silos divide the noise.
    pub study: String,
    /// What is protected, in a word for reports and ledgers: a ledger is of one unit, and refuses another. With
    /// [`Privacy::WHOLE_SILO`] it is all that a silo's local steps change in a round of SFVI-Avg or FedOpt, and `clip` of the method is
    /// the norm of that change; otherwise a row of an outermost plate, by whatever name.
    pub unit: String,
    /// The norm to which rows are clipped in few rounds, as [`PrivateRoundsOptions::clip`], and in SFVI, as
    /// [`PrivateSfviOptions::clip`].
    pub clip: Option<f64>,
    /// As [`PrivateSfviOptions::local_steps`], of SFVI.
    pub local_steps: Option<u64>,
    /// As [`PrivateRoundsOptions::middles`].
    pub middles: BTreeMap<String, BTreeMap<String, f64>>,
    /// How many silos may work together with the coordinator, in few rounds and SFVI whose sums leave silos behind masks: the
    /// others have the noise of the promise together, each a share of it. `None` where all others may: every silo then has all
    /// of the noise. What silos of one process give is behind no masks, and the promise is to those who see the report.
    pub colluders: Option<u64>,
}

impl PrivateOptions {
    /// The options for a promise; the others are at their defaults.
    #[must_use]
    pub fn new(epsilon: f64, delta: f64) -> Self {
        let (method, rounds) = (PrivateMethod::FewRounds, PrivateRoundsOptions::ROUNDS);
        Self {
            epsilon,
            delta,
            method,
            rounds,
            ledgers: None,
            study: String::new(),
            unit: PrivateRoundsOptions::UNIT.to_owned(),
            clip: None,
            local_steps: None,
            middles: BTreeMap::new(),
            colluders: None,
        }
    }

    /// The options of all parties of few rounds: noise is the least that keeps the promise.
    ///
    /// # Errors
    /// [`Error::Declined`] for an epsilon or a delta outside its range, [`Error::Setting`] for more than 1,000 rounds.
    ///
    /// # Example
    /// ```
    /// use partita::private::PrivateOptions;
    /// let options = PrivateOptions { rounds: 20, ..PrivateOptions::new(1.0, 1e-5) };
    /// assert!((options.rounds()?.noise - 18.1).abs() < 0.05);
    /// # Ok::<(), partita::inference::Error>(())
    /// ```
    pub fn rounds(&self) -> Result<PrivateRoundsOptions> {
        if self.rounds > MOST_ROUNDS {
            let expected = "at most 1000: the noise of each grows with the square root of their number, and after some dozens no round brings more";
            return Err(Error::Setting { setting: "rounds", found: self.rounds.to_string(), expected });
        }
        let noise = Accountant::noise_for(self.epsilon, self.delta, self.rounds).map_err(declined)?;
        let options = PrivateRoundsOptions::new(self.epsilon, self.delta, noise);
        Ok(PrivateRoundsOptions {
            rounds: self.rounds,
            clip: self.clip,
            middles: self.middles.clone(),
            unit: self.unit.clone(),
            ..options
        })
    }

    /// The same for SFVI of a model with so many globals, with sums over samples of the rows at this rate.
    fn sfvi(&self, rate: f64, globals: usize) -> Result<PrivateSfviOptions> {
        let releases = PrivateSfviOptions::releases(self.rounds, globals);
        let noise = Accountant::noise_for_samples(self.epsilon, self.delta, rate, releases).map_err(declined)?;
        let options = PrivateSfviOptions::new(self.epsilon, self.delta, noise);
        let (clip, local_steps) = (self.clip.unwrap_or(options.clip), self.local_steps);
        Ok(PrivateSfviOptions { rounds: self.rounds, rate, clip, local_steps, ..options })
    }

    /// The same for rounds, or visits, of so many local steps.
    fn steps(&self, local_steps: u64, rate: f64, clip: f64) -> Result<PrivateSteps> {
        let whole_silo = self.is_of_silos();
        let sums = if whole_silo { self.rounds } else { self.rounds.saturating_mul(local_steps) };
        let noise = Accountant::noise_for_samples(self.epsilon, self.delta, rate, sums).map_err(declined)?;
        Ok(PrivateSteps { epsilon: self.epsilon, delta: self.delta, noise, clip, rate, sums, whole_silo })
    }

    /// Whether a silo as a whole is protected.
    fn is_of_silos(&self) -> bool {
        self.unit == Privacy::WHOLE_SILO
    }

    /// How so many silos divide the noise.
    ///
    /// # Errors
    /// [`Error::Setting`] for as many colluders as silos, and with a method whose coordinator needs each silo's own answer.
    pub(crate) fn shares(&self, silos: usize) -> Result<Shares> {
        let is_summed = matches!(self.method, PrivateMethod::FewRounds | PrivateMethod::Sfvi { .. });
        match self.colluders {
            Some(own) if !is_summed => Err(Error::Setting {
                setting: "colluders",
                found: format!("{own} with a method of local steps"),
                expected: "none: each silo's own answer leaves it, with all of the noise; or few rounds or SFVI",
            }),
            own => Shares::of(own, silos),
        }
    }

    /// The algorithm that keeps the promise for a model with so many globals over so many silos, and the steps of its run.
    pub(crate) fn algorithm(&self, globals: usize, silos: usize) -> Result<(AlgorithmChoice, u64)> {
        let shares = self.shares(silos)?.count;
        let is_averaged = matches!(self.method, PrivateMethod::SfviAvg { .. } | PrivateMethod::FedOpt { .. });
        if self.is_of_silos() && !is_averaged {
            let found = format!("`{}` with a method whose noise is for rows", self.unit);
            let expected = "SFVI-Avg or FedOpt, whose rounds have noise on all that a silo changes; or a row";
            return Err(Error::Setting { setting: "unit", found, expected });
        }
        Ok(match &self.method {
            PrivateMethod::FewRounds => {
                let how = PrivateRoundsOptions { shares, ..self.rounds()? };
                // One more than there are: the method ends by itself.
                (AlgorithmChoice::PrivateRounds(how), self.rounds.saturating_add(1))
            }
            PrivateMethod::Sfvi { rate } => {
                let how = PrivateSfviOptions { shares, ..self.sfvi(*rate, globals)? };
                let steps = PrivateSfviOptions::releases(how.rounds, globals);
                (AlgorithmChoice::PrivateSfvi(how), steps)
            }
            PrivateMethod::Pvi { options, rate, clip } => {
                let private = self.steps(options.local_steps, *rate, *clip)?;
                let steps = match options.schedule {
                    SiloSchedule::Sequential(_) => private.sums.saturating_mul(silos as u64),
                    SiloSchedule::Synchronous => private.sums,
                    _ => {
                        let found = format!("{:?} in private PVI", options.schedule);
                        let expected = "Sequential or Synchronous, by which every silo has as many visits";
                        return Err(Error::Setting { setting: "schedule", found, expected });
                    }
                };
                (AlgorithmChoice::Pvi(PviOptions { private: Some(private), ..options.clone() }), steps)
            }
            PrivateMethod::SfviAvg { options, rate, clip } => {
                let private = self.steps(options.local_steps, *rate, *clip)?;
                let how = RoundOptions { private: Some(private), ..options.clone() };
                (AlgorithmChoice::SfviAvg(how), self.rounds.saturating_mul(options.local_steps))
            }
            PrivateMethod::FedOpt { options, rate, clip } => {
                let private = self.steps(options.local_steps, *rate, *clip)?;
                let how = FedOptOptions { private: Some(private), ..options.clone() };
                (AlgorithmChoice::FedOpt(how), self.rounds.saturating_mul(options.local_steps))
            }
        })
    }

    /// The ledger of a silo.
    fn ledger(&self, silo: &str) -> Result<Option<Ledger>> {
        let Some((folder, epsilon)) = &self.ledgers else { return Ok(None) };
        let budget = Budget { epsilon: *epsilon, delta: self.delta, unit: self.unit.clone() };
        // Each answer looks for room for all that are still to come: a run that does not fit spends nothing.
        Ledger::open(&folder.join(format!("{silo}.ledger")), budget).map(Some).map_err(declined)
    }
}

/// Fits `model` to the data of `silos`, so that everything a silo sends is $`(\varepsilon, \delta)`$-differentially private
/// for one row of its outermost plates; a row is zeroed out in a neighbouring data set, and numbers of rows are public.
///
/// The posterior of the report has the noise in it. There is no bound and no round of trust, which would need sums
/// without noise.
///
/// # Errors
/// [`Error::Refused`] for a run beyond the budget of a silo, before anything is spent on it; [`Error::Setting`] for a model that
/// the method does not take, or whose outcomes are in no row; otherwise as for [`partita_inference::fit()`].
///
/// # Example
/// ```
/// use partita::private::{PrivateOptions, fit};
/// use partita::models::GaussianMean;
/// use partita::{Device, FitOptions};
///
/// let device = Device::flex();
/// let rows = |mean: f64| (0..400).map(|k| mean + f64::from(k % 21 - 10) / 6.06).collect::<Vec<f64>>();
/// let silos = [("a".to_owned(), GaussianMean::data(&rows(0.9), &device)), ("b".to_owned(), GaussianMean::data(&rows(1.1), &device))];
/// let fit = fit(&GaussianMean {}, &silos, &device, &FitOptions::default(), &PrivateOptions::new(3.0, 1e-5))?;
/// let privacy = fit.report.privacy.as_ref().ok_or("nothing is promised")?;
/// assert_eq!((privacy.epsilon, privacy.releases), (3.0, 24));
/// let mean = &fit.report.sites[0];
/// assert!((mean.mean - 1.0).abs() < 6.0 * mean.sd && mean.sd > 1.0 / 800_f64.sqrt());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit<M: Model>(
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    options: &FitOptions,
    privacy: &PrivateOptions,
) -> Result<Fitted> {
    simulate(model, silos, device, options, privacy, &mut |_| Box::new(SystemEntropy::default()))
}

/// The same with the random bits that `bits` gives each silo: a simulation that can be repeated, and gives no protection.
///
/// # Errors
/// As for [`fit`].
pub fn simulate<M: Model>(
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    options: &FitOptions,
    privacy: &PrivateOptions,
    bits: &mut dyn FnMut(usize) -> Box<dyn Entropy + Send>,
) -> Result<Fitted> {
    fit_with(model, silos, device, options, privacy, bits).map(|own| own.fitted)
}

/// A private fit, with the coordinator that was run.
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "commands ask it further questions"))]
pub(crate) struct PrivateFit {
    pub(crate) fitted: Fitted,
    pub(crate) algorithm: Box<dyn Algorithm>,
    /// The rows of all silos.
    pub(crate) rows: usize,
}

/// [`simulate`], for those who have further questions to the posterior.
pub(crate) fn fit_with<M: Model>(
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    options: &FitOptions,
    privacy: &PrivateOptions,
    bits: &mut dyn FnMut(usize) -> Box<dyn Entropy + Send>,
) -> Result<PrivateFit> {
    let shares = privacy.shares(silos.len())?;
    fit_by(model, silos, device, options, privacy, |seated, data, options| {
        let sums = NoisedSums::new(privacy.ledger(seated.name)?, bits(seated.index as usize)).shared(shares);
        silo(seated, (model, data), device, options, sums)
    })
}

/// [`fit_with`] by silos that `seat` makes, each of its place, its data and the options of the fit.
fn fit_by<M: Model>(
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    options: &FitOptions,
    privacy: &PrivateOptions,
    mut seat: impl FnMut(Seated<'_>, &M::Data, &FitOptions) -> Result<Party>,
) -> Result<PrivateFit> {
    let threads = Some((options.threads / silos.len().max(1)).max(1));
    let globals = SiteTable::globals(model, device)?.global_len();
    let (algorithm, steps) = privacy.algorithm(globals, silos.len())?;
    let settings = Settings { threads: options.settings.threads.or(threads), steps, ..options.settings.clone() };
    // Bounds and weights are sums without noise, which private silos refuse.
    let options = FitOptions { algorithm, settings, trust_draws: Some(0), elbo_draws: 1, ..options.clone() };
    let (mut programs, mut rows): (Vec<Box<dyn SiloProgram>>, Vec<usize>) = (Vec::new(), Vec::new());
    for (index, (name, data)) in (0..).zip(silos) {
        let (program, own) = seat(Seated { name, index, study: &privacy.study }, data, &options)?;
        rows.push(own);
        programs.push(program);
    }
    let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
    let mut algorithm = coordinator(model, &names, &rows, device, &options)?;
    let mut exchange = InProcess::new(programs, options.threads)?;
    let mut fitted = fit_parties(model, device, &options, &mut *algorithm, &mut exchange, None)?;
    fitted.report.protects(&privacy.unit);
    if let Some((_, data)) = silos.first() {
        tell_rows(&mut fitted.report, &options.algorithm, (model, data), device)?;
    }
    Ok(PrivateFit { fitted, algorithm, rows: rows.iter().sum() })
}

/// Tells the report of SFVI whether it integrated latents of rows like these.
pub(crate) fn tell_rows<M: Model>(
    report: &mut Report,
    algorithm: &AlgorithmChoice,
    (model, data): (&M, &M::Data),
    device: &Device,
) -> Result<()> {
    let AlgorithmChoice::PrivateSfvi(how) = algorithm else { return Ok(()) };
    if let Some(are_integrated) = how.integrates_rows(model, data, device)? {
        report.tell_rows(are_integrated);
    }
    Ok(())
}

fn declined(error: partita_privacy::Error) -> Error {
    let problem = error.to_string();
    match error {
        partita_privacy::Error::Budget { .. } => Error::Refused { reason: Refusal::Budget, problem },
        partita_privacy::Error::Study { .. } => Error::Refused { reason: Refusal::Sums, problem },
        _ => Error::Declined { problem },
    }
}
