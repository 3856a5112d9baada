//! Says how long a silo pauses between two looks for a request.

use std::time::{Duration, Instant};

/// The shortest pause.
const PAUSE: Duration = Duration::from_millis(100);

/// The pauses of a silo that waits for a request.
///
/// Rounds are alike: the first pause is half as long as the last wait was. Later ones are a fifth of the time waited so far, so that
/// a request is late by a fifth of its wait at most, however few looks there are. Every look is a call that many silos make to
/// one engine.
#[derive(Debug)]
pub(crate) struct Pace {
    longest: Duration,
    /// When this wait began.
    began: Instant,
    /// How long the last wait was.
    last: Duration,
    is_first: bool,
}

impl Pace {
    /// Pauses of at most so long.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, began: Instant::now(), last: Duration::ZERO, is_first: true }
    }

    /// A request has come.
    pub(crate) fn came(&mut self) {
        self.came_at(Instant::now());
    }

    /// A wait begins.
    pub(crate) fn wait(&mut self) {
        self.wait_at(Instant::now());
    }

    /// How long to pause before the next look.
    pub(crate) fn pause(&mut self) -> Duration {
        self.pause_at(Instant::now())
    }

    fn came_at(&mut self, now: Instant) {
        self.last = now - self.began;
    }

    fn wait_at(&mut self, now: Instant) {
        (self.began, self.is_first) = (now, true);
    }

    fn pause_at(&mut self, now: Instant) -> Duration {
        let pause = if std::mem::take(&mut self.is_first) { self.last / 2 } else { (now - self.began) / 5 };
        pause.clamp(PAUSE, self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks of a silo that gets a request after each of these waits, in milliseconds, and how late it is found.
    fn looks(waits: &[u64]) -> Vec<(u32, Duration)> {
        let mut pace = Pace::new(Duration::from_secs(2));
        let (mut now, mut found) = (Instant::now(), Vec::new());
        for wait in waits {
            pace.wait_at(now);
            let (due, mut count) = (now + Duration::from_millis(*wait), 1);
            while now < due {
                now += pace.pause_at(now);
                count += 1;
            }
            pace.came_at(now);
            found.push((count, now - due));
        }
        found
    }

    #[test]
    fn a_silo_of_rounds_that_are_alike_looks_a_few_times_and_finds_its_request_soon() {
        // With pauses that began at a tenth of a second each time and grew by a fifth these were thirteen looks a round.
        for (count, late) in &looks(&[3_500; 10])[1..] {
            assert!(*count <= 7 && *late < Duration::from_millis(800), "{count} {late:?}");
        }
        for (count, late) in looks(&[150; 10]) {
            assert!(count <= 3 && late <= Duration::from_millis(100), "{count} {late:?}");
        }
    }

    #[test]
    fn a_request_after_a_long_wait_is_two_seconds_late_at_most() {
        for (_, late) in looks(&[600_000, 50, 600_000, 50]) {
            assert!(late <= Duration::from_secs(2), "{late:?}");
        }
    }
}
