//! Draws the bound of a fit against its steps, with a running mean over the noise of single draws.

use std::path::Path;

use plotters::prelude::*;

use super::PlotError;
use super::canvas::{FINE, Layout, axes, colour, picture};
use crate::engine::report::course::Course;

/// Draws the bound in nats against the step, every value lightly and their running mean on top.
///
/// # Errors
/// [`PlotError::Empty`] with fewer than two finite values, [`PlotError::Write`] if the file cannot be put in place.
pub fn trace(path: &Path, points: &[(f64, f64)], title: &str) -> Result<(), PlotError> {
    let Some(Course { steps, frame, curves: [raw, smooth], unseen }) = Course::of(points) else {
        return Err(PlotError::Empty {
            path: path.into(),
            found: format!("{} points", points.len()),
            expected: "two finite values at different steps, counted from 1",
        });
    };
    let caption = format!("{title}{unseen}");
    picture(path, (760, 420), |root| {
        let mut chart = axes(root, Layout::Whole, [&caption, "step", "ELBO, nats"], steps, frame)?;
        chart.draw_series(LineSeries::new(raw, colour(1).mix(0.35).stroke_width(FINE)))?;
        chart.draw_series(LineSeries::new(smooth, colour(1).stroke_width(2 * FINE)))?;
        Ok(())
    })
}
