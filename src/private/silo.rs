//! Makes a silo of a private fit by any method: it answers with what follows from noised sums, and with nothing else.

use partita_core::{Device, Model};
use partita_inference::{
    AlgorithmChoice, AveragingSilo, Error, FitOptions, Manifest, Mechanism, PrivateParty, PrivateRoundsSilo,
    PrivateSfviSilo, PrivateSteps, PviSilo, Result, Settings, Silo, SiloProgram,
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
    let of_steps = |private: Option<PrivateSteps>| private.map(|own| own.delta);
    let (delta, (program, rows)) = match &fit.algorithm {
        AlgorithmChoice::PrivateRounds(how) => {
            let silo = PrivateRoundsSilo::new(name, model, data, device, settings, how, sums)?;
            (Some(how.delta), noised_alone(silo.rows(), silo.manifest(), silo))
        }
        AlgorithmChoice::PrivateSfvi(how) => {
            let silo = PrivateSfviSilo::new(own(settings)?, index, how, sums)?;
            (Some(how.delta), noised_alone(silo.rows(), silo.manifest(), silo))
        }
        AlgorithmChoice::Pvi(how) => {
            let silo = PviSilo::new(own(settings)?, index, how.clone())?.private(sums)?;
            (of_steps(how.private), noised_alone(silo.rows(), silo.manifest(), silo))
        }
        AlgorithmChoice::SfviAvg(how) => {
            let silo = AveragingSilo::new(own(settings)?, index);
            let silo = silo.at_most(how.local_steps).private(how.private, sums)?;
            (of_steps(how.private), noised_alone(silo.rows(), silo.manifest(), silo))
        }
        AlgorithmChoice::FedOpt(how) => {
            let silo = AveragingSilo::of_points(own(&how.settings(settings.clone()))?, index)?;
            let silo = silo.at_most(how.local_steps).private(how.private, sums)?;
            (of_steps(how.private), noised_alone(silo.rows(), silo.manifest(), silo))
        }
        other => {
            return Err(Error::Setting {
                setting: "algorithm",
                found: format!("{other:?} for a private silo"),
                expected: "a method with a promise, as `private::fit` and studies with `[privacy]` make it",
            });
        }
    };
    delta.map_or(Ok(()), |delta| check_delta("the run", delta, rows))?;
    Ok((program, rows))
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

/// A silo of so many rows that holds back every field which its manifest does not list as public or noised.
fn noised_alone(rows: usize, manifest: Manifest, silo: impl SiloProgram + 'static) -> Party {
    (Box::new(PrivateParty::new(Box::new(silo), manifest)), rows)
}
