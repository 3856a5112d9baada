//! Prepares the trace of a bound for a picture: a frame around its end, and a running mean over the noise of single draws.

use std::ops::Range;

/// Places along a trace that can be told apart; more points make the file larger and the picture no finer.
const TRACE_PLACES: f64 = 1_500.0;

/// Margins left below the values that frame a trace, so that the end of its rise is seen.
const CONTEXT: f64 = 5.0;

/// The least margin in nats: what is less is not to look like a rise.
const NEGLIGIBLE: f64 = 0.02;

/// What is drawn of a trace.
#[derive(Debug)]
pub(super) struct Course {
    /// The steps from the first to the last.
    pub(super) steps: Range<f64>,
    /// The values that are seen.
    pub(super) frame: Range<f64>,
    /// Every value within, as far as they can be told apart, and their running mean.
    pub(super) curves: [Vec<(f64, f64)>; 2],
    /// In words how many values are not seen, and why; empty where all are.
    pub(super) unseen: String,
}

impl Course {
    /// That of these steps and values; `None` without two finite values at different steps.
    pub(super) fn of(points: &[(f64, f64)]) -> Option<Self> {
        let usable = |point: &&(f64, f64)| point.1.is_finite() && point.0 > 0.0 && point.0.is_finite();
        let finite: Vec<(f64, f64)> = points.iter().filter(usable).copied().collect();
        let (first, last) = (finite.first()?.0, finite.last()?.0);
        if first >= last {
            return None;
        }
        // Framed by the second half of the values, to show the end of a fit.
        let low = finite[finite.len() / 2..].iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
        let high = finite.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
        let margin = (0.08 * (high - low)).max(1e-6 * high.abs()).max(NEGLIGIBLE);
        let frame = low - CONTEXT * margin..high + margin;
        let below = finite.iter().filter(|point| point.1 < frame.start).count();
        // A run may begin before there is a bound.
        let begun = points.iter().skip_while(|point| !point.1.is_finite()).count();
        let mut unseen = String::new();
        for (count, what) in [(below, "below the frame"), (begun - finite.len(), "not finite")] {
            if count > 0 {
                unseen.push_str(&format!(" ({count} of {} values {what})", points.len()));
            }
        }
        let curves = [thinned(&finite), thinned(&running_mean(&finite))].map(|mut curve| {
            curve.retain(|point| point.1 >= frame.start);
            curve
        });
        Some(Self { steps: first..last, frame, curves, unseen })
    }
}

/// The points that can be told apart along the axis, with the first and the last.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let gap = (last.0 - first.0) / TRACE_PLACES;
    let mut thin = vec![*first];
    let mut reached = first.0;
    for point in &points[1..points.len() - 1] {
        if point.0 - reached >= gap {
            reached = point.0;
            thin.push(*point);
        }
    }
    thin.push(*last);
    thin
}

/// The mean over a centred window: a fiftieth of all points, less at its start, so that a steep start stays steep.
fn running_mean(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |window: &[(f64, f64)]| window.iter().map(|point| point.1).sum::<f64>() / window.len() as f64;
    let window = |at: usize| {
        let half = (points.len() / 100).min(at / 10);
        &points[at - half..points.len().min(at + half + 1)]
    };
    (0..points.len()).map(|at| (points[at].0, mean(window(at)))).collect()
}
