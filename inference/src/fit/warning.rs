//! Says what is known to go wrong with the method of a fit, what it does to the answer, and what to do about it.

use partita_core::{Device, LogDensity, Model, Part, Site, SiteTable, theta, with_theta};

use super::AlgorithmChoice;
use crate::engine::algorithm::Ending;
use crate::engine::error::Result;
use crate::engine::exchange::SiloProgram;
use crate::engine::optimiser::Schedule;
use crate::engine::report::{Severity, Warning};
use crate::engine::run::Counters;
use crate::engine::settings::Settings;
use crate::engine::trust::still_moving::{SETTLED, StillMoving};
use crate::methods::rounds::RoundOptions;

/// The part of the steps whose gradients may be clipped without a word.
const CLIPPED: f64 = 0.1;

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

    /// That an adaptive rate had not come to its end when a run of all its steps did.
    pub(crate) fn of_limit(algorithm: &AlgorithmChoice, settings: &Settings, ending: Ending) -> Option<Self> {
        let adapts =
            matches!(algorithm, AlgorithmChoice::Sfvi | AlgorithmChoice::Central | AlgorithmChoice::SfviAvg(_));
        let is_adaptive = adapts && matches!(settings.schedule, Schedule::Adaptive { .. });
        let problem = format!("the limit of {} steps came before the end that the adaptive rate finds", settings.steps);
        let remedy = "Raise `steps`: a longer run may have a higher bound and other moments.".to_owned();
        (is_adaptive && ending == Ending::Completed).then(|| Self::new(Severity::Limit, problem, remedy))
    }

    /// That the means of a posterior would still move.
    pub(crate) fn of_movement(moves: StillMoving, table: &SiteTable) -> Option<Self> {
        if moves.has_settled() {
            return None;
        }
        let problem = "the means have not settled: by its gradient one would still move, in standard deviations, by";
        let remedy = "Take more steps, or another algorithm, until it stays.";
        let warning = Self::new(Severity::Doubt, problem, remedy).measured(moves.distance.abs());
        let number = moves.component;
        let holds = |site: &&Site| (site.offset()..site.offset() + site.width()).contains(&number);
        let site = table.latents(Part::Global).find(holds).map_or_else(String::new, |site| site.name.clone());
        Some(warning.at(&site).beyond(SETTLED, "standard deviations, beyond four standard errors"))
    }

    /// That many gradients were clipped: what is fitted is then not what the gradients say.
    #[expect(clippy::cast_precision_loss, reason = "steps are far below 2^52")]
    pub(crate) fn of_clips(counters: &Counters) -> Option<Self> {
        let share = counters.clipped_steps as f64 / counters.gradient_steps.max(1) as f64;
        let problem = "gradients were clipped in a part of the steps";
        let remedy = "Raise the norm of the clip, or lower the learning rate.";
        let warning =
            || Self::new(Severity::Limit, problem, remedy).measured(share).beyond(CLIPPED, "a part of the steps");
        (share > CLIPPED).then(warning)
    }

    /// What a fit that stays on the device copies to the host at every step all the same: one warning a site.
    ///
    /// # Errors
    /// What the model refuses.
    pub(crate) fn of_host_operations<M: Model>(model: &M, data: &M::Data, device: &Device) -> Result<Vec<Self>> {
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
            let remedy = "Write it with Burn's operations where `scope.stays_on_device()`, or fit with another algorithm than `OnDevice`.";
            Self::new(Severity::Note, problem, remedy).at(&site)
        };
        Ok(found.into_iter().map(warning).collect())
    }
}
