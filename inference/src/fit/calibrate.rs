//! Tests by simulation whether a method's posteriors of a model can be believed: data drawn from the prior are fitted.

mod judged;
#[cfg(feature = "plots")]
mod picture;
mod replicate;
mod saved;
mod text;

pub use judged::{Calibration, FailedFit, Finding, NumberCalibration, PosteriorCalibration};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

use partita_core::burn::module::ModuleDisplay;
use partita_core::{Device, Model};

use super::FitOptions;
use crate::engine::algorithm::{Ending, StepInfo, Tally};
use crate::engine::error::{Error, Result};
use crate::engine::run::{Counters, Progress, RunRecord};
use replicate::{Outcome, Replicates};
use saved::Folder;

/// How a calibration is carried out.
#[derive(Debug, Clone)]
pub struct CalibrationOptions {
    /// Data sets that are drawn from the prior and fitted: at least ten. A hundred show what matters, a thousand more.
    pub fits: u32,
    /// Draws of each posterior among which the truth is ranked: at least nine.
    pub draws: u32,
    /// The probability that a method whose posteriors are exact is called calibrated in all numbers.
    pub level: f64,
    /// How each data set is fitted. Seed and checkpoints are the calibration's own; the summary has as many draws as the
    /// ranks need, or more. The threads are those of one fit.
    pub fit: FitOptions,
    /// The seed of all randomness.
    pub seed: u64,
    /// Where finished fits are kept: a calibration with the same settings goes on from them, with more fits too.
    pub folder: Option<PathBuf>,
    /// Fits side by side; the result does not depend on them.
    pub threads: usize,
}

impl Default for CalibrationOptions {
    fn default() -> Self {
        Self { fits: 200, draws: 255, level: 0.95, fit: FitOptions::default(), seed: 1, folder: None, threads: 1 }
    }
}

impl CalibrationOptions {
    fn check(&self) -> Result<()> {
        let Self { fits, draws, level, threads, ref fit, .. } = *self;
        Error::unless(fits >= 10, "fits", fits, "at least 10; a hundred or more show what matters")?;
        Error::unless(draws >= 9, "draws", draws, "at least 9")?;
        let is_level = level > 0.0 && level < 1.0;
        Error::unless(is_level, "level", level, "a probability above 0 and below 1, such as 0.95")?;
        Error::unless(threads > 0, "threads", threads, "at least 1")?;
        let has_checkpoint = fit.checkpoint.is_some() || fit.resume;
        let expected = "none: a calibration keeps whole fits, in `CalibrationOptions::folder`";
        Error::unless(!has_checkpoint, "checkpoint", "one in the options of the fits", expected)
    }
}

/// Draws globals, local latents and outcomes from the prior, fits them, and asks where among its posterior the truth lies.
///
/// Covariates, groups and numbers of rows are those of `silos`; only outcomes, whatever the model observes, are replaced.
/// Let $`z_r \sim p(z)`$, $`y_r \sim p(y \mid z_r)`$. If the fit of $`y_r`$ gave the exact posterior, the rank of
/// $`z_r`$ among $`L`$ draws of it would be uniform on $`0, \ldots, L`$. Ranks that crowd at both ends say that posteriors
/// are too narrow, in the middle too wide, at one end biased. The empirical distribution functions of the ranks of each
/// number, and of their distances from the nearer end, are compared with bands that hold everywhere at once
/// ([`crate::metrics::SimultaneousBand`]); [`crate::metrics::Symmetry`] tests the bias by itself.
/// Posteriors as fitted and as corrected by the round of trust are judged apart.
///
/// A calibration speaks of data that the prior expects: where the prior is much wider than what is known, choose one that
/// is not. θ stays as it is in `model` when data are drawn, and a method that trains it then answers for that too.
///
/// `progress` hears of each fit as of a step; its bound is that of the fit. Fits that fail are counted and named.
///
/// # Errors
/// [`Error::NoSilos`]; [`Error::Setting`] for options out of their range; [`Error::Model`] for a model that cannot be
/// simulated: with a factor, an improper prior or an encoder; [`Error::Checkpoint`] for a folder of other settings, another
/// model or other data; [`Error::File`].
///
/// # Caveats
/// An outcome that the model reads elsewhere than in `observe`, as an autoregression on its own past does, stays that of the
/// data there; and [`partita_core::Scope::weighted`] weighs densities, not draws. Ranks of such models say nothing.
///
/// # Example
/// ```
/// use partita_core::{Device, Model, Normal, Result, Scope, burn};
/// use partita_inference::{CalibrationOptions, calibrate};
/// use burn::{module::Module, tensor::Tensor};
///
#[doc = include_str!("../../doc/mean.md")]
///
/// let device = Device::flex();
/// let silos = [("a".to_owned(), device.tensor(vec![0.0; 2], [2])), ("b".to_owned(), device.tensor(vec![0.0], [1]))];
/// let options = CalibrationOptions { fits: 40, ..CalibrationOptions::default() };
/// let calibration = calibrate(&Mean {}, &silos, &device, &options, None)?;
/// assert!(calibration.is_calibrated());
/// assert_eq!(calibration.fitted.numbers[0].ranks.len(), 40);
/// # Ok::<(), partita_inference::Error>(())
/// ```
///
/// # References
/// Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference algorithms with simulation-based
/// calibration, arXiv:1804.06788; Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work?, ICML; Säilynoja, Bürkner
/// and Vehtari (2022), Statistics and Computing 32.
pub fn calibrate<M: Model + ModuleDisplay>(
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    options: &CalibrationOptions,
    progress: Option<&mut dyn Progress>,
) -> Result<Calibration> {
    options.check()?;
    if silos.is_empty() {
        return Err(Error::NoSilos);
    }
    let replicates = Replicates::new(model, silos, device, options);
    let fingerprint = replicates.fingerprint()?;
    let folder = options.folder.as_ref().map(|path| Folder::open(path, options, &fingerprint)).transpose()?;
    let mut done = folder.as_ref().map_or_else(|| Ok(BTreeMap::new()), |folder| folder.read(options.fits))?;
    all(&replicates, options, folder.as_ref(), &mut done, progress)?;
    Ok(Calibration::of(options, &done))
}

/// Fits what is not done, and keeps each as it ends.
fn all<M: Model + ModuleDisplay>(
    replicates: &Replicates<'_, M>,
    options: &CalibrationOptions,
    folder: Option<&Folder>,
    done: &mut BTreeMap<u32, Outcome>,
    mut progress: Option<&mut dyn Progress>,
) -> Result<()> {
    let (began, mut counters) = (Instant::now(), Counters::default());
    let missing: Vec<u32> = (0..options.fits).filter(|number| !done.contains_key(number)).collect();
    let next = &AtomicUsize::new(0);
    std::thread::scope(|scope| -> Result<()> {
        let (sender, receiver) = channel();
        for _ in 0..options.threads.min(missing.len()) {
            // A model may be sent to another thread, and not shared with one.
            let (own, sender, missing) = (replicates.owned(), sender.clone(), &missing);
            scope.spawn(move || {
                while let Some(&number) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver is gone where a file could not be written.
                    if sender.send((number, own.fit(number))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (number, (outcome, elbo, spent)) in receiver {
            if let Some(folder) = folder.filter(|_| outcome != Outcome::Interrupted) {
                folder.write(number, &outcome)?;
            }
            done.insert(number, outcome);
            counters += spent;
            if let Some(progress) = &mut progress {
                let step = StepInfo { elbo, ..StepInfo::still(done.len() as u64, Tally::default()) };
                progress.step(&step, &counters);
            }
        }
        Ok(())
    })?;
    if let Some(progress) = progress {
        let is_interrupted = done.values().any(|outcome| *outcome == Outcome::Interrupted);
        let ending = if is_interrupted { Ending::Interrupted } else { Ending::Completed };
        let seconds = began.elapsed().as_secs_f64();
        progress.end(&RunRecord { ending, counters, seconds, ..RunRecord::default() });
    }
    Ok(())
}
