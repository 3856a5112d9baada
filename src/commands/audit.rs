//! Audits the noise of private sums on this machine: what canaries betray without it, and with that of a promise.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;

use super::say::say;

use crate::executables::StudyFile;
use crate::privacy::{Accountant, Conversion, Entropy, SystemEntropy};
use crate::private::audited::{Audited, AuditedMethod, CANARIES, Noise, audited};
use crate::private::{PrivateOptions, Shares, Sums};

/// The promise that is audited.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The study whose `[privacy]` is audited.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["epsilon", "delta", "rounds", "method"])]
    study: Option<PathBuf>,
    /// The method that is audited as a whole, by canaries in the rows of silos that are fitted; sums alone if none is named.
    #[arg(long, value_enum, conflicts_with = "rounds")]
    method: Option<AuditedMethod>,
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
    let (epsilon, delta) = (options.epsilon, options.delta);
    let bounds = "bounds hold with a probability of 95 %";
    if let Some(method) = options.method {
        let (promise, sums) = (method.promise(epsilon, delta), method.sums(epsilon, delta)?);
        let count = AuditedMethod::CANARIES;
        say(format_args!(
            "{count} canaries, each in or out by a coin, in a run of the whole method with {} sums of each silo; {bounds}",
            sums.count
        ))?;
        let mut bits = || Box::new(SystemEntropy::default()) as Box<dyn Entropy + Send>;
        return compare(options, Promise { sums, delta }, &mut |noise| method.audited(&promise, noise, &mut bits));
    }
    let promise = promise_of_sums(options)?;
    let Promise { sums, delta } = promise;
    say(format_args!("{CANARIES} canaries, each in or out by a coin, in {} sums over rows; {bounds}", sums.count))?;
    let mut bits = SystemEntropy::default();
    compare(options, promise, &mut |noise| audited(sums, noise, delta, &mut bits))
}

/// The sums that are audited, and the delta at which their epsilon is stated.
#[derive(Debug, Clone, Copy)]
struct Promise {
    sums: Sums,
    delta: f64,
}

/// The sums of a study, or of the options.
fn promise_of_sums(options: &Options) -> Result<Promise, Box<dyn Error>> {
    if let Some(path) = &options.study {
        let study = StudyFile::read(path)?;
        let none = || format!("{} has no `[privacy]`", path.display());
        let privacy = study.privacy.as_ref().ok_or_else(none)?;
        return Ok(Promise { sums: study.promised_sums(privacy)?, delta: privacy.delta });
    }
    let (count, delta) = (options.rounds, options.delta);
    let promise = PrivateOptions { rounds: count, ..PrivateOptions::new(options.epsilon, delta) };
    let sums = Sums { count, noise: promise.rounds()?.noise, rate: 1.0, shares: Shares::WHOLE };
    Ok(Promise { sums, delta })
}

/// Audits once without noise and several times with it.
fn compare(
    options: &Options,
    Promise { sums, delta }: Promise,
    audit: &mut dyn FnMut(Noise) -> partita_inference::Result<Audited>,
) -> Result<(), Box<dyn Error>> {
    let accounted = Accountant::of([sums.cost()?]).epsilon(delta, Conversion::Improved)?;
    let open = audit(Noise::Off)?;
    say(format_args!(
        "without noise: {} of {} guesses right, epsilon is at least {:.2}",
        open.right, open.guesses, open.epsilon
    ))?;
    if open.epsilon <= REFUTED {
        return Err(format!("the audit is none: without noise it has to refute an epsilon of {REFUTED}").into());
    }
    let mut beyond = 0;
    for run in 1..=options.runs {
        let found = audit(Noise::On)?;
        say(format_args!(
            "run {run}, noise of {:.2} clips: {} of {} guesses right, epsilon is at least {:.2}, accounted for is {accounted:.4}",
            sums.noise, found.right, found.guesses, found.epsilon
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
