//! Finds a step along a descent direction that satisfies the strong conditions of Wolfe.

use crate::engine::error::Result;

/// Sufficient decrease, and the share of the first slope that may remain.
const DECREASE: f64 = 1e-4;
const CURVATURE: f64 = 0.9;
/// Evaluations of one search; a smooth function needs two or three.
const EVALUATIONS: usize = 40;

/// A function along a direction: its value and slope at zero, and the step tried first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Along {
    pub(crate) value: f64,
    pub(crate) slope: f64,
    pub(crate) first: f64,
}

/// A step with value and slope there.
#[derive(Debug, Clone, Copy)]
struct Point {
    step: f64,
    value: f64,
    slope: f64,
}

/// A search that asks for one step at a time, so that it goes over any exchange.
#[derive(Debug)]
pub(crate) struct Search {
    along: Along,
    low: Point,
    high: Option<Point>,
    step: f64,
    evaluations: usize,
}

impl Search {
    /// A search along a direction; `None` for one that does not descend.
    pub(crate) fn new(along: Along) -> Option<Self> {
        if along.slope >= 0.0 || along.slope.is_nan() {
            return None;
        }
        let low = Point { step: 0.0, value: along.value, slope: along.slope };
        Some(Self { along, low, high: None, step: along.first, evaluations: 0 })
    }

    /// The step at which value and slope are wanted.
    pub(crate) fn step(&self) -> f64 {
        self.step
    }

    /// Takes value and slope at that step, and nothing where the function does not exist: a step that is too long.
    ///
    /// `None` while the search goes on; then whether the last step satisfies the conditions, or at least descends as
    /// far as rounding lets it.
    pub(crate) fn take(&mut self, found: Option<(f64, f64)>) -> Option<bool> {
        let Self { along, low, high, step, evaluations } = self;
        *evaluations += 1;
        let last = (*evaluations >= EVALUATIONS).then_some(false);
        let Some((value, slope)) = found.filter(|(value, slope)| value.is_finite() && slope.is_finite()) else {
            // Outside the domain: half way back.
            *high = Some(Point { step: *step, value: f64::INFINITY, slope: f64::INFINITY });
            *step = 0.5 * (low.step + *step);
            return last;
        };
        let here = Point { step: *step, value, slope };
        // Near a minimum values differ by rounding alone, and the slope decides.
        let rounding = 4.0 * f64::EPSILON * along.value.abs();
        if value > along.value + DECREASE * here.step * along.slope + rounding || value > low.value + rounding {
            *high = Some(here);
        } else if slope.abs() <= -CURVATURE * along.slope {
            return Some(true);
        } else if slope * (here.step - low.step) > 0.0 && high.is_none()
            || high.is_some_and(|high| slope * (high.step - low.step) >= 0.0)
        {
            (*high, *low) = (Some(*low), here);
        } else {
            *low = here;
        }
        *step = match *high {
            None => 2.0 * *step,
            Some(high) => between(*low, high),
        };
        if (*step - low.step).abs() <= f64::EPSILON * step.abs() {
            return Some(false);
        }
        last
    }
}

/// Whether the last step given to `at` satisfies the conditions, or at least descends as far as rounding lets it.
///
/// `at` gives value and slope at a step, and nothing where the function does not exist.
pub(crate) fn strong_wolfe(along: Along, mut at: impl FnMut(f64) -> Result<Option<(f64, f64)>>) -> Result<bool> {
    let Some(mut search) = Search::new(along) else { return Ok(false) };
    loop {
        if let Some(accepted) = search.take(at(search.step())?) {
            return Ok(accepted);
        }
    }
}

/// The minimum of the parabola through the value and slope of the lower point and the value of the other, kept off both
/// ends.
fn between(low: Point, high: Point) -> f64 {
    let width = high.step - low.step;
    let curvature = (high.value - low.value - low.slope * width) / (width * width);
    let share = -low.slope / (2.0 * curvature * width);
    low.step + width * if share.is_finite() { share.clamp(0.1, 0.9) } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_where_the_slope_is_small_and_inside_the_domain() {
        // x² - log(1 - x)... falls first, and exists below 1 only: the search starts outside.
        let function = |x: f64| (x < 1.0).then(|| (-2.0 * x - 0.5 * (1.0 - x).ln(), -2.0 + 0.5 / (1.0 - x)));
        let (value, slope) = function(0.0).unwrap();
        let mut last = 0.0;
        let accepted = strong_wolfe(Along { value, slope, first: 3.0 }, |x| {
            last = x;
            Ok(function(x))
        });
        assert!(accepted.unwrap());
        let (found, slope_there) = function(last).unwrap();
        assert!(found < value && slope_there.abs() <= 0.9 * slope.abs());
    }
}
