//! Draws the bound of a fit against its steps, with a running mean over the noise of single draws.

use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::PlotError;
use super::canvas::{Area, Drawn, FINE, Layout, axes, colour, picture};
use crate::engine::report::course::Course;
pub use crate::engine::report::course::StepAxis;

/// Draws the bound in nats against the step, every value lightly and their running mean on top.
///
/// # Errors
/// [`PlotError::Empty`] with fewer than two finite values, [`PlotError::Write`] if the file cannot be put in place.
pub fn trace(path: &Path, points: &[(f64, f64)], title: &str, axis: StepAxis) -> Result<(), PlotError> {
    let Some(Course { steps, frame, curves, unseen }) = Course::of(points, axis) else {
        return Err(PlotError::Empty {
            path: path.into(),
            found: format!("{} points", points.len()),
            expected: "two finite values at different steps, counted from 1",
        });
    };
    let caption = format!("{title}{unseen}");
    picture(path, (760, 420), |root| match axis {
        StepAxis::Linear => draw_trace(root, &caption, steps, frame, &curves),
        StepAxis::Logarithmic => draw_trace(root, &caption, steps.log_scale(), frame, &curves),
    })
}

fn draw_trace<X>(
    root: &Area,
    caption: &str,
    steps: X,
    frame: std::ops::Range<f64>,
    [raw, smooth]: &[Vec<(f64, f64)>; 2],
) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = axes(root, Layout::Whole, [caption, "step", "ELBO, nats"], steps, frame)?;
    chart.draw_series(LineSeries::new(raw.iter().copied(), colour(1).mix(0.35).stroke_width(FINE)))?;
    chart.draw_series(LineSeries::new(smooth.iter().copied(), colour(1).stroke_width(2 * FINE)))?;
    Ok(())
}
