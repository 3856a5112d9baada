//! Says in lines how far a fit is where standard error is no terminal: a step may take minutes, and a log is silent meanwhile.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::say::note;
use crate::executables::spoken::pause;
use crate::inference::{Counters, Judging, Metrics, Progress, RunRecord, StepInfo};

/// How long after the beginning there is a line.
const SOON: Duration = Duration::from_secs(5);

/// A line on the terminal that tells the time, or lines elsewhere.
#[derive(Debug)]
pub(super) struct Course {
    line: Metrics,
    teller: Option<Teller>,
}

impl Course {
    pub(super) fn new() -> Self {
        let teller = (!stderr().is_terminal()).then(|| Teller::new(|gone| pause(SOON, gone), note));
        Self { line: Metrics::line(), teller }
    }

    fn tell(&self, done: String) {
        if let Some(teller) = &self.teller {
            teller.tell(done);
        }
    }
}

impl Progress for Course {
    fn step(&mut self, info: &StepInfo, counters: &Counters) {
        self.line.step(info, counters);
        self.tell(format!("step {} is done", info.step));
    }

    fn end(&mut self, record: &RunRecord) {
        self.line.end(record);
        self.tell("the steps are done".into());
    }

    fn judging(&mut self, stage: Judging) {
        self.line.judging(stage);
        match stage {
            Judging::Look(look) => self.tell(format!("the steps are done; round of trust, look {look}")),
            Judging::Over => self.teller = None,
        }
    }

    fn found(&mut self, steps: u64, bound: f64) {
        self.line.found(steps, bound);
    }
}

/// A thread that says again and again what it was told last, until it is dropped.
#[derive(Debug)]
struct Teller {
    told: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Teller {
    fn new(pause: fn(Duration) -> Duration, say: impl Fn(String) + Send + 'static) -> Self {
        let (told, heard) = channel();
        let thread = std::thread::spawn(move || {
            let (began, mut done) = (Instant::now(), String::from("the first step"));
            let mut next = began + pause(Duration::ZERO);
            loop {
                match heard.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(now) => done = now,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let now = Instant::now();
                if now >= next {
                    say(format!("{:.0} s: {done}", (now - began).as_secs_f64()));
                    next = now + pause(now - began);
                }
            }
        });
        Self { told: Some(told), thread: Some(thread) }
    }

    fn tell(&self, done: String) {
        // Where the thread has ended the message is lost, and a fit goes on.
        drop(self.told.as_ref().map(|told| told.send(done)));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.told = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_after_five_seconds_then_every_ten_and_in_a_long_fit_more_rarely() {
        for (gone, next) in [(0, 5), (5, 10), (300, 30)] {
            assert_eq!(pause(SOON, Duration::from_secs(gone)), Duration::from_secs(next));
        }
    }

    #[test]
    fn a_step_that_does_not_end_is_told_again_and_nothing_after_the_end() {
        let (said, lines) = channel();
        let teller = Teller::new(|_| Duration::from_millis(20), move |line| drop(said.send(line)));
        let long = Duration::from_secs(60);
        for _ in 0..2 {
            let line = lines.recv_timeout(long).unwrap();
            assert!(line.ends_with(" s: the first step"), "{line}");
        }
        teller.tell("step 1 is done".into());
        let found = (0..100).map(|_| lines.recv_timeout(long).unwrap()).find(|line| line.ends_with("step 1 is done"));
        assert!(found.is_some());
        drop(teller);
        // The thread is over, and its sender with it.
        while let Ok(line) = lines.recv_timeout(long) {
            assert!(line.ends_with("step 1 is done"), "{line}");
        }
    }
}
