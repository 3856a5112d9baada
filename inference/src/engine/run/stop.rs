//! Decides whether a run has converged: from noisy bounds, or from how far the posterior still moves.

use std::collections::VecDeque;

use crate::engine::algorithm::StepInfo;
use crate::engine::error::Result;
use crate::engine::moments::mean_and_variance;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// Stops when the bound has not risen by more than its noise from one window of steps to the next.
///
/// With windows of `window` steps and means $m_1, m_2$: stops once $m_2 - m_1 \le k\sqrt{s_1^2/w + s_2^2/w}$ with $k$ =
/// `errors`, after at least `least` steps; so it does on a bound that stays the same to the last digit. With a decaying
/// learning rate prefer running to the end.
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

/// Stops once so many exchanges in a row have each moved the posterior by less than `change`.
///
/// The measure is [`StepInfo::movement`], in PVI of the natural parameters; where there is none it is the norm of the
/// gradient. Let `exchanges` cover every silo: a sweep where one is visited at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// What counts as no movement.
    pub change: f64,
    /// How many exchanges in a row.
    pub exchanges: usize,
}

/// What the rules of a run have seen.
#[derive(Debug)]
pub(super) struct Watch {
    rules: (Option<StopRule>, Option<Tolerance>),
    bounds: VecDeque<f64>,
    seen: u64,
    tolerance: usize,
}

impl Watch {
    pub(super) fn new(stop: Option<StopRule>, tolerance: Option<Tolerance>) -> Self {
        Self { rules: (stop, tolerance), bounds: VecDeque::new(), seen: 0, tolerance: 0 }
    }

    /// Adds what has been seen to the state of a run.
    pub(super) fn save(&self, state: Message) -> Message {
        let bounds: Vec<f64> = self.bounds.iter().copied().collect();
        state
            .floats("run.stop.bounds", &bounds)
            .word("run.stop.seen", self.seen)
            .word("run.stop.tolerance", self.tolerance as u64)
    }

    /// Takes it back; nothing was seen where nothing was saved.
    pub(super) fn load(&mut self, state: &Message) -> Result<()> {
        if state.has("run.stop.bounds") {
            self.bounds = state.get_floats("run.stop.bounds")?.into();
            self.seen = state.get_word("run.stop.seen")?;
            self.tolerance =
                usize::try_from(state.get_count("run.stop.tolerance", LARGEST_COUNT)?).unwrap_or(usize::MAX);
        }
        Ok(())
    }

    /// Takes what is known of a step; true once a rule is met.
    pub(super) fn is_over(&mut self, info: &StepInfo) -> bool {
        let (stop, tolerance) = self.rules;
        stop.is_some_and(|rule| self.has_converged(rule, info.elbo))
            || tolerance.is_some_and(|rule| self.is_still(rule, info))
    }

    fn is_still(&mut self, rule: Tolerance, info: &StepInfo) -> bool {
        let measure = info.movement.or(info.gradient_norm);
        self.tolerance = if measure.is_some_and(|measure| measure < rule.change) { self.tolerance + 1 } else { 0 };
        self.tolerance >= rule.exchanges.max(1)
    }

    fn has_converged(&mut self, rule: StopRule, elbo: f64) -> bool {
        let window = rule.window.max(2);
        self.bounds.push_back(elbo);
        while self.bounds.len() > 2 * window {
            self.bounds.pop_front();
        }
        self.seen += 1;
        let due = self.seen >= rule.least && self.seen.is_multiple_of(window as u64);
        if !due || self.bounds.len() < 2 * window {
            return false;
        }
        let bounds = self.bounds.make_contiguous();
        let (before, variance_before) = mean_and_variance(&bounds[..window]);
        let (after, variance_after) = mean_and_variance(&bounds[window..]);
        #[expect(clippy::cast_precision_loss, reason = "windows are far shorter than 2^52")]
        let error = ((variance_before + variance_after) / window as f64).sqrt();
        after - before <= rule.errors * error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::algorithm::Tally;

    /// The step at which bounds end a run.
    fn end(bounds: impl IntoIterator<Item = f64>) -> Option<usize> {
        let mut watch = Watch::new(Some(StopRule { window: 3, errors: 0.5, least: 6 }), None);
        let info = |elbo| StepInfo { elbo, gradient_norm: Some(1.0), ..StepInfo::still(0, Tally::default()) };
        bounds.into_iter().position(|elbo| watch.is_over(&info(elbo)))
    }

    #[test]
    fn a_bound_that_stays_the_same_ends_a_run_at_the_first_decision() {
        // Two windows of three, counted from zero.
        assert_eq!(end(vec![-7.25; 20]), Some(5));
        let rises = (0..9).map(f64::from).chain(std::iter::repeat_n(8.0, 20));
        // The window of 6, 7 and 8 has risen; that of three times 8 too; the next has not.
        assert_eq!(end(rises), Some(14));
    }

    #[test]
    fn a_bound_that_rises_or_is_no_number_ends_none() {
        assert_eq!(end((0..100).map(f64::from)), None);
        assert_eq!(end(vec![f64::NAN; 20]), None);
    }

    #[test]
    fn what_a_rule_has_seen_goes_on_after_a_checkpoint() {
        let (stop, tolerance) =
            (StopRule { window: 3, errors: 0.5, least: 6 }, Tolerance { change: 0.1, exchanges: 10 });
        let of = |elbo, norm| StepInfo { elbo, gradient_norm: Some(norm), ..StepInfo::still(0, Tally::default()) };
        for (rules, elbo, gradient_norm, last) in
            [((Some(stop), None), -7.25, 1.0, 6), ((None, Some(tolerance)), f64::NAN, 0.01, 10)]
        {
            let mut watch = Watch::new(rules.0, rules.1);
            for _ in 0..last - 1 {
                assert!(!watch.is_over(&of(elbo, gradient_norm)));
                let state = Message::decode(&watch.save(Message::new("run")).encode()).unwrap();
                watch = Watch::new(rules.0, rules.1);
                watch.load(&state).unwrap();
            }
            assert!(watch.is_over(&of(elbo, gradient_norm)));
        }
    }
}
