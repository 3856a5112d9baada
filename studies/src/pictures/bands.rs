//! Draws what a regression found over the data that it was found from: points, a line a group, and its credible band.

use std::path::Path;

use partita::inference::plot::PlotError;
use partita::inference::plot::canvas::{Area, Drawn, FINE, Layout, axes, colour, grid, pixels};
use plotters::prelude::*;

const PANEL: (u32, u32) = (330, 280);

/// A line at one place: its mean and the band around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BandPoint {
    /// The place.
    pub at: f64,
    /// The lower end of the band.
    pub low: f64,
    /// The mean of the line.
    pub mean: f64,
    /// The upper end of the band.
    pub high: f64,
}

/// One group of rows with the line through it.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Which rows; equal names have equal colours in all panels.
    pub name: String,
    /// The data.
    pub points: Vec<(f64, f64)>,
    /// The line, by ascending place.
    pub line: Vec<BandPoint>,
}

/// What one fit says of all groups.
#[derive(Debug, Clone, PartialEq)]
pub struct BandPanel {
    /// Whose fit.
    pub title: String,
    /// The groups.
    pub groups: Vec<Band>,
}

/// Draws a row of panels with one legend for all; `across` and `up` name the axes.
///
/// # Errors
/// [`PlotError::Empty`] without a panel, without a group, or for a group without two finite places;
/// [`PlotError::Write`] if the file cannot be put in place.
pub fn bands(path: &Path, panels: &[BandPanel], [across, up]: [&str; 2]) -> Result<(), PlotError> {
    let broken = panels.iter().find(|panel| panel.groups.is_empty() || !panel.groups.iter().all(Band::is_drawable));
    if panels.is_empty() || broken.is_some() {
        let found =
            broken.map_or_else(|| "no panel".to_owned(), |panel| format!("nothing to draw in `{}`", panel.title));
        return Err(PlotError::Empty { path: path.into(), found, expected: "groups with finite points and lines" });
    }
    let mut names: Vec<&str> = Vec::new();
    for group in panels.iter().flat_map(|panel| &panel.groups) {
        if !names.contains(&group.name.as_str()) {
            names.push(&group.name);
        }
    }
    grid(path, PANEL, &names, panels, |area, panel| draw_panel(area, panel, &names, [across, up]))
}

impl Band {
    fn is_drawable(&self) -> bool {
        self.places().count() >= 2 && self.places().all(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// Every place that has to lie in the frame.
    fn places(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let ends = self.line.iter().flat_map(|point| [(point.at, point.low), (point.at, point.high)]);
        self.points.iter().copied().chain(ends)
    }
}

fn draw_panel(area: &Area, panel: &BandPanel, names: &[&str], [across, up]: [&str; 2]) -> Drawn {
    let range = |of: fn((f64, f64)) -> f64| {
        let values = panel.groups.iter().flat_map(Band::places).map(of);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let margin = (0.04 * (high - low)).max(f64::MIN_POSITIVE);
        low - margin..high + margin
    };
    let words = [&panel.title, across, up];
    let (along, upwards) = (range(|place| place.0), range(|place| place.1));
    let mut chart = axes(area, Layout::Panel, words, along, upwards)?;
    for (index, group) in panel.groups.iter().enumerate() {
        let shade = colour(names.iter().position(|known| *known == group.name).unwrap_or(index));
        let lower = group.line.iter().map(|point| (point.at, point.low));
        let upper = group.line.iter().rev().map(|point| (point.at, point.high));
        chart.draw_series([Polygon::new(lower.chain(upper).collect::<Vec<_>>(), shade.mix(0.2).filled())])?;
        chart.draw_series(group.points.iter().map(|&point| Circle::new(point, pixels(2), shade.mix(0.7).filled())))?;
        let mean = group.line.iter().map(|point| (point.at, point.mean));
        chart.draw_series(LineSeries::new(mean, shade.stroke_width(2 * FINE)))?;
    }
    Ok(())
}
