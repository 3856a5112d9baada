//! Makes a silo of a private fit by any method: it answers with what follows from noised sums, and with nothing else.

use partita_core::{Device, Model};
use partita_inference::{
    AlgorithmChoice, AveragingSilo, Error, FedOptOptions, FitOptions, Manifest, Mechanism, PrivateParty,
    PrivateRoundsSilo, PrivateSfviSilo, PrivateSteps, PviOptions, PviSilo, Result, RoundOptions, Settings, Silo,
    SiloProgram,
};

use super::NoisedSums;
use super::subject::{study_alone, subject};

/// Which silo of which fit it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seated<'a> {
    pub(crate) name: &'a str,
    /// Its place among the silos.
    pub(crate) index: u32,
    /// The name of the study: a ledger answers an identical request about the same one from what it stores.
    pub(crate) study: &'a str,
}

/// The silo of a fit, and the number of its rows.
pub(crate) type Party = (Box<dyn SiloProgram>, usize);

/// The silo of a fit by a private algorithm, whose sums `sums` makes private, and the number of its rows.
///
/// # Errors
/// [`Error::Setting`] for an algorithm without a promise, and for what the method refuses of the model.
pub(crate) fn silo<M: Model>(
    seated: Seated<'_>,
    (model, data): (&M, &M::Data),
    device: &Device,
    fit: &FitOptions,
    sums: NoisedSums,
) -> Result<Party> {
    let Seated { name, study, .. } = seated;
    let about = subject(study, model, data, device).map_err(|error| error.in_silo(name, 0))?;
    silo_by(seated, (model, data), device, fit, Box::new(sums.about(about, study_alone(study))))
}

/// The same by any mechanism, which knows what its sums are about.
///
/// # Errors
/// As for [`silo`].
pub(crate) fn silo_by<M: Model>(
    Seated { name, index, .. }: Seated<'_>,
    (model, data): (&M, &M::Data),
    device: &Device,
    fit: &FitOptions,
    sums: Box<dyn Mechanism>,
) -> Result<Party> {
    // No rate of private steps follows from bounds.
    let schedule = fit.settings.schedule.of_steps();
    let settings = &Settings { schedule, ..fit.settings.clone() };
    let own = |settings| -> Result<Silo> {
        let silo = Silo::new(name, index, model, data, device, settings)?;
        Ok(match fit.private_seed {
            Some(seed) => silo.private_seed(seed),
            None => silo,
        })
    };
    let (program, rows) = match &fit.algorithm {
        AlgorithmChoice::PrivateRounds(how) => {
            let silo = PrivateRoundsSilo::new(name, model, data, device, settings, how, sums)?;
            let (rows, manifest) = (silo.rows(), silo.manifest());
            (noised_alone(silo, manifest), rows)
        }
        AlgorithmChoice::PrivateSfvi(how) => {
            let silo = PrivateSfviSilo::new(own(settings)?, index, how, sums)?;
            let (rows, manifest) = (silo.rows(), silo.manifest());
            (noised_alone(silo, manifest), rows)
        }
        AlgorithmChoice::Pvi(how) => {
            let silo = PviSilo::new(own(settings)?, index, how.clone())?.private(sums)?;
            let (rows, manifest) = (silo.rows(), silo.manifest());
            (noised_alone(silo, manifest), rows)
        }
        AlgorithmChoice::SfviAvg(how) => {
            averaging(AveragingSilo::new(own(settings)?, index).at_most(how.local_steps), how.private, sums)?
        }
        AlgorithmChoice::FedOpt(how) => {
            let silo = own(&how.settings(settings.clone()))?;
            averaging(AveragingSilo::of_points(silo, index)?.at_most(how.local_steps), how.private, sums)?
        }
        other => {
            return Err(Error::Setting {
                setting: "algorithm",
                found: format!("{other:?} for a private silo"),
                expected: "a method with a promise, as `private::fit` and studies with `[privacy]` make it",
            });
        }
    };
    delta(&fit.algorithm).map_or(Ok(()), |delta| check_delta("the run", delta, rows))?;
    Ok((program, rows))
}

/// The delta of a promise.
fn delta(algorithm: &AlgorithmChoice) -> Option<f64> {
    match algorithm {
        AlgorithmChoice::PrivateRounds(own) => Some(own.delta),
        AlgorithmChoice::PrivateSfvi(own) => Some(own.delta),
        AlgorithmChoice::SfviAvg(RoundOptions { private, .. })
        | AlgorithmChoice::FedOpt(FedOptOptions { private, .. })
        | AlgorithmChoice::Pvi(PviOptions { private, .. }) => private.map(|own| own.delta),
        _ => None,
    }
}

/// Whether a promise, or a budget, is one for a silo of so many rows: with a delta of one in as many, handing out one
/// row as it is would keep it.
///
/// # Errors
/// [`Error::Setting`] if it is not.
#[expect(clippy::cast_precision_loss, reason = "rows are far fewer than 2^52")]
pub(crate) fn check_delta(whose: &str, delta: f64, rows: usize) -> Result<()> {
    if delta * (rows as f64) < 1.0 {
        return Ok(());
    }
    Err(Error::Setting {
        setting: "delta",
        found: format!("{delta:e} of {whose}, for a silo of {rows} rows"),
        expected: "less than one over the rows of the largest silo, such as a hundredth of that: with more, one row could be handed out as it is",
    })
}

/// A silo of rounds of local steps, and the number of its rows.
fn averaging(silo: AveragingSilo, private: Option<PrivateSteps>, sums: Box<dyn Mechanism>) -> Result<Party> {
    let silo = silo.private(private, sums)?;
    let (rows, manifest) = (silo.rows(), silo.manifest());
    Ok((noised_alone(silo, manifest), rows))
}

/// A silo that holds back every field which its manifest does not list as public or noised.
fn noised_alone(silo: impl SiloProgram + 'static, manifest: Manifest) -> Box<dyn SiloProgram> {
    Box::new(PrivateParty::new(Box::new(silo), manifest))
}
