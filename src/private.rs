//! Fits models to silos whose answers are differentially private sums over rows, and nothing else.

#[cfg(feature = "cli")]
pub(crate) mod audited;
mod noised_sums;
#[cfg(feature = "cli")]
pub(crate) mod secure;

pub use noised_sums::NoisedSums;

use std::path::PathBuf;

use partita_core::{Device, Model};
use partita_inference::{
    Algorithm, AlgorithmChoice, Error, FitOptions, Fitted, InProcess, PrivateParty, PrivateRoundsOptions,
    PrivateRoundsSilo, Result, Settings, SiloProgram, coordinator, fit_parties,
};
use partita_privacy::{Accountant, Budget, Entropy, Ledger, SystemEntropy};

/// What is promised of every row of every silo, and within which budget.
#[derive(Debug, Clone, PartialEq)]
pub struct PrivateOptions {
    /// Epsilon of everything that one silo sends in the run.
    pub epsilon: f64,
    /// The delta at which it is stated.
    pub delta: f64,
    /// Rounds, whose number is fixed before the run.
    pub rounds: u64,
    /// The folder in which every silo has its ledger, `NAME.ledger`, with the epsilon that its owner allows over all runs;
    /// `None` for a run that nobody records.
    pub ledgers: Option<(PathBuf, f64)>,
}

impl PrivateOptions {
    /// The options for a promise; the others are at their defaults.
    #[must_use]
    pub fn new(epsilon: f64, delta: f64) -> Self {
        Self { epsilon, delta, rounds: PrivateRoundsOptions::ROUNDS, ledgers: None }
    }

    /// The options of all parties: noise is the least that keeps the promise.
    ///
    /// # Errors
    /// [`Error::Declined`] for an epsilon, a delta or a number of rounds outside its range.
    ///
    /// # Example
    /// ```
    /// use partita::private::PrivateOptions;
    /// let options = PrivateOptions { rounds: 20, ..PrivateOptions::new(1.0, 1e-5) };
    /// assert!((options.rounds()?.noise - 18.1).abs() < 0.05);
    /// # Ok::<(), partita::inference::Error>(())
    /// ```
    pub fn rounds(&self) -> Result<PrivateRoundsOptions> {
        let noise = Accountant::noise_for(self.epsilon, self.delta, self.rounds).map_err(declined)?;
        Ok(PrivateRoundsOptions { rounds: self.rounds, ..PrivateRoundsOptions::new(self.epsilon, self.delta, noise) })
    }

    /// The ledger of a silo.
    fn ledger(&self, silo: &str) -> Result<Option<Ledger>> {
        let Some((folder, epsilon)) = &self.ledgers else { return Ok(None) };
        let budget = Budget { epsilon: *epsilon, delta: self.delta, unit: "row".into() };
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
/// [`Error::Declined`] for a run beyond the budget of a silo, before anything is spent on it; [`Error::Setting`] for a model that few
/// rounds do not take, or whose outcomes are in no row; otherwise as for [`partita_inference::fit()`].
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
/// assert_eq!((privacy.epsilon, privacy.releases), (3.0, 12));
/// let mean = &fit.report.sites[0];
/// assert!((mean.mean - 1.0).abs() < 6.0 * mean.sd && mean.sd > 1.0 / 800_f64.sqrt());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit<M: Model + 'static>(
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    options: &FitOptions,
    privacy: &PrivateOptions,
) -> Result<Fitted> {
    simulate(model, silos, device, options, privacy, &mut |_| Box::new(SystemEntropy::default()))
}

/// The same with the random bits that `bits` gives each silo: a simulation that can be repeated, and protects nobody.
///
/// # Errors
/// As for [`fit`].
pub fn simulate<M: Model + 'static>(
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
}

/// [`simulate`], for those who have further questions to the posterior.
pub(crate) fn fit_with<M: Model + 'static>(
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    options: &FitOptions,
    privacy: &PrivateOptions,
    bits: &mut dyn FnMut(usize) -> Box<dyn Entropy + Send>,
) -> Result<PrivateFit> {
    let rounds = privacy.rounds()?;
    let threads = Some((options.threads / silos.len().max(1)).max(1));
    let settings = Settings { threads: options.settings.threads.or(threads), ..options.settings.clone() };
    let (mut programs, mut rows): (Vec<Box<dyn SiloProgram>>, Vec<usize>) = (Vec::new(), Vec::new());
    for (index, (name, data)) in silos.iter().enumerate() {
        let sums = NoisedSums::new(privacy.ledger(name)?, bits(index));
        let (program, own) = silo(name, model, data, device, &settings, &rounds, sums)?;
        rows.push(own);
        programs.push(program);
    }
    let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
    // Bounds and weights are sums without noise, which private silos refuse.
    let algorithm = AlgorithmChoice::PrivateRounds(rounds);
    let options = FitOptions { algorithm, settings, trust_draws: Some(0), elbo_draws: 1, ..options.clone() };
    let mut algorithm = coordinator(model, &names, &rows, device, &options)?;
    let mut exchange = InProcess::new(programs, options.threads)?;
    let fitted = fit_parties(model, device, &options, &mut *algorithm, &mut exchange, None)?;
    Ok(PrivateFit { fitted, algorithm })
}

/// A silo whose sums `sums` makes private, and the number of its rows: it answers with these sums and nothing else.
pub(crate) fn silo<M: Model + 'static>(
    name: &str,
    model: &M,
    data: &M::Data,
    device: &Device,
    settings: &Settings,
    rounds: &PrivateRoundsOptions,
    sums: NoisedSums,
) -> Result<(Box<dyn SiloProgram>, usize)> {
    let silo = PrivateRoundsSilo::new(name, model, data, device, settings, rounds, Box::new(sums))?;
    let (rows, manifest) = (silo.rows(), silo.manifest());
    Ok((Box::new(PrivateParty::new(Box::new(silo), manifest)), rows))
}

fn declined(error: partita_privacy::Error) -> Error {
    Error::Declined { problem: error.to_string() }
}
