//! Draws bounds that several runs have measured now and then, one curve a run, with a level that is to be reached.

use std::path::Path;

use plotters::prelude::*;

use super::trace::bound_axes;
use super::{Area, Drawn, FINE, INK, PlotError, colour, draw_legend, picture, pixels};

const SIZE: (u32, u32) = (760, 460);
const LEGEND: u32 = 40;

/// What part of the longest run may lie below the frame: the first steps rise so far that nothing else would be seen.
const START: f64 = 0.02;

/// Draws the bound in nats of each run against its steps, and a thin line at `level`.
///
/// # Errors
/// [`PlotError::Empty`] without a run, or for one without two finite values at different steps; [`PlotError::Write`] if the
/// file cannot be put in place.
///
/// # Example
/// ```
/// use partita_inference::plot;
/// let folder = tempfile::tempdir()?;
/// let runs = [("slow".to_owned(), vec![(0.0, -9.0), (10.0, -2.0)]), ("fast".to_owned(), vec![(0.0, -3.0), (10.0, -2.0)])];
/// plot::curves(&folder.path().join("runs.svg"), &runs, "two runs", Some(-2.1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn curves(
    path: &Path,
    runs: &[(String, Vec<(f64, f64)>)],
    title: &str,
    level: Option<f64>,
) -> Result<(), PlotError> {
    let idle = runs.iter().find(|(_, points)| !is_drawable(points));
    if runs.is_empty() || idle.is_some() {
        let found = idle.map_or_else(|| "no run".to_owned(), |(name, points)| format!("{points:?} of `{name}`"));
        let expected = "two finite values at different steps for each run";
        return Err(PlotError::Empty { path: path.into(), found, expected });
    }
    let all = || runs.iter().flat_map(|(_, points)| points);
    let first = all().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let last = all().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
    let high = all().map(|point| point.1).chain(level).fold(f64::NEG_INFINITY, f64::max);
    let shown = all().filter(|point| point.0 >= first + START * (last - first));
    let low = shown.map(|point| point.1).chain(level).fold(f64::INFINITY, f64::min);
    let margin = (0.05 * (high - low)).max(1e-6 * high.abs()).max(f64::MIN_POSITIVE);
    let frame = low - margin..high + margin;
    let names: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    picture(path, SIZE, |root| {
        let (legend, rest) = root.split_vertically(pixels(LEGEND));
        draw_legend(&legend, 1, &names)?;
        draw_runs(&rest, runs, title, (first..last, frame, level))
    })
}

fn is_drawable(points: &[(f64, f64)]) -> bool {
    points.iter().all(|(step, value)| step.is_finite() && value.is_finite())
        && points.windows(2).any(|pair| pair[0].0 < pair[1].0)
}

fn draw_runs(
    area: &Area,
    runs: &[(String, Vec<(f64, f64)>)],
    title: &str,
    (steps, frame, level): (std::ops::Range<f64>, std::ops::Range<f64>, Option<f64>),
) -> Drawn {
    let (low, ends) = (frame.start, [steps.start, steps.end]);
    let mut chart = bound_axes(area, title, (steps, frame))?;
    if let Some(level) = level {
        chart.draw_series(LineSeries::new(ends.map(|step| (step, level)), INK.mix(0.6).stroke_width(FINE)))?;
    }
    for (index, (_, points)) in runs.iter().enumerate() {
        let inside = points.iter().copied().filter(|point| point.1 >= low);
        chart.draw_series(LineSeries::new(inside, colour(index + 1).stroke_width(2 * FINE)))?;
    }
    Ok(())
}
