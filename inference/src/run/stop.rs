//! Decides from noisy bounds whether a run has converged.

use std::collections::VecDeque;

use crate::assess::mean_and_variance;

/// Stops when the bound has not risen by more than its noise from one window of steps to the next.
///
/// With windows of `window` steps and means $m_1, m_2$: stops once $m_2 - m_1 < k\sqrt{s_1^2/w + s_2^2/w}$ with
/// $k$ = `errors`, after at least `least` steps. With a decaying learning rate prefer running to the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StopRule {
    /// Steps in a window.
    pub window: usize,
    /// How many standard errors of the difference count as no rise.
    pub errors: f64,
    /// Steps before the first decision.
    pub least: u64,
}

impl Default for StopRule {
    fn default() -> Self {
        Self { window: 500, errors: 0.5, least: 2_000 }
    }
}

/// The last two windows of bounds.
#[derive(Debug)]
pub(super) struct Watch {
    rule: StopRule,
    bounds: VecDeque<f64>,
    seen: u64,
}

impl Watch {
    pub(super) fn new(rule: StopRule) -> Self {
        Self { rule, bounds: VecDeque::new(), seen: 0 }
    }

    /// Takes the bound of a step; true once the rule is met.
    pub(super) fn converged(&mut self, elbo: f64) -> bool {
        let window = self.rule.window.max(2);
        self.bounds.push_back(elbo);
        if self.bounds.len() > 2 * window {
            self.bounds.pop_front();
        }
        self.seen += 1;
        let due = self.seen >= self.rule.least && self.seen.is_multiple_of(window as u64);
        if !due || self.bounds.len() < 2 * window {
            return false;
        }
        let bounds = self.bounds.make_contiguous();
        let (before, variance_before) = mean_and_variance(&bounds[..window]);
        let (after, variance_after) = mean_and_variance(&bounds[window..]);
        #[expect(clippy::cast_precision_loss, reason = "windows are far shorter than 2^52")]
        let error = ((variance_before + variance_after) / window as f64).sqrt();
        after - before < self.rule.errors * error
    }
}
