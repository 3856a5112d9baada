//! Audits the noise of private sums on this machine: what canaries betray without it, and with that of a promise.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;

use super::say::say;

use crate::executables::StudyFile;
use crate::privacy::{Accountant, Conversion, SystemEntropy};
use crate::private::audited::{CANARIES, Noise, audited};
use crate::private::{PrivateOptions, Shares, Sums};

/// The promise that is audited.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The study whose `[privacy]` is audited.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["epsilon", "delta", "rounds"])]
    study: Option<PathBuf>,
    /// Epsilon of all sums together.
    #[arg(long, default_value_t = 1.0)]
    epsilon: f64,
    /// The delta at which it is stated.
    #[arg(long, default_value_t = 1e-5)]
    delta: f64,
    /// The sums.
    #[arg(long, default_value_t = 24)]
    rounds: u64,
    /// Runs with noise, each with coins and noise of its own.
    #[arg(long, default_value_t = 5)]
    runs: u32,
}

/// What canaries have to refute where there is no noise: an audit that does not is none.
const REFUTED: f64 = 5.0;

pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let (sums, delta) = match &options.study {
        Some(path) => {
            let study = StudyFile::read(path)?;
            let none = || format!("{} has no `[privacy]`", path.display());
            let privacy = study.privacy.as_ref().ok_or_else(none)?;
            (study.promised_sums(privacy)?, privacy.delta)
        }
        None => {
            let count = options.rounds;
            let promise = PrivateOptions { rounds: count, ..PrivateOptions::new(options.epsilon, options.delta) };
            (Sums { count, noise: promise.rounds()?.noise, rate: 1.0, shares: Shares::WHOLE }, options.delta)
        }
    };
    let Sums { count: rounds, noise, .. } = sums;
    let accounted = Accountant::of([sums.cost()?]).epsilon(delta, Conversion::Improved)?;
    say(format_args!(
        "{CANARIES} canaries, each in or out by a coin, in {rounds} sums over rows; bounds hold with a probability of 95 %"
    ))?;
    let mut bits = SystemEntropy::default();
    let open = audited(sums, Noise::Off, 0.0, &mut bits)?;
    say(format_args!(
        "without noise: {} of {} guesses right, epsilon is at least {:.2}",
        open.right, open.guesses, open.epsilon
    ))?;
    if open.epsilon <= REFUTED {
        return Err(format!("the audit is none: without noise it has to refute an epsilon of {REFUTED}").into());
    }
    let mut beyond = 0;
    for run in 1..=options.runs {
        let found = audited(sums, Noise::On, delta, &mut bits)?;
        say(format_args!(
            "run {run}, noise of {noise:.2} clips: {} of {} guesses right, epsilon is at least {:.2}, accounted for is {accounted:.4}",
            found.right, found.guesses, found.epsilon
        ))?;
        beyond += u32::from(found.epsilon > accounted);
    }
    match beyond {
        0 => Ok(()),
        _ => Err(format!(
            "{beyond} of {} runs refute the epsilon that is accounted for. Do not use private studies on this machine; report this",
            options.runs
        )
        .into()),
    }
}
