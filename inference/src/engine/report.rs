//! Reports what was found: a summary of every global site on its natural scale, the bound, and what it cost.

#[cfg(feature = "plots")]
pub mod plot;
mod starts;
pub(crate) mod summary;
mod warning;

#[cfg(feature = "plots")]
pub use plot::Panel;
pub use starts::StartBound;
pub use summary::SiteSummary;
pub use warning::Warning;

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::engine::algorithm::{Ending, MethodCounts};
use crate::engine::checkpoint::write_atomically;
use crate::engine::error::{Error, Result};
use crate::engine::family::NamedFamily;
use crate::engine::run::RunRecord;
use crate::engine::settings::Settings;
use crate::engine::trust::estimate::ElboEstimate;

/// The most entries of θ that are listed for people: more are the weights of a network.
const SHOWN_THETA: usize = 32;

/// What a fit found and what it cost.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Every number of every global site, on its natural scale.
    pub sites: Vec<SiteSummary>,
    /// The family of every global site.
    pub families: Vec<NamedFamily>,
    /// What is known to be wrong with this report.
    pub warnings: Vec<Warning>,
    /// The bound in nats; not a number if a silo was absent at the end.
    pub elbo: f64,
    /// Its Monte Carlo standard error in nats.
    pub elbo_se: f64,
    /// The sampled bounds behind the bound.
    pub elbo_draws: usize,
    /// The variance of the gradient of one sampled bound by the global parameters, summed over them.
    pub gradient_variance: Option<f64>,
    /// The bounds of the starts that were tried, if several were: see [`crate::FitOptions::starts`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartBound>,
    /// The model's own trained parameters.
    pub theta: Vec<f64>,
    /// Exchanges with all silos.
    pub rounds: u64,
    /// Messages, both ways.
    pub messages: u64,
    /// Bytes of encoded messages, both ways.
    pub bytes: u64,
    /// Bytes of encoded messages that left silos.
    pub bytes_from_silos: u64,
    /// Optimiser steps of the globals.
    pub gradient_steps: u64,
    /// Steps whose gradient was clipped.
    pub clipped_steps: u64,
    /// Gradient steps of all silos together.
    pub silo_steps: u64,
    /// What the method counted beside that, in its own words; `None` if nothing.
    pub method: Option<MethodCounts>,
    /// Wall time of the fit in seconds.
    pub seconds: f64,
    /// The seed.
    pub seed: u64,
    /// The device.
    pub device: String,
    /// The algorithm with its options, as [`crate::AlgorithmChoice`] is written; the name of a method of a user's own.
    pub algorithm: serde_json::Value,
    /// Why it is this algorithm, where the options named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// The silos.
    pub silos: Vec<String>,
    /// Why the run ended.
    pub ending: Ending,
    /// The settings.
    pub options: Settings,
}

/// What a report is made of.
pub(crate) struct Found<'a> {
    pub(crate) sites: Vec<SiteSummary>,
    pub(crate) families: Vec<NamedFamily>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) bound: ElboEstimate,
    pub(crate) record: &'a RunRecord,
    pub(crate) counts: Option<MethodCounts>,
    pub(crate) algorithm: serde_json::Value,
    pub(crate) settings: &'a Settings,
    pub(crate) device: String,
    pub(crate) silos: Vec<String>,
    pub(crate) theta: Vec<f64>,
}

impl Report {
    /// Joins what summary, bound and run left.
    pub(crate) fn new(found: Found<'_>) -> Self {
        let Found { bound, record, settings, .. } = found;
        let counters = record.counters;
        Self {
            sites: found.sites,
            families: found.families,
            warnings: found.warnings.into_iter().chain(Warning::of_ending(record.ending)).collect(),
            elbo: bound.elbo,
            elbo_se: bound.standard_error,
            elbo_draws: bound.draws,
            gradient_variance: bound.gradient_variance,
            starts: Vec::new(),
            theta: found.theta,
            rounds: counters.rounds,
            messages: counters.messages,
            bytes: counters.bytes_to_silos + counters.bytes_from_silos,
            bytes_from_silos: counters.bytes_from_silos,
            gradient_steps: counters.gradient_steps,
            clipped_steps: counters.clipped_steps,
            silo_steps: counters.silo_steps,
            method: found.counts,
            seconds: record.seconds,
            seed: settings.seed,
            device: found.device,
            algorithm: found.algorithm,
            choice: None,
            silos: found.silos,
            ending: record.ending,
            options: settings.clone(),
        }
    }

    /// The summary of one number of a site.
    #[must_use]
    pub fn site(&self, label: &str) -> Option<&SiteSummary> {
        self.sites.iter().find(|summary| summary.label == label)
    }

    /// Writes the report as JSON, atomically.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::File {
            operation: "writing",
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        write_atomically(path, text.as_bytes())
    }
}

/// The name of an algorithm that is written by itself or with its options.
pub(crate) fn algorithm_name(written: &serde_json::Value) -> Option<&str> {
    written.as_str().or_else(|| written.as_object()?.keys().next().map(String::as_str))
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{:<16} {:>9} {:>9} {:>9} {:>9} {:>9}", "site", "mean", "sd", "2.5 %", "50 %", "97.5 %")?;
        for s in &self.sites {
            let q = &s.quantiles;
            writeln!(
                formatter,
                "{:<16} {:>9.4} {:>9.4} {:>9.4} {:>9.4} {:>9.4}",
                s.label, s.mean, s.sd, q.p2_5, q.p50, q.p97_5
            )?;
        }
        if self.theta.len() > SHOWN_THETA {
            writeln!(formatter, "theta: {} point estimates, too many to list", self.theta.len())?;
        } else {
            for (index, value) in self.theta.iter().enumerate() {
                writeln!(formatter, "{:<16} {value:>9.4} (point estimate)", format!("theta[{index}]"))?;
            }
        }
        for family in &self.families {
            writeln!(formatter, "{family}")?;
        }
        writeln!(
            formatter,
            "ELBO {:.2} nats (Monte Carlo standard error {:.2}, {} draws)",
            self.elbo, self.elbo_se, self.elbo_draws
        )?;
        if !self.starts.is_empty() {
            writeln!(formatter, "{}", StartBound::line(&self.starts))?;
        }
        if let Some(variance) = self.gradient_variance {
            writeln!(formatter, "variance of a one-draw gradient, summed over global parameters: {variance:.4}")?;
        }
        if let Some(reason) = &self.choice {
            let name = algorithm_name(&self.algorithm).unwrap_or("unknown");
            writeln!(formatter, "algorithm: {name}, chosen because {reason}")?;
        }
        let ending = match self.ending {
            Ending::Completed => "all steps done",
            Ending::Converged => "stopped: it had converged",
            Ending::NotConverged => "stopped: it did not converge",
            Ending::Interrupted => "interrupted: this is what was reached",
        };
        writeln!(
            formatter,
            "{} steps in {:.1} s on {} ({ending}); {}, {} rounds, {} messages, {} bytes ({} of them left silos)",
            self.gradient_steps,
            self.seconds,
            self.device,
            if self.silos.len() == 1 { "1 silo".into() } else { format!("{} silos", self.silos.len()) },
            self.rounds,
            self.messages,
            self.bytes,
            self.bytes_from_silos
        )?;
        if self.clipped_steps > 0 {
            writeln!(formatter, "gradients were clipped in {} of {} steps", self.clipped_steps, self.gradient_steps)?;
        }
        if let Some(method) = &self.method {
            write!(formatter, "{method}")?;
        }
        for warning in &self.warnings {
            writeln!(formatter, "{warning}")?;
        }
        Ok(())
    }
}
