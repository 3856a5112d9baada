//! Tests by simulation whether fits of a formula, or of a model, over these files can be believed.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use super::asked::{Asked, Subject};
use super::fit::say_prepared;
use super::models::Models;
use super::say::{say, text};
use crate::inference::{Calibration, CalibrationOptions, calibrate};
use crate::{Device, FitOptions, Metrics};

/// What is calibrated, and how.
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    asked: Asked,
    /// Data sets that are drawn from the prior and fitted: at least 10; a hundred show what matters.
    #[arg(long, default_value_t = 200)]
    fits: u32,
    /// Draws of each posterior among which the truth is ranked.
    #[arg(long, default_value_t = 255)]
    draws: u32,
    /// The probability that a method whose posteriors are exact is called calibrated in all numbers.
    #[arg(long, default_value_t = 0.95)]
    level: f64,
    /// The folder in which finished fits are kept: the same command goes on from them, with more --fits too. calibration.json is
    /// written there.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(options: &Options, models: &Models, stop: &Arc<AtomicBool>) -> Result<(), Box<dyn Error>> {
    let device = Device::flex();
    let mut how = CalibrationOptions {
        fits: options.fits,
        draws: options.draws,
        level: options.level,
        fit: FitOptions { interrupt: Some(Arc::clone(stop)), ..FitOptions::default() },
        seed: options.seed,
        folder: options.folder.clone(),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut progress = Metrics::new(options.fits.into(), None, 1)?;
    let found: Calibration = match options.asked.subject(models)? {
        Subject::Formula(study, file) => {
            if file.as_ref().is_some_and(|own| own.privacy.is_some()) {
                return Err("calibration of a private study: fits without noise would be judged in place of its own. Take `[privacy]` out of a copy of the study".into());
            }
            if let Some(file) = &file {
                how.fit = FitOptions { interrupt: how.fit.interrupt, ..file.fit_options()? };
            }
            let prepared = study.prepare(&options.asked.tables(file.as_deref())?, &device)?;
            say_prepared(&prepared)?;
            say("")?;
            calibrate(&prepared.plan.model, &prepared.silos, &device, &how, Some(&mut progress))?
        }
        Subject::Model(model) => model.calibrate(&options.asked.tables(None)?, &how, &device, &mut progress)?,
        Subject::List => {
            return Ok(text(models)?);
        }
    };
    if stop.load(Ordering::Relaxed) {
        let kept = match &options.folder {
            Some(folder) => format!("The same command goes on with the fits in {}", folder.display()),
            None => "Name a folder with --folder, and another time the same command goes on where it was".into(),
        };
        return Err(format!(
            "interrupted before all {} fits were made: nothing is said of the model. {kept}",
            options.fits
        )
        .into());
    }
    text(&found)?;
    if let Some(folder) = &options.folder {
        found.write_json(&folder.join("calibration.json"))?;
        say(format_args!("\ncalibration.json is in {}", folder.display()))?;
    }
    match found.is_calibrated() {
        true => Ok(()),
        false => Err(format!(
            "not every number is calibrated. Exact posteriors end so with probability {:.2}: look again with another \
             `--seed`. Where priors expect data unlike yours, as usual ones may, state others (of a command `--prior`)",
            1.0 - options.level
        )
        .into()),
    }
}
