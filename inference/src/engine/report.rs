//! Reports what was found: a summary of every global site on its natural scale, the bound, and what it cost.

mod chains;
#[cfg_attr(not(feature = "plots"), allow(dead_code, unreachable_pub, reason = "pictures use more of it than the page"))]
mod course;
#[cfg_attr(not(feature = "plots"), allow(dead_code, unreachable_pub, reason = "pictures use more of it than the page"))]
mod density;
pub(crate) mod html;
pub(crate) mod number;
#[cfg(feature = "plots")]
pub mod plot;
mod priors;
mod privacy;
mod saved;
mod starts;
pub(crate) mod summary;
mod text;
mod warning;

pub use html::{Effect, HtmlOptions, OwnChecks, PageContent, Scale, ShownContrast};
#[cfg(feature = "plots")]
pub use plot::Panel;
pub use priors::{PriorLine, PriorSource};
pub use privacy::{ClippedShare, ExpectedClipping, Privacy};
pub use starts::StartBound;
pub use summary::SiteSummary;
pub use text::in_places;
pub(crate) use warning::SAMPLE;
pub use warning::{Severity, Warning};

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::algorithm::{Ending, MethodCounts};
use crate::engine::checkpoint::write_json;
use crate::engine::error::Result;
use crate::engine::family::NamedFamily;
use crate::engine::run::RunRecord;
use crate::engine::settings::Settings;
use crate::engine::trust::estimate::ElboEstimate;
use crate::engine::trust::evaluate::Evaluation;
use crate::engine::trust::left_out_rows::LeaveOneOutOfSilos;
use crate::engine::trust::objective::Objective;
use crate::engine::trust::predictive::PredictiveChecks;
use crate::engine::trust::verdict::{Trust, Verdict};

/// What a fit found and what it cost.
///
/// Its text is for terminals, [`Report::write_json`] for programs, and [`Report::write_html`] for everybody else.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Whether to trust it.
    pub verdict: Verdict,
    /// Every number of every global site, on its natural scale, of the posterior as it is, uncorrected: [`Report::answer`] has
    /// the numbers to read. Under [`crate::Estimator::ImportanceWeighted`] it is the reweighted posterior, whose draws are each
    /// chosen among $`K`$ by their weights.
    pub sites: Vec<SiteSummary>,
    /// The family of every global site.
    pub families: Vec<NamedFamily>,
    /// What is known to be wrong with this report: the verdict is that of the gravest.
    pub warnings: Vec<Warning>,
    /// The round of trust: corrected numbers, or why there are none; of a sampler its chains.
    pub trust: Trust,
    /// The prior of every number, where it was told: see [`Report::tell_priors`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priors: Vec<PriorLine>,
    /// What is promised of single rows, and what the noise for it did; `None` where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<Privacy>,
    /// Leave-one-out over the rows of all silos, where it was asked for: see [`crate::FitOptions::leave_one_out_draws`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave_one_out: Option<LeaveOneOutOfSilos>,
    /// Posterior predictive checks, where they were asked for: see [`crate::FitOptions::checks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<PredictiveChecks>,
    /// Rows held out of the fit, where they judged it: see [`crate::Fit::judge_by_rows`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Evaluation>,
    /// What the next number is: the evidence lower bound, or another objective.
    pub objective: Objective,
    /// The bound in nats; not a number if a silo was absent at the end, and of a sampler.
    #[serde(with = "number")]
    pub elbo: f64,
    /// Its Monte Carlo standard error in nats.
    #[serde(with = "number")]
    pub elbo_se: f64,
    /// The sampled bounds behind the bound; 0 of a sampler, which has none.
    pub elbo_draws: usize,
    /// The variance of the gradient of one sampled bound by the global parameters, summed over them.
    #[serde(default, with = "number::optional")]
    pub gradient_variance: Option<f64>,
    /// The bounds of the starts that were tried, if several were: see [`crate::FitOptions::starts`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartBound>,
    /// The model's own trained parameters.
    #[serde(with = "number::list")]
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
    #[serde(with = "number")]
    pub seconds: f64,
    /// The seed.
    pub seed: u64,
    /// The device.
    pub device: String,
    /// The algorithm with its options, as [`crate::AlgorithmChoice`] is written; the name of a method of a user's own.
    pub algorithm: serde_json::Value,
    /// Why it is this algorithm, where the options named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// What single precision changes of the bound, in a sentence; `None` of a fit in double precision, of one on a device without
    /// it, and of methods that are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_precision: Option<String>,
    /// The silos.
    pub silos: Vec<String>,
    /// Why the run ended.
    pub ending: Ending,
    /// Whether the posterior had stopped moving by then; `None` where nothing says so.
    pub settled: Option<bool>,
    /// The settings; of a sampler, whose own are those of its `algorithm`, the seed alone.
    pub options: Settings,
}

/// A report as its file has it.
#[derive(Serialize)]
struct Written<'a> {
    answer: Vec<&'a SiteSummary>,
    #[serde(flatten)]
    report: &'a Report,
}

/// What a report is made of.
pub(crate) struct Found<'a> {
    pub(crate) sites: Vec<SiteSummary>,
    pub(crate) families: Vec<NamedFamily>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) trust: Trust,
    pub(crate) objective: Objective,
    pub(crate) bound: ElboEstimate,
    pub(crate) record: &'a RunRecord,
    pub(crate) counts: Option<MethodCounts>,
    pub(crate) privacy: Option<Privacy>,
    pub(crate) algorithm: serde_json::Value,
    pub(crate) settings: &'a Settings,
    pub(crate) device: String,
    pub(crate) silos: Vec<String>,
    pub(crate) theta: Vec<f64>,
    pub(crate) settled: Option<bool>,
    pub(crate) leave_one_out: Option<LeaveOneOutOfSilos>,
    pub(crate) checks: Option<PredictiveChecks>,
}

impl Report {
    /// Joins what summary, bound and run left.
    pub(crate) fn new(found: Found<'_>) -> Self {
        let Found { bound, record, settings, .. } = found;
        let counters = record.counters;
        let warnings = found.warnings.into_iter().chain(Warning::of_ending(record.ending));
        let warnings = warnings.chain(Warning::of_points(&found.sites));
        let warnings = warnings.chain(found.privacy.as_ref().map(Privacy::warnings).unwrap_or_default());
        let warnings: Vec<Warning> = warnings.chain(found.trust.warnings(found.privacy.as_ref())).collect();
        Self {
            verdict: Verdict::of(&warnings),
            sites: found.sites,
            families: found.families,
            warnings,
            trust: found.trust,
            priors: Vec::new(),
            privacy: found.privacy,
            leave_one_out: found.leave_one_out,
            checks: found.checks,
            evaluation: None,
            objective: found.objective,
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
            single_precision: None,
            silos: found.silos,
            ending: record.ending,
            settled: found.settled,
            options: settings.clone(),
        }
    }

    /// One number of the [answer](Report::answer), by its label, such as `beta[0]`.
    #[must_use]
    pub fn site(&self, label: &str) -> Option<&SiteSummary> {
        self.answer().into_iter().find(|summary| summary.label == label)
    }

    /// The same number of the posterior as it is, before a correction.
    #[must_use]
    pub fn uncorrected(&self, label: &str) -> Option<&SiteSummary> {
        self.sites.iter().find(|summary| summary.label == label)
    }

    /// The numbers to read, which its text, its page and draws of the answer have too: the corrected ones where the round of
    /// trust says that they hold, else those of the posterior as it is.
    #[must_use]
    pub fn answer(&self) -> Vec<&SiteSummary> {
        match self.trust.correction().filter(|correction| correction.is_trusted()) {
            Some(correction) => correction.sites.iter().map(|own| &own.summary).collect(),
            None => self.sites.iter().collect(),
        }
    }

    /// Whether there is a bound to tell of: it is a sum without noise, which a promise of privacy has none of, and a sampler
    /// draws none.
    fn tells_bound(&self) -> bool {
        self.privacy.is_none() && self.elbo_draws > 0
    }

    /// Takes what held-out rows say of the posterior in, and lets the verdict follow; in place of what they said before.
    pub(crate) fn judge(&mut self, found: Evaluation) {
        let before = self.evaluation.as_ref().map(|own| own.warnings(&self.trust)).unwrap_or_default();
        self.warnings.retain(|own| !before.contains(own));
        if matches!(self.trust, Trust::NotChecked { .. }) {
            // What rows say of calibration stands in place of the word that nothing was compared.
            let unchecked = self.trust.warnings(self.privacy.as_ref());
            self.warnings.retain(|own| !unchecked.contains(own));
            self.warnings.extend(unchecked.into_iter().filter(|_| found.calibration().is_none()));
        }
        self.warn(found.warnings(&self.trust));
        self.evaluation = Some(found);
    }

    /// Adds warnings, and lets the verdict follow.
    pub(crate) fn warn(&mut self, warnings: Vec<Warning>) {
        self.warnings.extend(warnings);
        self.verdict = Verdict::of(&self.warnings);
    }

    /// Writes the report as JSON, atomically: its fields, and before them `answer`, the numbers to read. `sites` of that file
    /// are the uncorrected ones, as they are here. JSON has no infinite numbers: they are the words `inf` and `-inf`, and what is
    /// no number is `null`.
    ///
    /// # Errors
    /// [`crate::Error::File`].
    pub fn write_json(&self, path: &Path) -> Result<()> {
        write_json(&Written { answer: self.answer(), report: self }, path)
    }
}

/// The name of an algorithm that is written by itself or with its options.
pub(crate) fn algorithm_name(written: &serde_json::Value) -> Option<&str> {
    written.as_str().or_else(|| written.as_object()?.keys().next().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::trust::evaluate::SiloEvaluation;
    use crate::engine::trust::predictive::SiloChecks;
    use crate::engine::trust::statistic::{PredictiveCheck, Statistic};

    /// The report of a run that nothing compared with the model.
    fn unchecked(severity: Severity) -> Report {
        Report::new(Found {
            sites: Vec::new(),
            families: Vec::new(),
            warnings: Vec::new(),
            trust: Trust::NotChecked { reason: "there are many globals".into(), severity },
            objective: Objective::Elbo,
            bound: ElboEstimate {
                elbo: -1.0,
                standard_error: 0.1,
                draws: 8,
                gradient_variance: None,
                still_moving: None,
                still_widening: None,
            },
            record: &RunRecord::default(),
            counts: None,
            privacy: None,
            algorithm: "Sfvi".into(),
            settings: &Settings::default(),
            device: "flex".into(),
            silos: vec!["a".into()],
            theta: Vec::new(),
            settled: None,
            leave_one_out: None,
            checks: None,
        })
    }

    /// Ten rows as probable as replicates of them, of which there are so many.
    fn rows(replicates: u32) -> Evaluation {
        let replicated = (0..replicates).map(|own| -10.0 + f64::from(own % 2)).collect();
        let silo = SiloEvaluation { silo: "a".into(), log_density: -9.5, rows: 10, replicated };
        Evaluation { silos: vec![silo], draws: 20 }
    }

    #[test]
    fn a_page_says_of_how_many_numbers_it_has_correlations() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        for (numbers, is_said) in [(13, true), (12, false)] {
            let draws = |number: u32| (0..50).map(|own| f64::from(own * (number + 7) % 53)).collect::<Vec<f64>>();
            let one = |number: u32| ("x".to_owned(), format!("x[{number}]"), draws(number));
            let all: Vec<_> = (0..numbers).map(one).collect();
            let report = Report { sites: summary::summarise(&all), ..unchecked(Severity::Limit) };
            PageContent::of(&HtmlOptions::default(), &[], &all, None).write_html(&report, &path).unwrap();
            let page = std::fs::read_to_string(&path).unwrap();
            assert!(page.contains("Correlations of pairs"), "{page}");
            assert_eq!(page.contains("These are the first 12 of 13 numbers."), is_said, "{page}");
        }
    }

    #[test]
    fn a_report_with_a_promise_says_whether_effects_of_rows_were_integrated_out_or_approximated() {
        let promised = Privacy { unit: "child".into(), ..Privacy::promised(3.0, 1e-5, 192, 7.5) };
        let limit = "limit: the effects of each child were approximated by normal distributions";
        for (are_integrated, words) in [
            (true, "; the effects of each child were integrated out\n"),
            (false, "; the effects of each child were approximated, not integrated out\n"),
        ] {
            let mut report = Report { privacy: Some(promised.clone()), ..unchecked(Severity::Limit) };
            report.tell_rows(are_integrated);
            let text = report.to_string();
            assert!(text.contains(words) && text.contains(limit) != are_integrated, "{text}");
            assert_eq!(text.contains("95 % intervals are too narrow"), !are_integrated, "{text}");
        }
    }

    #[test]
    fn a_bound_that_was_not_drawn_is_told_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = unchecked(Severity::Limit);
        for (draws, is_told) in [(8, true), (0, false)] {
            report.elbo_draws = draws;
            let path = folder.path().join("page.html");
            report.write_html(&path, &HtmlOptions::default()).unwrap();
            let texts = [report.to_string(), std::fs::read_to_string(path).unwrap()];
            assert!(texts.iter().all(|own| own.contains("Monte Carlo standard error") == is_told), "{texts:?}");
        }
    }

    #[test]
    fn a_p_value_that_is_no_number_is_told() {
        let check = PredictiveCheck { statistic: Statistic::Zeros, site: "visits".into() };
        let silo = |p_value| SiloChecks { silo: "a".into(), p_values: vec![p_value] };
        let silos = vec![silo(0.4), silo(f64::NAN)];
        let checks = Some(PredictiveChecks { checks: vec![check], silos, draws: 1_000 });
        let text = Report { checks, ..unchecked(Severity::Limit) }.to_string();
        assert!(text.contains("p-values of 2 silos from 0.400 to NaN, 1 fail"), "{text}");
    }

    #[test]
    fn held_out_rows_leave_a_doubt_a_doubt() {
        for (severity, verdict) in [(Severity::Doubt, Verdict::DoNotTrust), (Severity::Limit, Verdict::TrustWithLimits)]
        {
            let mut report = unchecked(severity);
            let alone = report.warnings.clone();
            assert_eq!((report.verdict, alone.len()), (verdict, 1));
            report.judge(rows(8));
            let text = report.to_string();
            assert_eq!(report.verdict, verdict, "{text}");
            assert!(!text.contains("convergence alone") && text.contains("on predictions alone"), "{text}");
            // Too few replicates say nothing of calibration: what was said before is said again, once.
            report.judge(rows(2));
            report.judge(rows(2));
            assert_eq!((report.verdict, &report.warnings), (verdict, &alone));
        }
    }
}
