//! Says in a coordinator's log how far its run is: a bar is seen on a terminal alone.

use std::time::{Duration, Instant};

use partita_flower::Log;
use partita_inference::{Counters, Judging, Progress, RunRecord, StepInfo};

/// How long after the beginning a step is said.
const SOON: Duration = Duration::from_millis(1_500);
/// How long after a line there is another one at the soonest.
const AGAIN: Duration = Duration::from_secs(10);

/// The time from `gone` after the beginning to the next line, of which the first comes `soon`; in a long run lines are rarer.
pub(crate) fn pause(soon: Duration, gone: Duration) -> Duration {
    if gone < soon { soon - gone } else { AGAIN.max(gone / 10) }
}

/// Tells a log of some steps, and another progress of all.
pub(super) struct Spoken<'a> {
    progress: &'a mut dyn Progress,
    log: &'a Log,
    began: Instant,
    next: Instant,
}

impl<'a> Spoken<'a> {
    pub(super) fn new(progress: &'a mut dyn Progress, log: &'a Log) -> Self {
        let began = Instant::now();
        Self { progress, log, began, next: began + pause(SOON, Duration::ZERO) }
    }

    fn step_at(&mut self, now: Instant, step: u64) {
        if now < self.next {
            return;
        }
        let gone = now - self.began;
        (self.log)(&format!("step {step} is done, {:.0} s", gone.as_secs_f64()));
        self.next = now + pause(SOON, gone);
    }
}

impl Progress for Spoken<'_> {
    fn step(&mut self, info: &StepInfo, counters: &Counters) {
        self.progress.step(info, counters);
        self.step_at(Instant::now(), info.step);
    }

    fn end(&mut self, record: &RunRecord) {
        self.progress.end(record);
    }

    fn judging(&mut self, stage: Judging) {
        self.progress.judging(stage);
        if let Judging::Look(look) = stage {
            (self.log)(&format!("the steps are done; round of trust, look {look}"));
        }
    }

    fn found(&mut self, steps: u64, bound: f64) {
        self.progress.found(steps, bound);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use partita_inference::Silent;

    use super::*;

    #[test]
    fn a_run_says_within_two_seconds_where_it_is_and_later_more_rarely() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&said);
        let log: Log = Arc::new(move |line| own.lock().unwrap().push(line.to_owned()));
        let mut silent = Silent;
        let mut spoken = Spoken::new(&mut silent, &log);
        let began = spoken.began;
        for step in 1..=400 {
            spoken.step_at(began + Duration::from_millis(900 * step), step);
        }
        let said = said.lock().unwrap().clone();
        assert_eq!(said[..3], ["step 2 is done, 2 s", "step 14 is done, 13 s", "step 26 is done, 23 s"]);
        // Of six minutes less than a line every ten seconds.
        assert!((20..32).contains(&said.len()), "{said:?}");
    }
}
