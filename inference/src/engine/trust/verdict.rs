//! Says in one line whether to trust a report, and why not.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::chains::ChainDiagnostics;
use super::correction::Correction;
use super::evaluate::Evaluation;
use super::left_out::LeftOut;
use crate::engine::family::real;
use crate::engine::report::{Privacy, SAMPLE, Severity, Warning};

/// Whether the numbers of a report are to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Nothing that was looked at speaks against them.
    Trust,
    /// They hold within limits that warnings state.
    TrustWithLimits,
    /// They may be wrong: warnings say why, and what to do.
    DoNotTrust,
}

impl Verdict {
    /// What the gravest of some warnings amounts to.
    pub(crate) fn of(warnings: &[Warning]) -> Self {
        match warnings.iter().map(|warning| warning.severity).max() {
            None | Some(Severity::Note) => Self::Trust,
            Some(Severity::Limit) => Self::TrustWithLimits,
            Some(Severity::Doubt) => Self::DoNotTrust,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Trust => "trust these numbers",
            Self::TrustWithLimits => "trust these numbers, with the limits below",
            Self::DoNotTrust => "do not trust these numbers, for the reasons below",
        })
    }
}

/// What the round of trust found, or why there was none; of a sampler what is known of its chains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Trust {
    /// All silos answered.
    Checked(Correction),
    /// There is none of draws of the posterior itself: chains are judged by each other.
    Sampled(ChainDiagnostics),
    /// It was not held.
    NotChecked {
        /// Why.
        reason: String,
        /// How grave that is.
        severity: Severity,
    },
}

impl Trust {
    /// The corrected numbers, where there are some.
    #[must_use]
    pub fn correction(&self) -> Option<&Correction> {
        match self {
            Self::Checked(correction) => Some(correction),
            Self::Sampled(_) | Self::NotChecked { .. } => None,
        }
    }

    /// The chains of a sampler.
    #[must_use]
    pub fn chains(&self) -> Option<&ChainDiagnostics> {
        match self {
            Self::Sampled(chains) => Some(chains),
            Self::Checked(_) | Self::NotChecked { .. } => None,
        }
    }

    /// What it means for the numbers of a report, which may promise privacy.
    pub(crate) fn warnings(&self, privacy: Option<&Privacy>) -> Vec<Warning> {
        match self {
            Self::Checked(correction) => of_correction(correction),
            Self::Sampled(chains) => chains.warnings.clone(),
            Self::NotChecked { reason, severity } => vec![Warning::new(
                *severity,
                format!(
                    "the posterior was not compared with the model itself, and the verdict rests on convergence alone: {reason}"
                ),
                match privacy {
                    // What compares with rows, or holds some out, has no noise and is refused.
                    Some(_) => "What can be judged without it is judged here: the noise, the clip and the last round. A new study by another method (`algorithm` of `[run]`), with a budget of its own, shows whether the two agree.".to_owned(),
                    None => format!(
                        "{SAMPLE}; or judge it by rows held out of the fit (in Rust `Fit::judge_by_rows`; `held_out` of silos elsewhere; `vertical::predict` of columns), by `checks` of a study, or by fits from several starts."
                    ),
                },
            )],
        }
    }
}

/// Why there is no round of trust, and how grave that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoRound {
    pub(crate) reason: String,
    pub(crate) severity: Severity,
}

impl From<String> for NoRound {
    fn from(reason: String) -> Self {
        Self { reason, severity: Severity::Limit }
    }
}

impl From<NoRound> for Trust {
    fn from(NoRound { reason, severity }: NoRound) -> Self {
        Self::NotChecked { reason, severity }
    }
}

/// The standard deviations of their own spread that predictions may be off on held-out rows.
const CALIBRATED: f64 = 4.0;
/// What predictions of held-out rows are judged by.
const SPIEGELHALTER: &str = "standard deviations; Spiegelhalter (1986)";

impl Evaluation {
    /// One line for a report.
    pub(crate) fn line(&self) -> String {
        let (rows, mean) = (self.rows(), self.mean());
        let calibration = self
            .calibration()
            .map(|own| format!(", {own:+.1} standard deviations from what predictions say of themselves"));
        format!("{rows} held-out rows: {mean:.4} nats a row{}", calibration.unwrap_or_default())
    }

    /// What it means for the verdict on a posterior that was checked otherwise or not.
    pub(crate) fn warnings(&self, trust: &Trust) -> Vec<Warning> {
        let Some(found) = self.calibration() else { return Vec::new() };
        let mut all = Vec::new();
        if found.abs() > CALIBRATED {
            let (severity, problem, remedy) = if found < 0.0 {
                (
                    Severity::Doubt,
                    "predictions are surer than they should be: held-out rows are less probable than rows that they predict, by",
                    "Look for a shift between the rows; widen what the model expects, as by a heavier tail; take a richer family.",
                )
            } else {
                (
                    Severity::Limit,
                    "predictions are less sure than they should be: held-out rows are more probable than rows that they predict, by",
                    "Their intervals are too wide: run longer, or take a model that says more of the rows.",
                )
            };
            all.push(Warning::new(severity, problem, remedy).measured(found).beyond(CALIBRATED, SPIEGELHALTER));
        }
        if let Trust::NotChecked { reason, severity } = trust {
            let problem = format!(
                "the verdict rests on convergence, on {} held-out rows ({:.4} nats a row) and on the calibration of what is predicted, and is on predictions alone: {reason}",
                self.rows(),
                self.mean()
            );
            let remedy = "Do not read single weights: their means and deviations were not compared with the model.";
            all.push(Warning::new(*severity, problem, remedy));
        }
        all
    }
}

/// The Monte Carlo error of a corrected mean, in standard deviations, that shows, and the one that is too large.
const SMALL_ERROR: f64 = 0.06;
const LARGE_ERROR: f64 = 0.12;
/// The effective draws below which nothing is said of a silo that is left out.
const FEW_DRAWS: f64 = 100.0;
/// The part of the draws at which the density may be zero without a word.
const IMPOSSIBLE: f64 = 0.01;
/// The standard deviations that the mean of an approximation may be off, and the part that its deviation may.
const OFF_MEAN: f64 = 0.2;
const OFF_DEVIATION: f64 = 0.25;
/// The standard deviations beyond which a silo, or the prior, disagrees with the rest.
const CONFLICT: f64 = 4.0;

/// What to do where a shape is below its threshold by less than its own error.
const TO_BE_CERTAIN: &str = "Fit again with another seed, which has other draws (`--seed 2` of `partita fit`), and compare; or sample where data may be pooled (`--method nuts`).";
const VEHTARI: &str = "Vehtari, Simpson, Gelman, Yao and Gabry (2024)";

fn of_correction(correction: &Correction) -> Vec<Warning> {
    let mut all = Vec::new();
    let Correction { pareto_k, threshold, effective_sample_size, .. } = *correction;
    if !correction.is_trusted() {
        let problem =
            "the posterior differs from its approximation by more than importance weights can correct: Pareto k";
        let remedy = format!(
            "{SAMPLE}; or look for what is not identified, has several modes or heavy tails, and declare it in other terms."
        );
        let warning = Warning::new(Severity::Doubt, problem, remedy);
        return vec![warning.measured(pareto_k).beyond(threshold, VEHTARI)];
    }
    if !correction.is_surely_below(pareto_k) {
        let problem = "it is not certain that importance weights correct the posterior: their Pareto k is below the threshold by less than the error of its estimate";
        let warning = Warning::new(Severity::Limit, problem, TO_BE_CERTAIN);
        all.push(warning.measured(pareto_k).beyond(threshold, VEHTARI));
    }
    all.extend(of_spread(correction));
    let error = correction.largest_error();
    if error > SMALL_ERROR {
        let severity = if error > LARGE_ERROR { Severity::Doubt } else { Severity::Limit };
        let problem = format!(
            "the corrected numbers rest on draws that are worth {effective_sample_size:.0}: a mean or a standard deviation has an error, in standard deviations, of"
        );
        let remedy = format!("{SAMPLE}; in Rust `FitOptions::trust_draws` takes more draws too.");
        let threshold = if error > LARGE_ERROR { LARGE_ERROR } else { SMALL_ERROR };
        all.push(Warning::new(severity, problem, remedy).measured(error).beyond(threshold, "standard deviations"));
    }
    let impossible = real(correction.impossible) / real(correction.draws);
    if impossible > IMPOSSIBLE {
        let problem = "the density is zero, or no number, at a part of the draws around the posterior";
        let remedy = "Look for an argument of a distribution that leaves its range, such as an overflow.";
        all.push(
            Warning::new(Severity::Limit, problem, remedy)
                .measured(impossible)
                .beyond(IMPOSSIBLE, "a part of the draws"),
        );
    }
    all.extend(of_approximation(correction));
    for left_out in correction.left_out.iter().filter(|own| own.is_trusted()) {
        all.extend(of_conflict(left_out, correction));
    }
    all
}

/// That the spread of a number comes from farther out than the draws are.
fn of_spread(correction: &Correction) -> Option<Warning> {
    let shapes = correction.sites.iter().filter_map(|own| Some((own, own.sd_pareto_k?)));
    let (worst, shape) = shapes.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    if correction.is_surely_below(shape) {
        return None;
    }
    let warning = if shape < correction.threshold {
        let problem = "it is not certain that the standard deviation is right: the Pareto k of what draws far out add to the variance is below the threshold by less than the error of its estimate";
        Warning::new(Severity::Limit, problem, TO_BE_CERTAIN)
    } else {
        let problem =
            "much of the variance comes from a few draws far out, and more may be farther: Pareto k of what they add";
        let remedy =
            format!("{SAMPLE}; or look for what is not identified or has a heavy tail, and give it a narrower prior.");
        Warning::new(Severity::Doubt, problem, remedy)
    };
    let warning = warning.at(&worst.summary.label);
    Some(warning.measured(shape).beyond(correction.threshold, VEHTARI))
}

/// That the approximation, from which draws and predictions come, is off.
fn of_approximation(correction: &Correction) -> Option<Warning> {
    let by_mean = correction.sites.iter().map(|own| (own, own.moved.abs() / OFF_MEAN));
    let by_deviation = correction.sites.iter().map(|own| (own, (own.sd_ratio - 1.0).abs() / OFF_DEVIATION));
    let (worst, off) = by_mean.chain(by_deviation).max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    if off <= 1.0 {
        return None;
    }
    let problem = format!(
        "the approximation is off, which the table corrects: its mean by {:.2} standard deviations, and its standard deviation is {:.2} of the right one",
        worst.moved.abs(),
        worst.sd_ratio
    );
    let remedy = "The table is of the corrected numbers, and so are contrasts, predictions and posterior.csv, by the same weighted draws. Local latents and the draws of `Fit::draws` are of the approximation.";
    Some(Warning::new(Severity::Limit, problem, remedy).at(&worst.summary.label))
}

/// That a silo, or the prior, disagrees with the rest.
fn of_conflict(left_out: &LeftOut, correction: &Correction) -> Option<Warning> {
    if left_out.effective_sample_size < FEW_DRAWS {
        return None;
    }
    let conflicts = left_out.sites.iter().map(|own| own.conflict.abs()).enumerate();
    let (place, conflict) = conflicts.filter(|(_, own)| own.is_finite()).max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    if conflict <= CONFLICT {
        return None;
    }
    let (problem, remedy) = match &left_out.silo {
        Some(_) => (
            "this silo disagrees with all others together",
            "Look at its data; or let what it disagrees about vary between silos, as a latent of the silo.",
        ),
        None => ("the prior disagrees with the data", "Look at the units of the data and at the prior."),
    };
    let warning = Warning::new(Severity::Limit, problem, remedy).of_silo(left_out.silo.as_ref());
    Some(warning.at(&correction.sites[place].summary.label).measured(conflict).beyond(CONFLICT, "standard deviations"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::report::SiteSummary;
    use crate::engine::trust::correction::CorrectedSite;

    #[test]
    fn a_shape_within_its_error_of_the_threshold_is_a_limit_and_one_above_it_a_doubt() {
        // Of 16,384 draws a shape has to be below (0.7 - a) / (1 + a) with a = 1.645 / √384: 0.568.
        let found = |pareto_k: f64, sd_pareto_k: f64| {
            let summary = SiteSummary::of("a".into(), "a".into(), &[-1.0, 0.0, 1.0]);
            let (error, sd_error, moved, sd_ratio, skewness) = (0.01, 0.01, 0.0, 1.0, 0.0);
            let sd_pareto_k = Some(sd_pareto_k);
            let correction = Correction {
                draws: 16_384,
                pareto_k,
                threshold: 0.7,
                effective_sample_size: 5_000.0,
                log_evidence: 0.0,
                log_evidence_se: 0.0,
                impossible: 0,
                sites: vec![CorrectedSite { summary, error, moved, sd_ratio, skewness, sd_error, sd_pareto_k }],
                left_out: Vec::new(),
            };
            Verdict::of(&of_correction(&correction))
        };
        let of = |own| [found(own, 0.0), found(0.0, own)];
        assert_eq!([0.56, 0.58, 0.69, 0.71].map(of), {
            use Verdict::{DoNotTrust, Trust, TrustWithLimits};
            [Trust, TrustWithLimits, TrustWithLimits, DoNotTrust].map(|own| [own; 2])
        });
    }
}
