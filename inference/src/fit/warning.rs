//! Says what is known to go wrong with the method of a fit, what it does to the answer, and what to do about it.

use partita_core::{AnyData, AnyModel, Device, LogDensity, SiteTable, theta, with_theta};

use super::AlgorithmChoice;
use crate::engine::error::Result;
use crate::engine::exchange::SiloProgram;
use crate::engine::report::{Severity, Warning};
use crate::methods::few_rounds::FewRoundsOptions;
use crate::methods::pvi::PviOptions;
use crate::methods::rounds::{FedOptOptions, RoundOptions};

/// Whether a model has local latents, as far as the party knows that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalLatents {
    /// It has none.
    None,
    /// It has some.
    Some,
    /// The data that would say are elsewhere.
    Unknown,
}

impl LocalLatents {
    /// Whether any of these silos has local latents.
    ///
    /// # Errors
    /// As for [`SiloProgram::local_moments`].
    pub fn of(silos: &[Box<dyn SiloProgram>]) -> Result<Self> {
        for silo in silos {
            if silo.local_moments()?.iter().any(|(means, _)| !means.is_empty()) {
                return Ok(Self::Some);
            }
        }
        Ok(Self::None)
    }
}

/// Whether the steps of a method stay on a device between two reads.
pub(super) fn stays_on_device(algorithm: &AlgorithmChoice) -> bool {
    use AlgorithmChoice::{FedOpt, FewRounds, OnDevice, Pvi, SfviAvg};
    matches!(
        algorithm,
        OnDevice { .. }
            | SfviAvg(RoundOptions { on_device: true, .. })
            | FedOpt(FedOptOptions { on_device: true, .. })
            | Pvi(PviOptions { on_device: true, .. })
            | FewRounds(FewRoundsOptions { on_device: true, .. })
    )
}

impl Warning {
    /// What is known of a method before its first step.
    #[must_use]
    pub fn of(algorithm: &AlgorithmChoice, locals: LocalLatents, silos: usize) -> Vec<Self> {
        let AlgorithmChoice::SfviAvg(RoundOptions { scale_entropy: false, .. }) = algorithm else { return Vec::new() };
        let condition = match locals {
            // A silo alone stands in for no other.
            _ if silos < 2 => return Vec::new(),
            LocalLatents::None => return Vec::new(),
            LocalLatents::Some => "this model has local latents, and",
            LocalLatents::Unknown => "where a model has local latents,",
        };
        let problem = format!(
            "{condition} SFVI-Avg without `scale_entropy` makes their posteriors too narrow and those of the globals wrong"
        );
        let remedy = "Set `scale_entropy`, or take PVI or SFVI.".to_owned();
        vec![Self::new(Severity::Doubt, problem, remedy)]
    }

    /// What a fit that stays on the device copies to the host at every step all the same: one warning a site.
    ///
    /// # Errors
    /// What the model refuses.
    pub(crate) fn of_host_operations(model: &AnyModel, data: &AnyData, device: &Device) -> Result<Vec<Self>> {
        let model = with_theta(model, &theta(model)?, device)?;
        let table = SiteTable::of(&model, device, data)?;
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for (site, operation) in LogDensity::new(&model, device, &table).host_operations(data)? {
            match found.iter_mut().find(|(known, _)| *known == site) {
                Some((_, operations)) => operations.push(format!("`{operation}`")),
                None => found.push((site, vec![format!("`{operation}`")])),
            }
        }
        let warning = |(site, mut operations): (String, Vec<String>)| {
            operations.dedup();
            let named = operations.join(", ");
            let problem = format!(
                "{named} before this site has no device form: every step copies what it takes to the host, and back"
            );
            let remedy = "Write it with Burn's operations where `scope.stays_on_device()`, or fit with an algorithm that computes on the host.";
            Self::new(Severity::Note, problem, remedy).at(&site)
        };
        Ok(found.into_iter().map(warning).collect())
    }
}
