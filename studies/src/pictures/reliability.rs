//! Draws whether predictions come true as often as they say, with how many were made at each confidence.

use std::path::Path;

use partita::inference::metrics::{Calibration, CalibrationBin};
use partita::inference::plot::PlotError;
use partita::inference::plot::canvas::{Area, Drawn, FINE, INK, Layout, axes, colour, legend, picture, pixels};
use plotters::prelude::*;

use crate::harness;

const WIDTH: u32 = 460;

/// Heights of the parts of the picture, from the top: one line of the legend, curves with their title, shares.
const LINE: u32 = 24;
const CURVES: u32 = 470;
const SHARES: u32 = 170;

/// Draws the accuracy of the rows of each bin against their mean confidence, one curve for each predictor.
///
/// A calibrated predictor lies on the diagonal, an overconfident one below it. Bins without rows have no point. The line
/// through a point is the 95 % interval of a share of so many rows by Wilson (1927), Probable inference, the law of
/// succession, and statistical inference, JASA 22. Below, the share of rows in each bin says how much a point counts. The
/// legend states each expected calibration error.
///
/// # Errors
/// [`PlotError::Empty`] without a predictor or for one without rows, [`PlotError::Write`] if the file cannot be put in
/// place.
pub fn reliability(path: &Path, predictors: &[(String, Calibration)], title: &str) -> Result<(), PlotError> {
    let idle = predictors.iter().find(|(_, calibration)| calibration.bins.iter().all(|bin| bin.rows == 0));
    if predictors.is_empty() || idle.is_some() {
        let found = idle.map_or_else(|| "no predictor".to_owned(), |(name, _)| format!("no rows of `{name}`"));
        return Err(PlotError::Empty { path: path.into(), found, expected: "at least one row for each predictor" });
    }
    let name = |(name, calibration): &(String, Calibration)| format!("{name}, ECE {:.3}", calibration.error);
    let names: Vec<String> = predictors.iter().map(name).collect();
    let legends = LINE * u32::try_from(names.len()).unwrap_or(u32::MAX);
    picture(path, (WIDTH, legends + CURVES + SHARES), |root| {
        let (top, rest) = root.split_vertically(pixels(legends));
        for (index, (area, name)) in top.split_evenly((names.len(), 1)).iter().zip(&names).enumerate() {
            legend(area, index + 1, &[name])?;
        }
        let (upper, lower) = rest.split_vertically(pixels(CURVES));
        draw_curves(&upper, predictors, title)?;
        draw_shares(&lower, predictors)
    })
}

fn draw_curves(area: &Area, predictors: &[(String, Calibration)], title: &str) -> Drawn {
    let words = [title, "confidence", "share that came true"];
    let mut chart = axes(area, Layout::Panel, words, 0.0..1.0, 0.0..1.0)?;
    chart.draw_series(LineSeries::new([(0.0, 0.0), (1.0, 1.0)], INK.mix(0.5).stroke_width(FINE)))?;
    for (index, (_, calibration)) in predictors.iter().enumerate() {
        let shade = shade(index);
        let filled = calibration.bins.iter().filter(|bin| bin.rows > 0);
        let points: Vec<(f64, f64)> = filled.map(|bin| (bin.confidence, bin.accuracy)).collect();
        chart.draw_series(LineSeries::new(points.iter().copied(), shade.stroke_width(2 * FINE)))?;
        let whisker = |bin: &CalibrationBin| {
            let ends = interval(bin).map(|share| (bin.confidence, share));
            PathElement::new(ends, shade.mix(0.7).stroke_width(FINE))
        };
        chart.draw_series(calibration.bins.iter().filter(|bin| bin.rows > 0).map(whisker))?;
        chart.draw_series(points.iter().map(|&point| Circle::new(point, pixels(4), shade.filled())))?;
    }
    Ok(())
}

fn draw_shares(area: &Area, predictors: &[(String, Calibration)]) -> Drawn {
    let highest = predictors.iter().flat_map(|(_, calibration)| shares(calibration)).fold(0.0, f64::max);
    let words = ["", "confidence", "share of rows"];
    let mut chart = axes(area, Layout::Panel, words, 0.0..1.0, 0.0..1.08 * highest)?;
    for (index, (_, calibration)) in predictors.iter().enumerate() {
        let (own, among) = (real(index), real(predictors.len()));
        chart.draw_series(calibration.bins.iter().zip(shares(calibration)).map(|(bin, share)| {
            // The bars of one bin stand side by side, with a tenth of the bin free.
            let width = 0.9 * (bin.upper - bin.lower) / among;
            let left = bin.lower + 0.05 * (bin.upper - bin.lower) + own * width;
            Rectangle::new([(left, 0.0), (left + width, share)], shade(index).mix(0.8).filled())
        }))?;
    }
    Ok(())
}

/// The 95 % interval of the share of a bin that came true, by Wilson.
fn interval(bin: &CalibrationBin) -> [f64; 2] {
    let (rows, square) = (real(bin.rows), 1.96_f64.powi(2));
    let middle = (bin.accuracy + square / (2.0 * rows)) / (1.0 + square / rows);
    let half = (bin.accuracy * (1.0 - bin.accuracy) * square / rows + (square / (2.0 * rows)).powi(2)).sqrt()
        / (1.0 + square / rows);
    [middle - half, middle + half]
}

/// The share of all rows in each bin.
fn shares(calibration: &Calibration) -> Vec<f64> {
    let all: usize = calibration.bins.iter().map(|bin| bin.rows).sum();
    calibration.bins.iter().map(|bin| real(bin.rows) / real(all)).collect()
}

fn real(count: usize) -> f64 {
    harness::real(count as u64)
}

/// Black is left to the diagonal.
fn shade(index: usize) -> RGBColor {
    colour(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_wide_for_few_rows_and_stays_between_zero_and_one() {
        let of = |rows: usize, accuracy: f64| {
            interval(&CalibrationBin { lower: 0.0, upper: 1.0, rows, confidence: 0.5, accuracy })
        };
        // Two of two, and 81 of 263, the example of Newcombe (1998), Statistics in Medicine 17, table I: 0.2553 to 0.3662.
        let (few, many) = (of(2, 1.0), of(263, 81.0 / 263.0));
        assert!((few[0] - 0.3424).abs() < 1e-4 && (few[1] - 1.0).abs() < 1e-12, "{few:?}");
        assert!((many[0] - 0.2553).abs() < 1e-4 && (many[1] - 0.3662).abs() < 1e-4, "{many:?}");
    }
}
