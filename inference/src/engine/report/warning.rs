//! States a reason to doubt a report: what is wrong, what was measured, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::text::digits;
use super::{SiteSummary, number};
use crate::engine::algorithm::Ending;

/// What to do about a posterior that no approximation serves, for whoever types a command and whoever calls Rust.
pub(crate) const SAMPLE: &str = "Sample where data may be pooled (`--method nuts` of `partita fit`, `Nuts` in Rust)";

/// What a warning means for the numbers of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// Nothing: it is about something else, such as time.
    Note,
    /// They hold within a limit that it states.
    Limit,
    /// They are not to be trusted.
    Doubt,
}

/// The size below which numbers are in scientific notation.
const TINY: f64 = 1e-4;

/// A reason to doubt a part of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// What it means for the numbers.
    pub severity: Severity,
    /// What is wrong, in a sentence.
    pub problem: String,
    /// The site, or the number of a site, that it is about; `None` for all of the report.
    pub site: Option<String>,
    /// The silo that it is about; `None` for all of them.
    pub silo: Option<String>,
    /// What was measured, where something was.
    #[serde(default, with = "number::optional")]
    pub number: Option<f64>,
    /// Where that begins to be wrong.
    #[serde(default, with = "number::optional")]
    pub threshold: Option<f64>,
    /// Who says so.
    pub source: Option<String>,
    /// What to do.
    pub remedy: String,
}

impl Warning {
    /// Something wrong of all of the report, of which nothing was measured.
    pub(crate) fn new(severity: Severity, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            severity,
            problem: problem.into(),
            site: None,
            silo: None,
            number: None,
            threshold: None,
            source: None,
            remedy: remedy.into(),
        }
    }

    /// The same about a site, or a number of one.
    pub(crate) fn at(self, site: &str) -> Self {
        Self { site: Some(site.to_owned()), ..self }
    }

    /// The same about a silo.
    pub(crate) fn of_silo(self, silo: Option<&String>) -> Self {
        Self { silo: silo.cloned(), ..self }
    }

    /// The same with what was measured.
    pub(crate) fn measured(self, number: f64) -> Self {
        Self { number: Some(number), ..self }
    }

    /// The same with where that begins to be wrong, and who says so.
    pub(crate) fn beyond(self, threshold: f64, source: &str) -> Self {
        Self { threshold: Some(threshold), source: Some(source.to_owned()), ..self }
    }

    /// What was measured, and where that begins to be wrong, for people: with as many places as show that they differ, and as
    /// give each two digits.
    pub(super) fn measures(&self) -> (Option<String>, Option<String>) {
        let all = || self.number.into_iter().chain(self.threshold);
        let gap = self.number.zip(self.threshold).map(|(number, threshold)| (number - threshold).abs());
        let place = |own: f64| -own.abs().log10().floor();
        let own = all().filter(|own| own.abs() >= TINY).map(|own| place(own) + 1.0);
        let places = own.chain(gap.map(place)).filter(|own| own.is_finite()).fold(0.0, f64::max);
        let is_whole = all().all(|own| own.fract().abs() <= 0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 12")]
        let places = if is_whole { 0 } else { places.min(12.0) as usize };
        let text = |own: f64| match own.abs() {
            size if size <= 0.0 => "0".to_owned(),
            size if size < TINY => format!("{own:.1e}"),
            _ => digits(own, places),
        };
        (self.number.map(text), self.threshold.map(text))
    }

    /// That the answer is a point, where all standard deviations are zero.
    pub(crate) fn of_points(sites: &[SiteSummary]) -> Option<Self> {
        // Draws of a point are all the same, but for the rounding of their mean.
        let is_one = |site: &SiteSummary| site.quantiles.p2_5.total_cmp(&site.quantiles.p97_5).is_eq();
        let is_point = !sites.is_empty() && sites.iter().all(is_one);
        is_point.then(|| {
            let problem = "the answer is a point, which has no uncertainty: standard deviations of zero are not those of the posterior";
            Self::new(Severity::Doubt, problem, "Read means as estimates alone, or take few rounds or SFVI for a posterior.")
        })
    }

    /// What is wrong with the answer of a run that ended so.
    pub(crate) fn of_ending(ending: Ending) -> Option<Self> {
        match ending {
            Ending::Completed | Ending::Converged => None,
            Ending::NotConverged => Some(Self::new(
                Severity::Doubt,
                "the run did not converge, and its answer is not to be trusted",
                format!(
                    "The posterior may be far from normal. {SAMPLE}; or take SFVI (of a command `--method sfvi`, of a study \
                     `algorithm = \"sfvi\"` in `[run]`)."
                ),
            )),
            Ending::Interrupted => Some(Self::new(
                Severity::Doubt,
                "the run was interrupted before its end",
                "Run it to its end, from the checkpoint if it has one.",
            )),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Note => "note",
            Severity::Limit => "limit",
            Severity::Doubt => "warning",
        };
        write!(formatter, "{word}: {}", self.problem)?;
        match (&self.silo, &self.site) {
            (Some(silo), Some(site)) => write!(formatter, " (silo `{silo}`, `{site}`)")?,
            (Some(silo), None) => write!(formatter, " (silo `{silo}`)")?,
            (None, Some(site)) => write!(formatter, " (`{site}`)")?,
            (None, None) => {}
        }
        match self.measures() {
            (Some(number), Some(threshold)) => write!(formatter, " ({number}, threshold {threshold})")?,
            (Some(number), None) => write!(formatter, " ({number})")?,
            (None, _) => {}
        }
        write!(formatter, ". {}", self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_seen_to_be_beyond_its_threshold() {
        let told = |number: f64, threshold: f64| {
            let own = Warning::new(Severity::Limit, "a problem", "A remedy.").measured(number);
            let own = own.beyond(threshold, "a paper");
            let (number, threshold) = own.measures();
            assert!(own.to_string().contains(&format!("({}, threshold ", number.as_ref().unwrap())), "{own}");
            (number.unwrap(), threshold.unwrap())
        };
        let pairs = [
            ((1.04, 1.01), ("1.04", "1.01")),
            ((0.701, 0.7), ("0.701", "0.700")),
            ((0.85, 0.7), ("0.85", "0.70")),
            ((0.0012, 0.0), ("0.0012", "0")),
            ((0.002, 0.0125), ("0.0020", "0.0125")),
            ((0.0, 0.0125), ("0", "0.013")),
            ((2.5e-7, 0.05), ("2.5e-7", "0.050")),
            ((-12.34, 4.0), ("-12.3", "4.0")),
            ((199.0, 400.0), ("199", "400")),
            ((2.5e12, 0.5), ("2.50e12", "0.50")),
            ((f64::INFINITY, 0.7), ("inf", "0.70")),
        ];
        for ((number, threshold), (one, other)) in pairs {
            assert_eq!(told(number, threshold), (one.to_owned(), other.to_owned()));
        }
        let alone = |number| Warning::new(Severity::Limit, "a problem", "A remedy.").measured(number).to_string();
        assert!(alone(3.0).contains(" (3). ") && alone(0.3333).contains(" (0.33). "), "{}", alone(3.0));
    }
}
