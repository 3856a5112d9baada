//! Tells people what a party waits for, and hears from them that it is to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Is told what happens to silos, a line an event.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// The user of a party: its log, and whether the user has interrupted it.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) log: Log,
    pub(crate) interrupt: Arc<AtomicBool>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("User").field("interrupt", &self.interrupt).finish_non_exhaustive()
    }
}

/// How long after the beginning of a wait its user is told, and how long after that again.
const SOON: Duration = Duration::from_millis(1_500);
const AGAIN: Duration = Duration::from_secs(10);

/// A wait for something, from its beginning on.
#[derive(Debug)]
pub(crate) struct Wait {
    began: Instant,
    told: Option<Instant>,
    /// When the interruption was heard.
    interrupted: Option<Instant>,
    /// How long after an interruption it is waited for an answer that a checkpoint could follow.
    grace: Duration,
}

impl Wait {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { began: Instant::now(), told: None, interrupted: None, grace }
    }

    /// The wait is over, and another begins: lines keep their distance.
    pub(crate) fn restart(&mut self) {
        (self.began, self.interrupted) = (Instant::now(), None);
    }

    /// Tells `user` what is waited for, if it is time to.
    ///
    /// # Errors
    /// [`Error::Interrupted`], some time after the user interrupted.
    pub(crate) fn look(&mut self, user: &User, what: impl Fn() -> String) -> Result<()> {
        self.look_at(Instant::now(), user, what)
    }

    fn look_at(&mut self, now: Instant, user: &User, what: impl Fn() -> String) -> Result<()> {
        let is_due = self.told.is_none_or(|told| now - told >= AGAIN);
        if now - self.began >= SOON && is_due {
            self.told = Some(now);
            (user.log)(&format!("waiting for {}, {:.0} s", what(), (now - self.began).as_secs_f64()));
        }
        if user.interrupt.load(Ordering::Relaxed) {
            let heard = *self.interrupted.get_or_insert(now);
            if now - heard >= self.grace {
                return Err(Error::Interrupted { what: what() });
            }
        }
        Ok(())
    }
}

/// When a line was last said that must not fill a log.
#[derive(Debug, Default)]
pub(crate) struct Seldom(pub(crate) Option<Instant>);

impl Seldom {
    /// Whether to say it now: the first time, and `pause` after the last.
    pub(crate) fn is_due(&mut self, pause: Duration) -> bool {
        let is_due = self.0.is_none_or(|said| said.elapsed() >= pause);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_wait_is_told_within_two_seconds_and_ten_seconds_later_again() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&said);
        let log: Log = Arc::new(move |line| own.lock().unwrap().push(line.to_owned()));
        let user = User { log, interrupt: Arc::default() };
        let mut wait = Wait::new(Duration::ZERO);
        let began = wait.began;
        for tenths in 0..140 {
            wait.look_at(began + Duration::from_millis(100 * tenths), &user, || "north".into()).unwrap();
        }
        assert_eq!(*said.lock().unwrap(), ["waiting for north, 2 s", "waiting for north, 12 s"]);
    }

    #[test]
    fn a_line_is_said_at_once_and_not_again_before_its_pause() {
        let mut said = Seldom::default();
        assert!(said.is_due(AGAIN) && !said.is_due(AGAIN) && said.is_due(Duration::ZERO));
    }
}
