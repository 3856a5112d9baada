//! Draws the bound of a fit against its steps, with a running mean over the noise of single draws.

use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::PlotError;
use super::canvas::{Area, Drawn, FINE, Layout, axes, colour, picture};

/// Places along a trace that can be told apart; more points make the file larger and the picture no finer.
const TRACE_PLACES: f64 = 1_500.0;

/// Margins left below the values that frame a trace, so that the end of its rise is seen.
const CONTEXT: f64 = 5.0;

/// How the steps of a trace are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepAxis {
    /// Evenly, framed by the second half of the values: shows the end of a fit.
    Linear,
    /// By their logarithm, framed by all values: shows the beginning of a fit as well.
    Logarithmic,
}

impl StepAxis {
    fn position(self, step: f64) -> f64 {
        match self {
            Self::Linear => step,
            Self::Logarithmic => step.ln(),
        }
    }
}

/// Draws the bound in nats against the step, every value lightly and their running mean on top.
///
/// # Errors
/// [`PlotError::Empty`] with fewer than two finite values, [`PlotError::Write`] if the file cannot be put in place.
pub fn trace(path: &Path, points: &[(f64, f64)], title: &str, axis: StepAxis) -> Result<(), PlotError> {
    let usable = |point: &&(f64, f64)| point.1.is_finite() && point.0 > 0.0 && point.0.is_finite();
    let finite: Vec<(f64, f64)> = points.iter().filter(usable).copied().collect();
    let (Some(&(first, _)), Some(&(last, _))) = (finite.first(), finite.last()) else {
        return Err(too_few_points(path, points));
    };
    if first >= last {
        return Err(too_few_points(path, points));
    }
    let framing = if axis == StepAxis::Linear { &finite[finite.len() / 2..] } else { &finite };
    let low = framing.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = finite.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    let margin = (0.08 * (high - low)).max(1e-6 * high.abs()).max(f64::MIN_POSITIVE);
    let frame = low - CONTEXT * margin..high + margin;
    let below = finite.iter().filter(|point| point.1 < frame.start).count();
    let mut caption = title.to_owned();
    for (count, what) in [(below, "below the frame"), (points.len() - finite.len(), "not finite")] {
        if count > 0 {
            caption.push_str(&format!(" ({count} of {} values {what})", points.len()));
        }
    }
    let curves = [thinned(&finite, axis), thinned(&running_mean(&finite), axis)].map(|mut curve| {
        curve.retain(|point| point.1 >= frame.start);
        curve
    });
    picture(path, (760, 420), |root| match axis {
        StepAxis::Linear => draw_trace(root, &caption, first..last, frame, &curves),
        StepAxis::Logarithmic => draw_trace(root, &caption, (first..last).log_scale(), frame, &curves),
    })
}

fn too_few_points(path: &Path, points: &[(f64, f64)]) -> PlotError {
    PlotError::Empty {
        path: path.into(),
        found: format!("{} points", points.len()),
        expected: "two finite values at different steps, counted from 1",
    }
}

/// The points that can be told apart along the axis, with the first and the last.
fn thinned(points: &[(f64, f64)], axis: StepAxis) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let gap = (axis.position(last.0) - axis.position(first.0)) / TRACE_PLACES;
    let mut thin = vec![*first];
    let mut reached = axis.position(first.0);
    for point in &points[1..points.len() - 1] {
        if axis.position(point.0) - reached >= gap {
            reached = axis.position(point.0);
            thin.push(*point);
        }
    }
    thin.push(*last);
    thin
}

/// The mean over a centred window: a fiftieth of all points, less at its start, so that a steep start stays steep.
fn running_mean(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    #[expect(clippy::cast_precision_loss, reason = "a window has far fewer than 2^52 points")]
    let mean = |window: &[(f64, f64)]| window.iter().map(|point| point.1).sum::<f64>() / window.len() as f64;
    let window = |at: usize| {
        let half = (points.len() / 100).min(at / 10);
        &points[at - half..points.len().min(at + half + 1)]
    };
    (0..points.len()).map(|at| (points[at].0, mean(window(at)))).collect()
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
