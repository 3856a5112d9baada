//! Writes a calibration as text: what is calibrated, what is not and how, and a picture of the ranks.

use std::fmt::{Display, Formatter, Result};

use super::judged::{Calibration, Finding, NumberCalibration, PosteriorCalibration};

/// The most fits that failed whose reasons are shown.
const SHOWN: usize = 3;
/// The heights of the bars of a histogram.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Display for Calibration {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let (posterior, failed) = (self.first(), self.failed.len());
        let verdict = match (posterior.is_calibrated(), posterior.numbers.is_empty() || failed > 0) {
            (true, false) => self.as_what(),
            (false, _) if !posterior.numbers.is_empty() => "not calibrated".to_owned(),
            _ if posterior.numbers.is_empty() && (failed as u64) < u64::from(self.fits) => {
                "undecided: the model has no global number to rank".to_owned()
            }
            _ => format!("undecided: {failed} of {} fits failed, of which ranks know nothing", self.fits),
        };
        writeln!(formatter, "calibration: {verdict}")?;
        writeln!(
            formatter,
            "{} fits of data drawn from the prior; the truth ranked among {} draws; exact posteriors pass with probability {}",
            self.fits, self.draws, self.level
        )?;
        self.fitted.write("the posterior as fitted", formatter)?;
        match &self.corrected {
            Some(corrected) => {
                let title = match (corrected.fits(), self.fitted.fits()) {
                    (some, all) if some < all => {
                        format!("the posterior corrected by the round of trust, in {some} of {all} fits")
                    }
                    _ => "the posterior corrected by the round of trust".to_owned(),
                };
                corrected.write(&title, formatter)?;
            }
            None => writeln!(formatter, "no round of trust corrected the posteriors")?,
        }
        if self.distrusted > 0 {
            writeln!(formatter, "{} of {} reports said not to trust them", self.distrusted, self.fits)?;
        }
        for failed in self.failed.iter().take(SHOWN) {
            writeln!(formatter, "fit {} failed: {}", failed.number, failed.reason)?;
        }
        if self.failed.len() > SHOWN {
            writeln!(formatter, "{} more fits failed", self.failed.len() - SHOWN)?;
        }
        Ok(())
    }
}

impl Calibration {
    /// What is calibrated, where the posteriors that a report shows first are.
    fn as_what(&self) -> String {
        let is_corrected = self.corrected.as_ref().is_some_and(|own| own.fits() == self.fitted.fits());
        let fitted = match (is_corrected, self.fitted.is_calibrated()) {
            (false, _) => "calibrated",
            (true, true) => "calibrated, as fitted and as corrected",
            (true, false) => "calibrated as corrected by the round of trust, not calibrated as fitted",
        };
        match self.distrusted {
            0 => fitted.to_owned(),
            count => format!("{fitted}; {count} of {} reports said not to trust them", self.fits),
        }
    }
}

impl PosteriorCalibration {
    fn write(&self, title: &str, formatter: &mut Formatter<'_>) -> Result {
        if self.numbers.is_empty() {
            return writeln!(formatter, "{title}: no ranks");
        }
        match self.numbers.iter().filter(|number| number.finding != Finding::Calibrated).count() {
            0 => write!(formatter, "{title}: calibrated")?,
            off => write!(formatter, "{title}: off in {off} of {} numbers", self.numbers.len())?,
        }
        let least = self.band.iter().map(|[least, _]| *least).min().unwrap_or(0);
        let most = self.band.iter().map(|[_, most]| *most).max().unwrap_or(0);
        writeln!(formatter, "; chance alone makes bars of {least} to {most} fits")?;
        for number in &self.numbers {
            writeln!(formatter, "  {:<16} {} {}", number.label, number.bars(), number.words())?;
        }
        Ok(())
    }
}

impl NumberCalibration {
    /// The histogram as a line of bars, the highest of them full.
    fn bars(&self) -> String {
        let highest = self.histogram.iter().copied().max().unwrap_or(0).max(1);
        self.histogram.iter().map(|count| BARS[count * (BARS.len() - 1) / highest]).collect()
    }

    fn words(&self) -> String {
        let (covered, above) = (100.0 * self.interval_coverage(), 100.0 * self.above_median());
        let intervals = format!("intervals of 90 % hold the truth in {covered:.0} % of fits");
        let median = format!("the truth is above the median in {above:.0} % of fits, 50 % expected");
        let numbers = match self.finding {
            Finding::Calibrated | Finding::TooNarrow | Finding::TooWide => intervals,
            Finding::TooLow | Finding::TooHigh => median,
            Finding::OtherShape => format!("{intervals}; {median}"),
        };
        format!("{}: {numbers}", self.finding.words())
    }
}

impl Finding {
    /// What it says of posteriors.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Calibrated => "calibrated",
            Self::TooLow => "too low",
            Self::TooHigh => "too high",
            Self::TooNarrow => "too narrow",
            Self::TooWide => "too wide",
            Self::OtherShape => "of another shape",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::calibrate::FailedFit;

    #[test]
    fn a_model_without_globals_is_told_apart_from_fits_that_failed() {
        let fitted = PosteriorCalibration { edges: Vec::new(), band: Vec::new(), numbers: Vec::new() };
        let failed = vec![FailedFit { number: 3, reason: "it was interrupted".into() }];
        let of = |failed| {
            let (fitted, corrected) = (fitted.clone(), None);
            Calibration { fits: 1, draws: 255, level: 0.95, fitted, corrected, distrusted: 0, failed }.to_string()
        };
        let (none, some) = (of(Vec::new()), of(failed));
        assert!(none.contains("no global number to rank") && !none.contains("fits failed"), "{none}");
        assert!(some.contains("undecided: 1 of 1 fits failed, of which ranks know nothing"), "{some}");
    }
}
