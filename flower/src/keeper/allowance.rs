//! Counts the requests that a silo answers in a day, so that its owner can say how many these may be.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::own_file;

/// The file in a silo's folder.
const NAME: &str = "requests.json";
const SECONDS_OF_A_DAY: u64 = 86_400;

/// The requests of a day, counted from 1970 by universal time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Counted {
    day: u64,
    requests: u64,
}

/// Counts one more request, or refuses it.
pub(super) fn count(folder: &Path, most: u64) -> Result<()> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    count_on(folder, most, seconds / SECONDS_OF_A_DAY)
}

fn count_on(folder: &Path, most: u64, today: u64) -> Result<()> {
    let path = folder.join(NAME);
    let before: Counted = match own_file::read(&path)? {
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::file(&path, error))?,
        None => Counted::default(),
    };
    // A clock that is put back begins no new day.
    let now = if today > before.day { Counted { day: today, requests: 0 } } else { before };
    if now.requests >= most && now.day > today {
        return Err(Error::Unwelcome {
            what: crate::refused::DAY_OF_REQUESTS,
            found: format!("{}, {} counted, in {}", told(now.day - today), now.requests, path.display()),
            expected: format!("today by this machine's clock, at most {most}"),
            remedy: "This machine's clock was set back, or was ahead when they were counted. Correct the clock, or remove that file if the clock is right now.",
        });
    }
    let (what, found) = (crate::refused::REQUESTS_OF_A_DAY, format_args!("one after {}", now.requests));
    let expected = format_args!("at most {most}, as the owner's file says");
    let remedy = "Let the coordinator go on tomorrow by `--resume`, or raise `requests_a_day` in the silo's file.";
    Error::unless(now.requests < most, what, found, expected, remedy)?;
    let counted = Counted { requests: now.requests + 1, ..now };
    own_file::write(&path, &serde_json::to_vec(&counted).map_err(|error| Error::file(&path, error))?)
}

/// A day that is so many days away.
fn told(ahead: u64) -> String {
    if ahead == 1 { "tomorrow".into() } else { format!("a day {ahead} days ahead") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_so_many_requests_and_a_clock_that_is_put_back_has_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let ask = |day| count_on(folder.path(), 2, day);
        ask(7).unwrap();
        ask(7).unwrap();
        assert!(ask(7).unwrap_err().to_string().contains("requests_a_day"));
        assert!(ask(6).is_err());
        ask(8).unwrap();
        assert!(ask(7).is_ok() && ask(8).is_err());
    }

    #[test]
    fn a_day_to_come_is_told_with_the_clock_and_the_file() {
        let folder = tempfile::tempdir().unwrap();
        count_on(folder.path(), 1, 4_000).unwrap();
        let said = |day| count_on(folder.path(), 1, day).unwrap_err().to_string();
        for (day, words) in [(3_000, "a day 1000 days ahead, 1 counted"), (3_999, "tomorrow, 1 counted")] {
            let found = said(day);
            for words in [words, "clock was set back", "Correct the clock, or remove that file", NAME] {
                assert!(found.contains(words), "{found}");
            }
            assert!(!found.contains("go on tomorrow"), "{found}");
        }
        assert!(said(4_000).contains("go on tomorrow by `--resume`"));
        // Without the file it counts anew.
        std::fs::remove_file(folder.path().join(NAME)).unwrap();
        count_on(folder.path(), 1, 3_000).unwrap();
    }
}
