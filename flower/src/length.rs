//! Estimates the duration of a run over an engine before it begins, and refuses one that would take days.

use std::fmt;

use crate::error::{Error, Result};

/// The duration of a short round with silos that are nodes themselves, in seconds: they look for work at least once a
/// second. With a stock SuperNode of flwr 1.41, which looks every three seconds, it is about four.
pub const ROUND_SECONDS: f64 = 1.0;

const HOUR: f64 = 3_600.0;
const DAY: f64 = 24.0 * HOUR;

/// Whether a run of more than a day may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LongRuns {
    /// It is refused.
    #[default]
    Refused,
    /// It is allowed.
    Welcome,
}

/// The length of a run: $`n`$ rounds of $`s`$ seconds each are $`n s`$ seconds.
///
/// # Example
/// ```
/// use partita_flower::{Error, Length, LongRuns, ROUND_SECONDS};
/// let length = Length { rounds: 240_000, round_seconds: ROUND_SECONDS };
/// assert_eq!(length.to_string(), "240000 rounds of about 1 s each: 2.8 days");
/// assert!(matches!(length.check(LongRuns::Refused), Err(Error::Unwelcome { .. })));
/// assert!(length.check(LongRuns::Welcome).is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// The rounds, each an exchange with all the silos it asks.
    pub rounds: u64,
    /// The duration of a round, in seconds.
    pub round_seconds: f64,
}

impl Length {
    /// The duration of all rounds, in seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "rounds are far below 2^52")]
    pub fn seconds(&self) -> f64 {
        self.rounds as f64 * self.round_seconds
    }

    /// A warning for a run of more than an hour; a run of more than a day needs [`LongRuns::Welcome`].
    ///
    /// # Errors
    /// [`Error::Unwelcome`] for a run of more than a day that is not allowed.
    pub fn check(&self, long: LongRuns) -> Result<Option<String>> {
        let is_refused = self.seconds() > DAY && long == LongRuns::Refused;
        let remedy = "Take an algorithm with more local steps in a round, such as `sfvi-avg` or `pvi`, set `round_seconds` in the coordinator's file to what a round takes here (about 4 with stock SuperNodes), or start with `--long`.";
        Error::unless(!is_refused, "the length of this run", self, "a day at most", remedy)?;
        Ok((self.seconds() > HOUR)
            .then(|| format!("This run is long: {self}. More local steps in a round shorten it.")))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        let (value, unit) = match seconds {
            s if s > DAY => (s / DAY, "days"),
            s if s > HOUR => (s / HOUR, "hours"),
            s => (s / 60.0, "minutes"),
        };
        write!(formatter, "{} rounds of about {} s each: {value:.1} {unit}", self.rounds, self.round_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_days_is_held_back_one_of_hours_announced_and_one_of_minutes_let_through() {
        let steps = |rounds| Length { rounds, round_seconds: ROUND_SECONDS };
        let held = steps(120_000).check(LongRuns::Refused).unwrap_err().to_string();
        assert!(held.contains("120000 rounds of about 1 s each: 1.4 days") && held.contains("--long"), "{held}");
        let announced = steps(120_000).check(LongRuns::Welcome).unwrap().unwrap();
        assert!(announced.contains("1.4 days"), "{announced}");
        let announced = steps(8_000).check(LongRuns::Refused).unwrap().unwrap();
        assert!(announced.contains("8000 rounds of about 1 s each: 2.2 hours"), "{announced}");
        assert_eq!(steps(3_000).check(LongRuns::Refused).unwrap(), None);
        // A measured duration of a round replaces the assumed one.
        assert_eq!(Length { rounds: 8_000, round_seconds: 0.25 }.check(LongRuns::Refused).unwrap(), None);
    }
}
