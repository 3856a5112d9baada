//! Draws marginal densities of several quantities in a grid, each with the answers of all who were asked.

use std::path::Path;

use plotters::prelude::*;

use super::canvas::{Area, Drawn, FINE, Layout, axes, colour, grid};
use super::{Density, PlotError};

/// Places at which a marginal density is evaluated.
const DENSITY_POINTS: u16 = 240;

const PANEL: (u32, u32) = (330, 250);

/// The marginal densities of one quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What the quantity is.
    pub title: String,
    /// Its unit, which labels the axis.
    pub unit: String,
    /// Who says what about it; equal names have equal colours in all panels. The first is filled.
    pub curves: Vec<(String, Density)>,
}

/// Draws a grid of panels, three in a row, with one legend for all.
///
/// # Errors
/// [`PlotError::Empty`] without a panel or for a density without spread, [`PlotError::Write`] if the file cannot be put
/// in place.
pub fn marginals(path: &Path, panels: &[Panel]) -> Result<(), PlotError> {
    let broken =
        panels.iter().find(|panel| panel.curves.is_empty() || !panel.curves.iter().all(|curve| curve.1.is_drawable()));
    if panels.is_empty() || broken.is_some() {
        let found =
            broken.map_or_else(|| "no panel".to_owned(), |panel| format!("nothing to draw in `{}`", panel.title));
        return Err(PlotError::Empty { path: path.into(), found, expected: "finite densities with some spread" });
    }
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in panels.iter().flat_map(|panel| &panel.curves) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    grid(path, PANEL, &names, panels, |area, panel| draw_panel(area, panel, &names))
}

fn draw_panel(area: &Area, panel: &Panel, names: &[&str]) -> Drawn {
    let ranges = panel.curves.iter().map(|(_, density)| density.range());
    let (low, high) = ranges.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (a, b)| (low.min(a), high.max(b)));
    let step = (high - low) / f64::from(DENSITY_POINTS);
    let places: Vec<f64> = (0..=DENSITY_POINTS).map(|k| low + step * f64::from(k)).collect();
    let heights: Vec<Vec<f64>> = panel.curves.iter().map(|(_, density)| density.evaluate(&places)).collect();
    let peak = heights.iter().flatten().copied().fold(0.0, f64::max);
    let words = [&panel.title, &panel.unit, "density"];
    let mut chart = axes(area, Layout::Panel, words, low..high, 0.0..1.08 * peak)?;
    for (index, ((name, _), heights)) in panel.curves.iter().zip(&heights).enumerate() {
        let shade = colour(names.iter().position(|known| known == name).unwrap_or(index));
        let curve = places.iter().copied().zip(heights.iter().copied());
        if index == 0 {
            chart.draw_series(AreaSeries::new(curve.clone(), 0.0, shade.mix(0.12)))?;
        }
        chart.draw_series(LineSeries::new(curve, shade.stroke_width(2 * FINE)))?;
    }
    Ok(())
}
