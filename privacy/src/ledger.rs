//! Keeps what a silo has spent in a file that only grows, written to disk before any noise is drawn.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use crate::accountant::{Accountant, Conversion, Cost};
use crate::error::{Error, Result};
use crate::hexadecimal;

mod line;

use line::{Entry, Line, Seen};

/// What the owner of a silo allows in all, over every run.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// Epsilon of everything together.
    pub epsilon: f64,
    /// The delta at which epsilon is stated.
    pub delta: f64,
    /// What is protected: `row`, or `silo`. A ledger is of one.
    pub unit: String,
}

/// What a ledger has spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// Epsilon at the budget's delta.
    pub epsilon: f64,
    /// The releases charged.
    pub releases: u64,
    /// Those of them that were never drawn, or whose reply was not stored: a process ended between charge and answer.
    pub never_drawn: u64,
    /// How many silos may work together with the coordinator, where a part of the releases has no more than a share of the noise
    /// behind masks: the least that any of them was charged for. `None` where epsilon holds whoever works together.
    pub colluders: Option<u64>,
}

/// A reply, and whether it was paid for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The reply.
    pub bytes: Vec<u8>,
    /// Whether it is the stored reply to an identical request, at no cost.
    pub stored: bool,
}

/// A place in a ledger, for the saved state of a silo: a ledger that does not reach it, or has other entries up to it,
/// was put back or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The entries up to there.
    pub entries: usize,
    /// The SHA-256 of the last of them, in hexadecimal.
    pub head: String,
}

/// A ledger's file, locked, and what stands in it.
struct Locked<'a> {
    file: File,
    known: MutexGuard<'a, Known>,
}

/// What was read of a ledger.
#[derive(Default)]
struct Known {
    seen: Seen,
    /// The bytes that were read, all of whole lines.
    length: u64,
    /// Where the last line begins.
    last: u64,
}

impl Known {
    /// Whether the last line read is still in its place: its hash is bound to all lines before it.
    fn is_still_in(&self, file: &mut File) -> std::io::Result<bool> {
        if self.length == 0 || file.metadata()?.len() < self.length {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.last))?;
        let mut line = Vec::new();
        Read::take(file, self.length - self.last).read_to_end(&mut line)?;
        Ok(line.strip_suffix(b"\n").is_some_and(|line| line::hash(line) == self.seen.head()))
    }
}

/// The account of a silo: a file of lines, each with the hash of the line before it.
///
/// An answer goes through these steps, with the file locked against every other process: look for an identical
/// request; compare with the budget; append the cost and flush it to the disk; draw the noise; append the reply. A
/// process that dies after the third step has spent without a release, and never the reverse. Two coordinators, or two
/// processes of one silo, share the file and so the budget.
///
/// # Laws
/// What is spent never decreases, and no release happens beyond the budget: `privacy/tests/privacy/ledger.rs`.
///
/// # Example
/// ```
/// use partita_privacy::{Budget, Cost, Ledger};
/// let folder = tempfile::tempdir().unwrap();
/// let budget = Budget { epsilon: 1.0, delta: 1e-5, unit: "row".into() };
/// let ledger = Ledger::open(&folder.path().join("ledger"), budget)?;
/// let cost = Cost::new(18.1, 20)?;
/// let first = ledger.answer(b"request 1", cost, || Ok(vec![7]))?;
/// let again = ledger.answer(b"request 1", cost, || Ok(vec![8]))?;
/// assert_eq!((first.bytes, again.bytes, again.stored), (vec![7], vec![7], true));
/// assert!(ledger.answer(b"request 2", cost, || Ok(vec![9])).unwrap_err().to_string().contains("budget"));
/// # Ok::<(), partita_privacy::Error>(())
/// ```
#[derive(Clone)]
pub struct Ledger {
    path: PathBuf,
    budget: Budget,
    /// Against how many silos together what is charged from now on is promised; all if it is not said.
    colluders: Option<u64>,
    /// What was read so far: of a file that only grows, the rest is read.
    known: Arc<Mutex<Known>>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ledger").field("path", &self.path).field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl Ledger {
    /// Opens the file `path`, which is created if absent; its folder must exist.
    ///
    /// # Errors
    /// [`Error::Ledger`] for a file that cannot be read or written, has other lines than a ledger's, was changed, or
    /// protects another unit; [`Error::Setting`] for a budget that is none.
    pub fn open(path: &Path, budget: Budget) -> Result<Self> {
        if !(budget.epsilon >= 0.0 && budget.epsilon.is_finite()) {
            return Err(Error::Setting {
                operation: "opening a ledger",
                what: "the budget's epsilon",
                found: budget.epsilon.to_string(),
                expected: "a number of at least 0",
                remedy: "Usual budgets are between 0.1 and 10.",
            });
        }
        let ledger = Self { path: path.to_owned(), budget, colluders: None, known: Arc::default() };
        // Refuses a delta that is none.
        Accountant::default().epsilon(ledger.budget.delta, Conversion::Improved)?;
        let Locked { mut file, known } = ledger.lock()?;
        let seen = &known.seen;
        match &seen.unit {
            None => {
                let opened = Entry::Opened { unit: ledger.budget.unit.clone() };
                ledger.append(&mut file, seen.head(), opened)?;
                ledger.flush_folder()?;
            }
            Some(unit) if *unit != ledger.budget.unit => {
                let problem = format!("it protects one {unit}, the budget is of one {}", ledger.budget.unit);
                return Err(ledger.wrong(problem, "Name another file for another unit."));
            }
            Some(_) => {}
        }
        drop(known);
        Ok(ledger)
    }

    /// The same ledger, which writes beside every further charge that it holds against the coordinator and at most so many
    /// silos together; whoever works together, for `None`.
    ///
    /// # Example
    /// ```
    /// use partita_privacy::{Budget, Cost, Ledger};
    /// let folder = tempfile::tempdir().unwrap();
    /// let budget = Budget { epsilon: 1.0, delta: 1e-5, unit: "row".into() };
    /// let ledger = Ledger::open(&folder.path().join("ledger"), budget)?.against(Some(2));
    /// ledger.answer(b"request 1", Cost::new(18.1, 1)?, || Ok(vec![7]))?;
    /// assert_eq!(ledger.spent()?.colluders, Some(2));
    /// # Ok::<(), partita_privacy::Error>(())
    /// ```
    #[must_use]
    pub fn against(self, colluders: Option<u64>) -> Self {
        Self { colluders, ..self }
    }

    /// The reply to `request`: the stored one, at no cost, if these bytes were answered before; else the one that
    /// `release` makes, once `cost` is on the disk.
    ///
    /// # Errors
    /// [`Error::Budget`] beyond the budget: then nothing is charged, and `release` is not called. Whatever `release`
    /// fails with: then the cost stays charged. [`Error::Ledger`] as for [`open`](Self::open).
    pub fn answer(&self, request: &[u8], cost: Cost, release: impl FnOnce() -> Result<Vec<u8>>) -> Result<Answer> {
        self.answered(request, cost, None, release)
    }

    /// The same for one of the sums of a study, which together have the cost `all` and are about what has this hash.
    ///
    /// It is refused once the study has had as many, whoever asks and however often the study is begun, and where those
    /// that are left do not fit into the budget together: nothing is spent on a run that could not be finished.
    ///
    /// # Errors
    /// [`Error::Study`] beyond the sums of the study: nothing is charged then. Otherwise as for [`answer`](Self::answer).
    ///
    /// # Example
    /// ```
    /// use partita_privacy::{Budget, Cost, Ledger};
    /// let folder = tempfile::tempdir().unwrap();
    /// let budget = Budget { epsilon: 1.0, delta: 1e-5, unit: "row".into() };
    /// let ledger = Ledger::open(&folder.path().join("ledger"), budget)?;
    /// let ask = |request, sums| ledger.answer_of_study(&[7; 32], Cost::new(18.1, sums)?, request, || Ok(vec![7]));
    /// // One sum would fit, and forty do not.
    /// assert!(ask(b"request 1", 40).is_err());
    /// assert_eq!(ledger.spent()?.releases, 0);
    /// assert!(ask(b"request 1", 1).is_ok() && ask(b"request 2", 1).is_err() && ask(b"request 1", 1)?.stored);
    /// # Ok::<(), partita_privacy::Error>(())
    /// ```
    pub fn answer_of_study(
        &self,
        subject: &[u8; 32],
        all: Cost,
        request: &[u8],
        release: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Answer> {
        self.answered(request, all.with_releases(1), Some((subject, all.releases())), release)
    }

    fn answered(
        &self,
        request: &[u8],
        cost: Cost,
        study: Option<(&[u8; 32], u64)>,
        release: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Answer> {
        let request = hexadecimal::write(&Sha256::digest(request));
        let Locked { mut file, known } = self.lock()?;
        let seen = &known.seen;
        if let Some(bytes) = seen.replies.get(&request) {
            return Ok(Answer { bytes: bytes.clone(), stored: true });
        }
        let (mut subject, mut left) = (None, cost.releases());
        if let Some((hash, sums)) = study {
            let about = hexadecimal::write(hash);
            let given = seen.given(&about);
            left = sums.checked_sub(given).filter(|left| *left > 0).ok_or(Error::Study { given, sums })?;
            subject = Some(about);
        }
        self.compare(seen, cost.with_releases(left))?;
        let spent = Entry::Spent { request: request.clone(), cost, colluders: self.colluders, subject };
        let head = self.append(&mut file, seen.head(), spent)?;
        let bytes = release()?;
        self.append(&mut file, &head, Entry::Answered { request, reply: hexadecimal::write(&bytes) })?;
        Ok(Answer { bytes, stored: false })
    }

    /// What is spent so far, by every run.
    ///
    /// # Errors
    /// [`Error::Ledger`] as for [`open`](Self::open).
    pub fn spent(&self) -> Result<Spent> {
        let own = self.lock()?;
        let seen = &own.known.seen;
        let releases = seen.costs.iter().map(|cost| cost.releases()).sum();
        let never_drawn = (seen.costs.len() - seen.replies.len().min(seen.costs.len())) as u64;
        let epsilon = self.epsilon(&Accountant::of(seen.costs.iter().copied()))?;
        Ok(Spent { epsilon, releases, never_drawn, colluders: seen.colluders })
    }

    /// The last entry, for the saved state of a silo.
    ///
    /// # Errors
    /// [`Error::Ledger`] as for [`open`](Self::open).
    pub fn mark(&self) -> Result<Mark> {
        let own = self.lock()?;
        let seen = &own.known.seen;
        Ok(Mark { entries: seen.heads.len(), head: seen.head().to_owned() })
    }

    /// Whether the ledger still has every entry up to `mark`.
    ///
    /// # Errors
    /// [`Error::Ledger`] where it has not: it was put back to an earlier state or replaced.
    pub fn expect(&self, mark: &Mark) -> Result<()> {
        let own = self.lock()?;
        let seen = &own.known.seen;
        match mark.entries == 0 || seen.heads.get(mark.entries - 1) == Some(&mark.head) {
            true => Ok(()),
            false => Err(self.wrong(
                format!("entry {} of the silo's saved state is not among its {}", mark.entries, seen.heads.len()),
                "It was put back to an earlier state or replaced. Put the newest copy in its place.",
            )),
        }
    }

    fn epsilon(&self, accountant: &Accountant) -> Result<f64> {
        accountant.epsilon(self.budget.delta, Conversion::Improved)
    }

    fn compare(&self, seen: &Seen, cost: Cost) -> Result<()> {
        let with = |more: Cost| {
            let mut accountant = Accountant::of(seen.costs.iter().copied());
            accountant.add(more);
            self.epsilon(&accountant)
        };
        let (asked, budget, delta) = (with(cost)?, self.budget.epsilon, self.budget.delta);
        if asked <= budget {
            return Ok(());
        }
        let spent = self.epsilon(&Accountant::of(seen.costs.iter().copied()))?;
        let (mut fits, mut too_many) = (0, cost.releases().max(1));
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            let slot = if with(cost.with_releases(middle))? <= budget { &mut fits } else { &mut too_many };
            *slot = middle;
        }
        Err(Error::Budget { asked, spent, left: (budget - spent).max(0.0), budget, delta, fits })
    }

    /// The file, locked until it is dropped, and what stands in it.
    fn lock(&self) -> Result<Locked<'_>> {
        let mut options = File::options();
        options.create(true).truncate(false).read(true).append(true);
        // What silos answered stands in it, and masks hide that from others.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let opened = options.open(&self.path);
        let mut file = opened.map_err(|error| self.failed(&error))?;
        file.lock().map_err(|error| self.failed(&error))?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // What was read is read again where its last line is not where it was.
        let before = match known.is_still_in(&mut file) {
            Ok(true) => std::mem::take(&mut *known),
            Ok(false) => Known::default(),
            Err(error) => return Err(self.failed(&error)),
        };
        *known = self.read(&mut file, before)?;
        Ok(Locked { file, known })
    }

    /// What stands in the file, of which a part is known.
    fn read(&self, file: &mut File, mut known: Known) -> Result<Known> {
        let mut text = String::new();
        let read = file.seek(SeekFrom::Start(known.length)).and_then(|_| file.read_to_string(&mut text));
        read.map_err(|error| self.failed(&error))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let length = known.length + whole as u64;
        if whole < text.len() {
            // Noise is drawn after a line and its end are on the disk: for a torn one there was none.
            file.set_len(length).and_then(|()| file.sync_all()).map_err(|error| self.failed(&error))?;
        }
        let read = known.seen.read(&text[..whole]);
        read.map_err(|problem| self.wrong(problem, "Put the newest copy in its place; never start an empty one."))?;
        let last = text[..whole].lines().last().map_or(known.last, |line| length - line.len() as u64 - 1);
        Ok(Known { length, last, ..known })
    }

    /// Appends an entry and waits until it is on the disk; the hash of its line.
    fn append(&self, file: &mut File, head: &str, entry: Entry) -> Result<String> {
        let line = Line { previous: head.to_owned(), entry };
        let text = serde_json::to_string(&line).map_err(|error| self.wrong(error.to_string(), "Report this."))?;
        file.write_all(format!("{text}\n").as_bytes()).map_err(|error| self.failed(&error))?;
        file.sync_all().map_err(|error| self.failed(&error))?;
        Ok(line::hash(text.as_bytes()))
    }

    /// Waits until the name of a new file is on the disk.
    fn flush_folder(&self) -> Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Windows opens no folder as a file; it has no such step.
        match cfg!(unix) {
            true => File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| self.failed(&error)),
            false => Ok(()),
        }
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        self.wrong(error.to_string(), "Nothing was released. Check that the file can be read and written.")
    }

    fn wrong(&self, problem: String, remedy: &'static str) -> Error {
        Error::Ledger { path: self.path.clone(), problem, remedy }
    }
}
