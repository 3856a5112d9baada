//! Inverts the logarithm of a tail: by a safeguarded Newton search for numbers, by bisection for counts.

use super::Component;
use crate::distribution::formula::Slots;
use crate::distribution::tail::Tail;

/// Doublings of a bracket: past the largest number.
const DOUBLINGS: usize = 2_200;
/// Newton steps; the search then halves the bracket.
const NEWTON: usize = 60;
/// Steps in all.
const STEPS: usize = 400;

/// A number of which a tail's probability is asked for.
pub(super) struct Search<'a> {
    pub(super) component: &'a Component,
    pub(super) parameters: &'a [&'a [f64]],
    pub(super) tail: Tail,
    /// The logarithm of the probability.
    pub(super) log: f64,
}

impl Search<'_> {
    /// A function that rises with `at` and is zero at the number searched for, and its slope.
    fn rise(&self, at: f64) -> (f64, f64) {
        let mut slope = [0.0];
        let mut slots = Slots { scale: 1.0, value: &mut slope, parameters: &mut [] };
        let log = self.component.log_tail(self.tail, at, self.parameters, &mut slots);
        match self.tail {
            Tail::Lower => (log - self.log, slope[0]),
            Tail::Upper => (self.log - log, -slope[0]),
        }
    }

    /// A finite bracket within the ends `low` and `high`, which may be infinite.
    fn bracket(&self, mut low: f64, mut high: f64) -> (f64, f64) {
        let start = if low.is_finite() {
            low
        } else if high.is_finite() {
            high
        } else {
            0.0
        };
        let slope = self.rise(start).1;
        let widest = start.abs().max(1.0);
        // The distance over which a tail falls by e, unless it falls by next to nothing there.
        let first = if slope.is_finite() && slope > 0.0 { (1.0 / slope).min(widest) } else { widest };
        if high.is_infinite() {
            let mut step = first;
            high = start + step;
            for _ in 0..DOUBLINGS {
                if self.rise(high).0 >= 0.0 {
                    break;
                }
                low = high;
                step *= 2.0;
                high = (start + step).min(f64::MAX);
            }
        }
        if low.is_infinite() {
            let mut step = first;
            low = start - step;
            for _ in 0..DOUBLINGS {
                if self.rise(low).0 < 0.0 {
                    break;
                }
                high = high.min(low);
                step *= 2.0;
                low = (start - step).max(f64::MIN);
            }
        }
        (low, high)
    }

    /// The number, between the ends.
    pub(super) fn number(&self, low: f64, high: f64) -> f64 {
        let (mut low, mut high) = self.bracket(low, high);
        let mut at = 0.5 * low + 0.5 * high;
        for step in 0..STEPS {
            let (rise, slope) = self.rise(at);
            if rise < 0.0 {
                low = at;
            } else {
                high = at;
            }
            let newton = at - rise / slope;
            let inside = newton > low && newton < high && step < NEWTON;
            let next = if inside { newton } else { 0.5 * low + 0.5 * high };
            if (next - at).abs() <= f64::EPSILON * at.abs() || next <= low || next >= high {
                return next;
            }
            at = next;
        }
        // Around zero, where no difference is small beside the number itself.
        at
    }

    /// The smallest count whose lower tail reaches the probability, or whose upper tail is at most it; from `low` to
    /// `high`.
    pub(super) fn count(&self, low: f64, high: f64) -> f64 {
        let reaches = |count: f64| self.rise(count).0 >= 0.0;
        if reaches(low) {
            return low;
        }
        let mut before = low;
        let mut step = 1.0;
        let mut last = (low + step).min(high);
        while last < high && !reaches(last) {
            before = last;
            step *= 2.0;
            last = (low + step).min(high);
        }
        while last - before > 1.0 {
            let middle = (0.5 * before + 0.5 * last).floor();
            if middle <= before || middle >= last {
                break;
            }
            if reaches(middle) {
                last = middle;
            } else {
                before = middle;
            }
        }
        last
    }
}
