//! Makes one party of a fit, the coordinator or a silo, for whichever algorithm is chosen.

use partita_core::{AnyData, AnyModel, Device};

use super::{AlgorithmChoice, FitOptions};
use crate::engine::algorithm::Algorithm;
use crate::engine::error::{Error, Result};
use crate::engine::exchange::SiloProgram;
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::rows::outermost_rows;
use crate::engine::settings::Settings;
use crate::engine::terms::Silo;
use crate::engine::terms::particles::Worker;
use crate::engine::trust::judging::{Integrates, JudgingSilo};
use crate::methods::columns::VerticalOptions;
use crate::methods::few_rounds::{FewRounds, FewRoundsSilo, PrivateRounds};
use crate::methods::pvi::{Factors, PriorShare, Pvi, PviOptions, PviSilo};
use crate::methods::rounds::{AveragingSilo, DeviceAveragingSilo, FedOpt, SfviAvg};
use crate::methods::sfvi::{Central, CentralSilo, OnDeviceSilo, PrivateSfvi, Sfvi};

impl AlgorithmChoice {
    /// Whether silos answer with what follows from noised sums over clipped rows alone.
    ///
    /// # Example
    /// ```
    /// use partita_inference::{AlgorithmChoice, PrivateSfviOptions};
    /// assert!(AlgorithmChoice::PrivateSfvi(PrivateSfviOptions::new(1.0, 1e-5, 20.0)).is_private());
    /// assert!(!AlgorithmChoice::Sfvi.is_private());
    /// ```
    #[must_use]
    pub fn is_private(&self) -> bool {
        match self {
            Self::PrivateRounds(_) | Self::PrivateSfvi(_) => true,
            Self::SfviAvg(how) => how.private.is_some(),
            Self::FedOpt(how) => how.private.is_some(),
            Self::Pvi(how) => how.private.is_some(),
            _ => false,
        }
    }

    /// Whether its steps find their learning rate; of private ones no rate may follow from bounds.
    pub(super) fn adapts(&self) -> bool {
        match self {
            // A visit on a device is read once, at its end: its rate cannot follow from its steps.
            Self::Pvi(how) => !how.on_device && !self.is_private(),
            Self::Automatic | Self::Sfvi | Self::Central | Self::SfviAvg(_) => !self.is_private(),
            _ => false,
        }
    }
}

/// The coordinator, given the names of the silos and how many rows each has.
pub(super) fn coordinator(
    model: &AnyModel,
    names: &[String],
    rows: &[usize],
    device: &Device,
    choice: &AlgorithmChoice,
    settings: &Settings,
) -> Result<Box<dyn Algorithm>> {
    let sizes = rows.to_vec();
    caught(COORDINATOR, || {
        Ok(match choice {
            AlgorithmChoice::Automatic | AlgorithmChoice::Sfvi => {
                Box::new(Sfvi::new(model, device, settings, names)?) as Box<dyn Algorithm>
            }
            AlgorithmChoice::FewRounds(how) => Box::new(FewRounds::new(model, device, settings, names, how)?),
            AlgorithmChoice::PrivateRounds(how) => {
                Box::new(PrivateRounds::new(model, device, settings, names, rows, how)?)
            }
            AlgorithmChoice::PrivateSfvi(how) => Box::new(PrivateSfvi::new(model, device, settings, names, rows, how)?),
            AlgorithmChoice::SfviAvg(how) => {
                Box::new(SfviAvg::new(model, device, settings, names, sizes, how.clone())?)
            }
            AlgorithmChoice::FedOpt(how) => Box::new(FedOpt::new(model, device, settings, names, sizes, how.clone())?),
            AlgorithmChoice::Pvi(how) => Box::new(pvi(model, names, rows, device, how, settings)?),
            AlgorithmChoice::OnDevice { interval } => {
                Box::new(Central::new(model, device, settings, only(names)?)?.every(*interval)?)
            }
            AlgorithmChoice::Central => Box::new(Central::new(model, device, settings, only(names)?)?),
            AlgorithmChoice::Vertical(how) => return Err(vertical(how)),
        })
    })
}

/// The coordinator of PVI.
pub(super) fn pvi(
    model: &AnyModel,
    names: &[String],
    rows: &[usize],
    device: &Device,
    how: &PviOptions,
    settings: &Settings,
) -> Result<Pvi> {
    let missing = rows.iter().position(|rows| *rows == 0).filter(|_| rows.iter().any(|rows| *rows > 0));
    let by_size = [
        ("damping_by_size", how.damping_by_size),
        ("prior", how.prior == PriorShare::BySize),
        ("factors", how.factors == Factors::SharedBySize),
    ];
    if let (Some(silo), Some((setting, _))) = (missing, by_size.iter().find(|(_, is_set)| *is_set)) {
        return Err(Error::Setting {
            setting,
            found: format!("silo `{}` without a number of rows: it is not there yet", names[silo]),
            expected: "all silos there when the run begins, since each counts by its rows; or shares that are not by size",
        });
    }
    // A model without plates has no rows to count: its silos count alike.
    let sizes = rows.iter().map(|rows| *rows.max(&1)).collect();
    Pvi::new(model, device, settings, names, sizes, how.clone())
}

/// The `index`-th silo, and how many rows it has.
pub(super) fn silo(
    model: &AnyModel,
    name: &str,
    index: u32,
    data: &AnyData,
    device: &Device,
    options: &FitOptions,
    settings: &Settings,
) -> Result<(Box<dyn SiloProgram>, usize)> {
    let judging = |program, integrates| {
        let worker = Worker { model: model.clone(), data: data.clone() };
        Box::new(JudgingSilo::new(program, index, worker, device, settings, integrates)) as Box<dyn SiloProgram>
    };
    let choice = &options.algorithm;
    caught(name, || {
        let program: Box<dyn SiloProgram> = match choice {
            AlgorithmChoice::FewRounds(how) => {
                let silo = FewRoundsSilo::new(name, model, data, device, settings, how)?;
                let rows = outermost_rows(silo.table());
                return Ok((judging(Box::new(silo), Integrates::Itself), rows));
            }
            AlgorithmChoice::OnDevice { .. } => Box::new(OnDeviceSilo::new(name, model, data, device, settings)?),
            AlgorithmChoice::Central => Box::new(CentralSilo::new(name, model, data, device, settings)?),
            AlgorithmChoice::Vertical(how) => return Err(vertical(how)),
            private if private.is_private() => {
                return Err(Error::Setting {
                    setting: "algorithm",
                    found: format!("a private method for silo `{name}`, which has no mechanism"),
                    expected: "a silo with the mechanism of its owner: studies with `[privacy]`, or `private::fit`",
                });
            }
            _ => {
                let silo = Silo::new(name, index, model, data, device, settings)?;
                let silo = match options.private_seed {
                    Some(seed) => silo.private_seed(seed),
                    None => silo,
                };
                let rows = outermost_rows(silo.table());
                let program: Box<dyn SiloProgram> = match choice {
                    AlgorithmChoice::SfviAvg(how) if how.on_device => {
                        Box::new(DeviceAveragingSilo::new(silo, index)?.at_most(how.local_steps))
                    }
                    AlgorithmChoice::SfviAvg(how) => Box::new(AveragingSilo::new(silo, index).at_most(how.local_steps)),
                    AlgorithmChoice::FedOpt(how) if how.on_device => {
                        Box::new(DeviceAveragingSilo::of_points(silo, index)?.at_most(how.local_steps))
                    }
                    AlgorithmChoice::FedOpt(how) => {
                        Box::new(AveragingSilo::of_points(silo, index)?.at_most(how.local_steps))
                    }
                    AlgorithmChoice::Pvi(how) => Box::new(PviSilo::new(silo, index, how.clone())?),
                    _ => Box::new(silo),
                };
                return Ok((judging(program, Integrates::Here), rows));
            }
        };
        // Pooled data are not asked how many rows they have.
        Ok((judging(program, Integrates::Here), 0))
    })
}

fn vertical(how: &VerticalOptions) -> Error {
    Error::Setting {
        setting: "algorithm",
        found: format!("{how:?}"),
        expected: "an algorithm for silos with different rows; `vertical::fit` serves parties with different columns",
    }
}

/// The one silo of a fit of pooled data.
pub(super) fn only(names: &[String]) -> Result<&String> {
    match names {
        [name] => Ok(name),
        [] => Err(Error::NoSilos),
        more => Err(Error::Setting {
            setting: "silos",
            found: more.len().to_string(),
            expected: "one silo with the pooled data for `Central` and `OnDevice`; use `Sfvi` for more",
        }),
    }
}
