//! Sets the verdict of a fit beside how far its answer is from the right one.

use partita::inference::{SiteSummary, Verdict};
use partita::{Fit, inference};
use serde::{Deserialize, Serialize};

use crate::harness::{Table, largest};

/// A mean further off is wrong, in standard deviations of the right answer, and so is a standard deviation by this share.
const FIFTH: f64 = 0.2;
const QUARTER: f64 = 0.25;

/// The mean and the standard deviation of one number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    pub(super) mean: f64,
    pub(super) sd: f64,
}

impl Moments {
    pub(super) fn of(sites: &[SiteSummary]) -> Vec<Self> {
        sites.iter().map(|own| Self { mean: own.mean, sd: own.sd }).collect()
    }

    /// Of every coordinate of points with weights.
    pub(super) fn weighted(points: &[Vec<f64>], weights: &[f64]) -> Vec<Self> {
        let total: f64 = weights.iter().sum();
        let coordinates = points.first().map_or(0, Vec::len);
        let mean = |of: &dyn Fn(&[f64]) -> f64| {
            points.iter().zip(weights).map(|(point, weight)| weight / total * of(point)).sum::<f64>()
        };
        let moments = |index: usize| {
            let centre = mean(&|point| point[index]);
            Self { mean: centre, sd: mean(&|point| (point[index] - centre).powi(2)).sqrt() }
        };
        (0..coordinates).map(moments).collect()
    }
}

/// What a right answer is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reference {
    Grid,
    /// The no-U-turn sampler, and whether its chains are to be trusted.
    Chains(Verdict),
    /// A fit that has no posterior: whatever it says is wrong.
    NoPosterior,
}

/// The right answer, and what it is known from.
#[derive(Debug)]
pub(super) struct Truth {
    pub(super) moments: Vec<Moments>,
    pub(super) reference: Reference,
}

impl Truth {
    /// Of a fit without a posterior.
    pub(super) fn none() -> Self {
        Self { moments: Vec::new(), reference: Reference::NoPosterior }
    }
}

/// What one fit says, and how far it is from what is right.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Judged {
    pub(super) name: String,
    pub(super) reference: Reference,
    /// The verdict, or why there is no answer.
    pub(super) said: Result<Verdict, String>,
    /// The mean that is furthest off, in standard deviations of the right answer.
    pub(super) mean_off: Option<f64>,
    /// The ratio of standard deviations that is furthest from 1.
    pub(super) sd_ratio: Option<f64>,
    pub(super) pareto_k: Option<f64>,
}

impl Judged {
    pub(super) fn of(name: &str, found: inference::Result<Fit>, truth: &Truth) -> Self {
        let none = Self {
            name: words(name),
            reference: truth.reference,
            said: Err(String::new()),
            mean_off: None,
            sd_ratio: None,
            pareto_k: None,
        };
        let report = match found {
            Ok(found) => found.report,
            Err(error) => return Self { said: Err(error.to_string()), ..none },
        };
        let pairs = || report.answer().into_iter().zip(&truth.moments);
        let mean_off = largest(pairs().map(|(found, right)| (found.mean - right.mean).abs() / right.sd));
        let ratios = pairs().map(|(found, right)| found.sd / right.sd);
        let sd_ratio = ratios.max_by(|one, other| (one - 1.0).abs().total_cmp(&(other - 1.0).abs())).unwrap_or(1.0);
        let is_known = truth.reference != Reference::NoPosterior;
        Self {
            said: Ok(report.verdict),
            mean_off: is_known.then_some(mean_off),
            sd_ratio: is_known.then_some(sd_ratio),
            pareto_k: report.trust.correction().map(|own| own.pareto_k),
            ..none
        }
    }

    /// Whether every mean and every standard deviation is near enough.
    pub(super) fn is_right(&self) -> bool {
        self.said.is_ok()
            && self.mean_off.is_some_and(|off| off <= FIFTH)
            && self.sd_ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= QUARTER)
    }

    /// Whether its report says that its numbers may be used.
    pub(super) fn is_trusted(&self) -> bool {
        matches!(self.said, Ok(Verdict::Trust | Verdict::TrustWithLimits))
    }

    /// The cells of a table, as in [`HEAD`].
    pub(super) fn cells(&self) -> [String; 6] {
        let number = |own: Option<f64>| own.map_or_else(String::new, |own| format!("{own:.2}"));
        let said = match &self.said {
            Ok(Verdict::Trust) => "trust".to_owned(),
            Ok(Verdict::TrustWithLimits) => "trust with limits".to_owned(),
            Ok(Verdict::DoNotTrust) => "do not trust".to_owned(),
            Err(why) => format!("no answer: {why}"),
        };
        let reference = match self.reference {
            Reference::Grid => "grid",
            Reference::Chains(Verdict::DoNotTrust) => "chains that have not converged",
            Reference::Chains(_) => "chains",
            Reference::NoPosterior => "none",
        };
        [
            self.name.clone(),
            said,
            number(self.mean_off),
            number(self.sd_ratio),
            number(self.pareto_k),
            reference.to_owned(),
        ]
    }
}

/// The header of a table of them.
pub(super) const HEAD: [&str; 6] = ["posterior", "verdict", "mean off", "sd ratio", "Pareto k", "right answer from"];

/// Prints them.
pub(super) fn print(heading: &str, all: &[Judged]) {
    let mut table = Table::new(HEAD);
    all.iter().for_each(|own| table.row(own.cells()));
    println!("\n{heading}\n{table}");
}

/// The words of a name in capitals: `TwoModes` is "two modes".
fn words(name: &str) -> String {
    let spaced = name.chars().flat_map(|own| own.is_uppercase().then_some(' ').into_iter().chain(own.to_lowercase()));
    spaced.collect::<String>().trim().to_owned()
}
