//! Draws losses that several runs reported, one curve a run, against the messages that it took to get there.

use std::path::Path;

use plotters::prelude::*;

use super::curves::is_drawable;
use super::trace::axes;
use super::{FINE, PlotError, colour, draw_legend, picture, pixels};

const SIZE: (u32, u32) = (760, 460);
const LEGEND: u32 = 40;

/// Draws the loss in nats of each run against the number of its communications, on logarithmic axes: losses fall by factors
/// first and by thousandths later.
///
/// # Errors
/// [`PlotError::Empty`] without a run, or for one without two finite values above zero at different communications, counted
/// from 1; [`PlotError::Write`] if the file cannot be put in place.
///
/// # Example
/// ```
/// use partita_inference::plot;
/// let folder = tempfile::tempdir()?;
/// let runs = [("sequential".to_owned(), vec![(1.0, 900.0), (2.0, 30.0), (3.0, 28.0)])];
/// plot::losses(&folder.path().join("losses.svg"), &runs, "one run")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn losses(path: &Path, runs: &[(String, Vec<(f64, f64)>)], title: &str) -> Result<(), PlotError> {
    let is_positive = |points: &[(f64, f64)]| points.iter().all(|(at, loss)| *at > 0.0 && *loss > 0.0);
    let idle = runs.iter().find(|(_, points)| !is_drawable(points) || !is_positive(points));
    if runs.is_empty() || idle.is_some() {
        let found = idle.map_or_else(|| "no run".to_owned(), |(name, points)| format!("{points:?} of `{name}`"));
        let expected = "two finite values above zero at different communications for each run";
        return Err(PlotError::Empty { path: path.into(), found, expected });
    }
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let values = runs.iter().flat_map(|(_, points)| points).map(of);
        values.fold((f64::INFINITY, 0.0), |(low, high), value| (f64::min(low, value), f64::max(high, value)))
    };
    let ((first, last), (low, high)) = (bounds(|point| point.0), bounds(|point| point.1));
    let margin = (high / low).powf(0.05).max(1.0 + 1e-6);
    let names: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    picture(path, SIZE, |root| {
        let (legend, rest) = root.split_vertically(pixels(LEGEND));
        draw_legend(&legend, 1, &names)?;
        let frame = ((first..last).log_scale(), (low / margin..high * margin).log_scale());
        let mut chart = axes(&rest, title, frame, ["communications", "loss, nats"])?;
        for (index, (_, points)) in runs.iter().enumerate() {
            chart.draw_series(LineSeries::new(points.iter().copied(), colour(index + 1).stroke_width(2 * FINE)))?;
        }
        Ok(())
    })
}
