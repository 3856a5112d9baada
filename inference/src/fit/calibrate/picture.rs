//! Draws the ranks of the truth as histograms, each over the band that calibrated posteriors keep to.

use std::path::Path;

use plotters::prelude::*;

use super::{NumberCalibration, PosteriorCalibration};
use crate::engine::family::real;
use crate::engine::report::plot::PlotError;
use crate::engine::report::plot::canvas::{Area, Drawn, FINE, Layout, axes, colour, grid};

const PANEL: (u32, u32) = (330, 250);
/// The colour of the band in the legend: the one after that of the bars.
const BAND: usize = 1;

impl PosteriorCalibration {
    /// Draws the histogram of ranks of every number as SVG, three in a row, each over the band that the bars of
    /// calibrated posteriors are in together ([`PosteriorCalibration::band`]).
    ///
    /// Bars in the shape of a $`\cup`$ are of posteriors that are too narrow, in that of a $`\cap`$ of ones that are too
    /// wide; a slope is a bias.
    ///
    /// # Errors
    /// [`PlotError::Empty`] without ranks, [`PlotError::Write`] if the file cannot be put in place.
    ///
    /// # References
    /// Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference algorithms with
    /// simulation-based calibration, arXiv:1804.06788; Säilynoja, Bürkner and Vehtari (2022), Statistics and Computing 32.
    pub fn write_picture(&self, path: &Path) -> Result<(), PlotError> {
        if self.numbers.iter().all(|number| number.ranks.is_empty()) {
            let (found, expected) = ("no ranks".to_owned(), "fits that have not all failed");
            return Err(PlotError::Empty { path: path.into(), found, expected });
        }
        grid(path, PANEL, &["fits", "what chance alone makes"], &self.numbers, |area, number| self.panel(area, number))
    }

    fn panel(&self, area: &Area, number: &NumberCalibration) -> Drawn {
        let ends: Vec<f64> = self.edges.iter().copied().map(f64::from).collect();
        let starts = std::iter::once(0.0).chain(ends.iter().copied());
        let bins: Vec<(f64, f64)> = starts.zip(ends.iter().copied()).collect();
        let most = self.band.iter().map(|[_, most]| *most).chain(number.histogram.iter().copied()).max().unwrap_or(0);
        let last = ends.last().copied().unwrap_or(1.0);
        let title = format!("{}: {}", number.label, number.finding.words());
        let words = [title.as_str(), "rank of the truth", "fits"];
        let mut chart = axes(area, Layout::Panel, words, 0.0..last, 0.0..1.08 * real(most.max(1)))?;
        let band = bins.iter().zip(&self.band).map(|((start, end), [least, most])| {
            Rectangle::new([(*start, real(*least)), (*end, real(*most))], colour(BAND).mix(0.18).filled())
        });
        chart.draw_series(band)?;
        // A bar is its top and sides, so that the band behind it is seen.
        for ((start, end), count) in bins.iter().zip(&number.histogram) {
            let top = real(*count);
            let bar = vec![(*start, 0.0), (*start, top), (*end, top), (*end, 0.0)];
            chart.draw_series(std::iter::once(PathElement::new(bar, colour(0).stroke_width(2 * FINE))))?;
        }
        Ok(())
    }
}
