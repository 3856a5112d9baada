//! Judges a calibration: the ranks of each number against a band for uniform ones, and in which direction they are off.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::CalibrationOptions;
use super::replicate::{Number, Outcome, Place};
use crate::engine::checkpoint::write_json;
use crate::engine::error::Result;
use crate::engine::family::real;
use crate::engine::metrics::{Counts, SimultaneousBand, Symmetry};
use crate::engine::trust::verdict::Verdict;

/// What the ranks of the truth say of a method's posteriors of a model.
///
/// Its text is for people; [`Calibration::write_json`] has everything for programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Data sets that were to be fitted.
    pub fits: u32,
    /// Draws of each posterior among which the truth was ranked.
    pub draws: u32,
    /// The probability that exact posteriors are called calibrated in all numbers.
    pub level: f64,
    /// The posteriors as they were fitted.
    pub fitted: PosteriorCalibration,
    /// The posteriors as the round of trust corrects them, whether or not it trusts that itself; `None` where there was none.
    pub corrected: Option<PosteriorCalibration>,
    /// The reports that said not to trust them.
    pub distrusted: usize,
    /// The fits that failed, of which the ranks know nothing.
    pub failed: Vec<FailedFit>,
}

/// A data set that could not be fitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedFit {
    /// Its number, from 0.
    pub number: u32,
    /// Why.
    pub reason: String,
}

/// What the ranks of the truth among one kind of posterior say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PosteriorCalibration {
    /// The ranks below which each bin of the histograms ends.
    pub edges: Vec<u32>,
    /// The least and the largest count of each bin, of calibrated posteriors of one number.
    pub band: Vec<[usize; 2]>,
    /// Every number of every global site.
    pub numbers: Vec<NumberCalibration>,
}

/// One number of a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberCalibration {
    /// The site.
    pub site: String,
    /// The site with the number's index, as in a report.
    pub label: String,
    /// Whether it is calibrated, or how it is off.
    pub finding: Finding,
    /// The ranks of the truth, fit by fit.
    pub ranks: Vec<u32>,
    /// The posterior probabilities of what is below the truth, fit by fit.
    pub probabilities: Vec<f64>,
    /// The ranks in each bin.
    pub histogram: Vec<usize>,
    /// Whether answers are as often too high as too low (VSBC).
    pub symmetry: Symmetry,
}

/// Whether posteriors of a number are calibrated, or how they are off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finding {
    /// The ranks are as those of exact posteriors.
    Calibrated,
    /// The truth is mostly above the posterior median.
    TooLow,
    /// The truth is mostly below it.
    TooHigh,
    /// The truth is too often in the tails.
    TooNarrow,
    /// The truth is too seldom in the tails.
    TooWide,
    /// Neither centre nor width is what is wrong.
    OtherShape,
}

impl Calibration {
    pub(super) fn of(options: &CalibrationOptions, done: &BTreeMap<u32, Outcome>) -> Self {
        let (mut all, mut failed, mut distrusted) = (Vec::new(), Vec::new(), 0);
        for (&number, outcome) in done {
            match outcome {
                Outcome::Fitted { verdict, numbers } => {
                    distrusted += usize::from(*verdict == Verdict::DoNotTrust);
                    all.push(&numbers[..]);
                }
                Outcome::Failed { reason } => failed.push(FailedFit { number, reason: reason.clone() }),
                Outcome::Interrupted => failed.push(FailedFit { number, reason: "it was interrupted".into() }),
            }
        }
        let &CalibrationOptions { fits, draws, level, .. } = options;
        let corrected = PosteriorCalibration::of(options, &all, |number| number.corrected);
        let has_corrections = corrected.numbers.iter().any(|number| !number.ranks.is_empty());
        Self {
            fits,
            draws,
            level,
            fitted: PosteriorCalibration::of(options, &all, |number| Some(number.fitted)),
            corrected: has_corrections.then_some(corrected),
            distrusted,
            failed,
        }
    }

    /// Whether every fit was done and the posteriors that a report shows first are calibrated: the corrected ones where
    /// all fits have one.
    #[must_use]
    pub fn is_calibrated(&self) -> bool {
        self.failed.is_empty() && self.first().is_calibrated()
    }

    /// The posteriors that a report shows first: the corrected ones if all are. Those that were corrected are not a random part
    /// of the fits, and say nothing of the others.
    pub(super) fn first(&self) -> &PosteriorCalibration {
        self.corrected.as_ref().filter(|own| own.fits() == self.fitted.fits()).unwrap_or(&self.fitted)
    }

    /// Writes it as JSON, atomically.
    ///
    /// # Errors
    /// [`crate::Error::File`].
    pub fn write_json(&self, path: &Path) -> Result<()> {
        write_json(self, path)
    }
}

/// The most points at which the distribution function of ranks is compared.
const POINTS: usize = 50;
/// The ranks that each bin of a histogram should have, and the fewest and the most bins.
const EACH: usize = 8;
const LEAST_BINS: usize = 4;
const MOST_BINS: usize = 20;

impl PosteriorCalibration {
    fn of(options: &CalibrationOptions, fits: &[&[Number]], place: impl Fn(&Number) -> Option<Place>) -> Self {
        let names = fits.first().copied().unwrap_or_default();
        let places = |index: usize| -> Vec<Place> { fits.iter().filter_map(|fit| place(fit.get(index)?)).collect() };
        let count = if names.is_empty() { 0 } else { places(0).len() };
        // By Bonferroni the bands of all numbers hold together.
        let alone = 1.0 - (1.0 - options.level) / real(names.len().max(1));
        let judge = Judge::new(options.draws, count, alone);
        let bins = Bins::of_ranks(options.draws, (count / EACH).clamp(LEAST_BINS, MOST_BINS));
        let band = bins.band(count, Counts::Within, alone);
        let numbers = names.iter().enumerate().map(|(index, number)| {
            let (site, label, places) = (number.site.clone(), number.label.clone(), places(index));
            let ranks: Vec<u32> = places.iter().map(|place| place.rank).collect();
            let probabilities: Vec<f64> = places.iter().map(|place| place.probability).collect();
            let is_inside = if ranks.len() == count {
                judge.passes(&ranks)
            } else {
                // A number may lack places that others have.
                Judge::new(options.draws, ranks.len(), alone).passes(&ranks)
            };
            let finding = if is_inside { Finding::Calibrated } else { Finding::of(&ranks, options.draws) };
            let symmetry = Symmetry::of(&probabilities);
            NumberCalibration { site, label, finding, histogram: bins.within(&ranks), symmetry, ranks, probabilities }
        });
        let band = band.lower.iter().zip(&band.upper).map(|(lower, upper)| [*lower, *upper]).collect();
        Self { numbers: numbers.collect(), edges: bins.edges, band }
    }

    /// Of how many fits there are ranks.
    pub(super) fn fits(&self) -> usize {
        self.numbers.first().map_or(0, |number| number.ranks.len())
    }

    /// Whether all numbers are calibrated; false without any.
    #[must_use]
    pub fn is_calibrated(&self) -> bool {
        !self.numbers.is_empty() && self.numbers.iter().all(|number| number.finding == Finding::Calibrated)
    }

    /// What is said of the number with this label.
    #[must_use]
    pub fn number(&self, label: &str) -> Option<&NumberCalibration> {
        self.numbers.iter().find(|number| number.label == label)
    }
}

/// The probability of the intervals of which the text says how often they hold the truth.
const INTERVAL: f64 = 0.9;

impl NumberCalibration {
    /// The share of fits in which the central interval of 90 % holds the truth.
    #[must_use]
    pub fn interval_coverage(&self) -> f64 {
        let tail = 0.5 * (1.0 - INTERVAL);
        let inside = self.probabilities.iter().filter(|own| (tail..=1.0 - tail).contains(*own)).count();
        real(inside) / real(self.probabilities.len().max(1))
    }

    /// The share of fits in which the truth is above the posterior median.
    #[must_use]
    pub fn above_median(&self) -> f64 {
        real(self.probabilities.iter().filter(|own| **own > 0.5).count()) / real(self.probabilities.len().max(1))
    }
}

/// What ranks of one number must pass: the bands of two distribution functions.
struct Judge {
    /// Of the ranks themselves, which shows a bias.
    ranks: (Bins, SimultaneousBand),
    /// Of their distances from the nearer end, which shows a wrong width: both tails count as one.
    distances: (Bins, SimultaneousBand),
    draws: u32,
}

impl Judge {
    /// Of as many ranks; uniform ones pass with at least this probability.
    fn new(draws: u32, count: usize, probability: f64) -> Self {
        let each = 0.5 * (1.0 + probability);
        let banded = |bins: Bins| {
            let band = bins.band(count, Counts::Below, each);
            (bins, band)
        };
        let distances = Bins::of_distances(draws, POINTS);
        Self { ranks: banded(Bins::of_ranks(draws, POINTS)), distances: banded(distances), draws }
    }

    fn passes(&self, ranks: &[u32]) -> bool {
        let distances: Vec<u32> = ranks.iter().map(|rank| *rank.min(&(self.draws - rank))).collect();
        let inside = |(bins, band): &(Bins, SimultaneousBand), own: &[u32]| band.holds(&bins.below(own));
        inside(&self.ranks, ranks) && inside(&self.distances, &distances)
    }
}

/// Bins of whole numbers from zero.
struct Bins {
    /// The numbers below which bins end.
    edges: Vec<u32>,
    /// The probability of each bin.
    masses: Vec<f64>,
}

impl Bins {
    /// At most `most` bins of nearly as many of the ranks from 0 to `draws` each.
    fn of_ranks(draws: u32, most: usize) -> Self {
        Self::new(&vec![1.0; draws as usize + 1], most)
    }

    /// The same of the distances of ranks from the nearer end: two ranks have each, but for one in the middle.
    fn of_distances(draws: u32, most: usize) -> Self {
        let weight = |distance| if 2 * distance == draws { 1.0 } else { 2.0 };
        Self::new(&(0..=draws / 2).map(weight).collect::<Vec<f64>>(), most)
    }

    fn new(weights: &[f64], most: usize) -> Self {
        let (count, total) = (weights.len().min(most), weights.iter().sum::<f64>());
        let end = |bin: usize| bin * weights.len() / count;
        let masses = (0..count).map(|bin| weights[end(bin)..end(bin + 1)].iter().sum::<f64>() / total).collect();
        Self { edges: (1..=count).map(|bin| u32::try_from(end(bin)).unwrap_or(u32::MAX)).collect(), masses }
    }

    fn band(&self, count: usize, counts: Counts, probability: f64) -> SimultaneousBand {
        SimultaneousBand::new(count, &self.masses, counts, probability)
    }

    fn below(&self, numbers: &[u32]) -> Vec<usize> {
        self.edges.iter().map(|edge| numbers.iter().filter(|number| *number < edge).count()).collect()
    }

    fn within(&self, numbers: &[u32]) -> Vec<usize> {
        let below = self.below(numbers);
        let before = std::iter::once(0).chain(below.iter().copied());
        below.iter().zip(before).map(|(below, before)| below - before).collect()
    }
}

/// The standard errors by which mean or variance of ranks must be off to name a direction.
const CLEAR: f64 = 2.0;

impl Finding {
    /// How ranks that are not uniform differ from those that are: in their mean, or in their variance.
    fn of(ranks: &[u32], draws: u32) -> Self {
        let count = real(ranks.len());
        let scaled: Vec<f64> = ranks.iter().map(|rank| (f64::from(*rank) + 0.5) / (f64::from(draws) + 1.0)).collect();
        let mean = scaled.iter().sum::<f64>() / count;
        let variance = scaled.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / count;
        // A uniform number has the variance 1/12, and the square of its distance from one half the variance 1/180.
        let centre = (mean - 0.5) * (12.0 * count).sqrt();
        let width = (variance - 1.0 / 12.0) * (180.0 * count).sqrt();
        match () {
            () if centre.abs().max(width.abs()) < CLEAR => Self::OtherShape,
            () if centre.abs() >= width.abs() => {
                if centre > 0.0 {
                    Self::TooLow
                } else {
                    Self::TooHigh
                }
            }
            () if width > 0.0 => Self::TooNarrow,
            () => Self::TooWide,
        }
    }
}

#[cfg(test)]
mod tests {
    use partita_core::{Key, Noise, Purpose};

    use super::*;

    #[test]
    fn uniform_ranks_pass_as_often_as_they_should_and_others_seldom() {
        let judges: Vec<Judge> = [255, 100].map(|draws| Judge::new(draws, 100, 0.95)).into();
        let mut passed = [[0_u32; 2]; 2];
        for trial in 0..2_000 {
            let mut stream = Noise::new(23).stream(Key::new(Purpose::Check, trial));
            for (judge, passed) in judges.iter().zip(&mut passed) {
                let uniform: Vec<u32> = (0..100).map(|_| stream.index(judge.draws as usize + 1) as u32).collect();
                passed[0] += u32::from(judge.passes(&uniform));
                // Every fifth rank at an end.
                let ends = uniform.iter().enumerate().map(|(index, rank)| if index % 5 == 0 { 0 } else { *rank });
                passed[1] += u32::from(judge.passes(&ends.collect::<Vec<u32>>()));
            }
        }
        for [right, wrong] in passed {
            let share = f64::from(right) / 2_000.0;
            // Two bands of .975 each pass together with .95 at least, .9506 if independent, and a little more for steps of
            // their counts; five standard errors are .024.
            assert!((0.95 - 0.024..0.985).contains(&share), "{share}");
            assert!(f64::from(wrong) < 0.02 * 2_000.0, "{wrong}");
        }
    }

    #[test]
    fn directions_are_those_of_the_ranks() {
        let of = |shape: fn(f64) -> f64| {
            let uniform = (0..200).map(|index| (f64::from(index) + 0.5) / 200.0);
            Finding::of(&uniform.map(|own| (shape(own) * 256.0) as u32).collect::<Vec<u32>>(), 255)
        };
        assert_eq!(of(|own| own.sqrt()), Finding::TooLow);
        assert_eq!(of(|own| own * own), Finding::TooHigh);
        assert_eq!(of(|own| own * own * (3.0 - 2.0 * own)), Finding::TooNarrow);
        assert_eq!(of(|own| 0.25 + 0.5 * own), Finding::TooWide);
        assert_eq!(of(|own| own), Finding::OtherShape);
        // All at one end is a bias, though no variance is left.
        assert_eq!(of(|_| 0.0), Finding::TooHigh);
    }
}
