//! Says how long a silo pauses between two looks for a request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::task::now;

/// The shortest pause.
const PAUSE: Duration = Duration::from_millis(100);

/// The pauses of a silo that waits for a request.
///
/// Rounds are alike: the first look is when the request would have come after the shorter of the last two waits, and a sixteenth
/// later; in every fourth wait another is a sixteenth earlier, since requests may come sooner than they are looked for. Later
/// pauses are a fifth of the time waited so far, so that a request is late by a fifth of its wait at most, however few looks there
/// are. Every look is a call that many silos make to one engine.
///
/// How late a request was found does not count as a part of the wait for it: looks would be later and later. A request says when it
/// was sent, by the clock of its sender, which differs from this one by a constant: what is more than the least of the last requests is
/// how late it was found.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Of pauses, and of those before the time at which a request is expected.
    longest: [Duration; 2],
    /// When this wait began.
    began: Instant,
    /// How long the last two waits were for requests that would have been found at once.
    last: [Duration; 2],
    /// The waits so far.
    waits: u32,
    /// The least age of a request when it was found, in seconds by two clocks; it rises slowly, since clocks are set.
    least: f64,
}

/// The part of a difference by which the least age of requests rises towards that of the latest.
const RISES: f64 = 0.03;
/// In one of so many waits a look is early.
const EARLY: u32 = 4;

impl Pace {
    /// Pauses of at most so long, and of at most so long before a request is expected.
    pub(crate) fn new(longest: [Duration; 2]) -> Self {
        Self { longest, began: Instant::now(), last: [Duration::ZERO; 2], waits: 0, least: f64::INFINITY }
    }

    /// A request has come, sent at this time by its sender's clock, in seconds since 1970.
    pub(crate) fn came(&mut self, sent: f64) {
        self.came_at(Instant::now(), now() - sent);
    }

    /// A wait begins.
    pub(crate) fn wait(&mut self) {
        self.wait_at(Instant::now());
    }

    /// Pauses before the next look, or until `stop` is set.
    pub(crate) fn pause(&self, stop: &AtomicBool) {
        let until = Instant::now() + self.pause_at(Instant::now());
        while !stop.load(Ordering::Relaxed) {
            match until.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(PAUSE)),
                _ => return,
            }
        }
    }

    fn came_at(&mut self, now: Instant, age: f64) {
        let late = (age - self.least).max(0.0);
        self.least = if self.least.is_finite() { age.min(self.least + RISES * late) } else { age };
        let late = Duration::try_from_secs_f64(late).unwrap_or_default();
        self.last = [(now - self.began).saturating_sub(late), self.last[0]];
    }

    fn wait_at(&mut self, now: Instant) {
        (self.began, self.waits) = (now, self.waits.wrapping_add(1));
    }

    fn pause_at(&self, now: Instant) -> Duration {
        let (last, waited) = (self.last[0].min(self.last[1]), now - self.began);
        let (early, usual) = (last - last / 16, last + last / 16);
        let (pause, longest) = match waited {
            _ if waited < early && self.waits.is_multiple_of(EARLY) => (early - waited, self.longest[1]),
            _ if waited < usual => (usual - waited, self.longest[1]),
            _ => (waited / 5, self.longest[0]),
        };
        pause.clamp(PAUSE, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks of a silo that gets a request after each of these waits, in milliseconds, and how late it is found; the
    /// sender's clock is an hour behind.
    fn looks(waits: &[u64]) -> Vec<(u32, Duration)> {
        let mut pace = Pace::new([Duration::from_secs(2), Duration::from_secs(10)]);
        let (mut now, mut found) = (Instant::now(), Vec::new());
        for wait in waits {
            pace.wait_at(now);
            let (due, mut count) = (now + Duration::from_millis(*wait), 0);
            while now < due {
                now += pace.pause_at(now);
                count += 1;
            }
            pace.came_at(now, 3_600.0 + (now - due).as_secs_f64());
            found.push((count, now - due));
        }
        found
    }

    #[test]
    fn a_silo_of_rounds_that_are_alike_looks_once_or_twice_and_finds_its_request_soon() {
        // Waits that differ by a tenth.
        let alike: Vec<u64> = (0..240).map(|round| 1_500 + 150 * (round * 7 % 11) / 10).collect();
        let found = &looks(&alike)[40..];
        let all: u32 = found.iter().map(|(count, _)| count).sum();
        let late: Duration = found.iter().map(|(_, late)| *late).sum();
        // Pauses that began at half of the last wait and grew by a fifth were six looks a round, a tenth late.
        assert!(all <= 3 * 200 / 2 && late < 200 * Duration::from_millis(200), "{all} {late:?} {found:?}");
        assert!(found.iter().all(|(_, late)| *late < Duration::from_millis(400)), "{found:?}");
        for (count, late) in &looks(&[3_500; 10])[2..] {
            assert!(*count <= 2 && *late < Duration::from_millis(800), "{count} {late:?}");
        }
        for (count, late) in looks(&[150; 10]) {
            assert!(count <= 2 && late <= Duration::from_millis(100), "{count} {late:?}");
        }
    }

    #[test]
    fn waits_that_become_shorter_are_found_out_at_once_and_a_single_long_one_delays_no_other() {
        let found = looks(&[1_600, 1_600, 400, 400, 400]);
        assert!(found[2].1 > Duration::from_secs(1) && found[4].1 < Duration::from_millis(250), "{found:?}");
        let found = looks(&[400, 400, 30_000, 400]);
        assert!(found[3].1 < Duration::from_millis(100), "{found:?}");
    }

    #[test]
    fn a_request_after_a_long_wait_is_two_seconds_late_at_most() {
        for (_, late) in looks(&[600_000, 50, 600_000, 50]) {
            assert!(late <= Duration::from_secs(2), "{late:?}");
        }
    }
}
