//! Draws what several methods make of a quantity that is varied, one line a method, with axes that the caller names.

use std::path::Path;

use partita::inference::plot::PlotError;
use partita::inference::plot::canvas::{FINE, LEGEND, Layout, axes, colour, legend, picture, pixels};
use plotters::prelude::*;

const SIZE: (u32, u32) = (760, 460);

/// Draws one line a method through its points, under `title`; `along` and `up` name the axes.
///
/// # Errors
/// [`PlotError::Empty`] without a line, or unless each has two finite points at different places; [`PlotError::Write`]
/// if the file cannot be put in place.
///
/// # Example
/// ```
/// use partita_studies::pictures;
/// let folder = tempfile::tempdir()?;
/// let lines = [("square".to_owned(), vec![(0.0, 0.0), (1.0, 1.0), (2.0, 4.0)])];
/// pictures::lines(&folder.path().join("square.svg"), &lines, "growth", ["side", "area"])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lines(
    path: &Path,
    lines: &[(String, Vec<(f64, f64)>)],
    title: &str,
    [along, up]: [&str; 2],
) -> Result<(), PlotError> {
    let idle = lines.iter().find(|(_, points)| !is_drawable(points));
    if lines.is_empty() || idle.is_some() {
        let found = idle.map_or_else(|| "no line".to_owned(), |(name, points)| format!("{points:?} of `{name}`"));
        let expected = "two finite points at different places for each line";
        return Err(PlotError::Empty { path: path.into(), found, expected });
    }
    let range = |of: fn(&(f64, f64)) -> f64| {
        let all = || lines.iter().flat_map(|(_, points)| points).map(of);
        (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max))
    };
    let ((first, last), (low, high)) = (range(|point| point.0), range(|point| point.1));
    let margin = (0.05 * (high - low)).max(1e-6 * high.abs()).max(f64::MIN_POSITIVE);
    let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
    picture(path, SIZE, |root| {
        let (top, rest) = root.split_vertically(pixels(LEGEND));
        legend(&top, 1, &names)?;
        let mut chart = axes(&rest, Layout::Whole, [title, along, up], first..last, low - margin..high + margin)?;
        for (index, (_, points)) in lines.iter().enumerate() {
            let colour = colour(index + 1);
            chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2 * FINE)))?;
            chart.draw_series(points.iter().map(|point| Circle::new(*point, pixels(3), colour.filled())))?;
        }
        Ok(())
    })
}

/// Whether all points are finite and two of them lie at different places.
pub(super) fn is_drawable(points: &[(f64, f64)]) -> bool {
    points.iter().all(|(x, y)| x.is_finite() && y.is_finite()) && points.windows(2).any(|pair| pair[0].0 < pair[1].0)
}
