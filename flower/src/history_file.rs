//! Keeps what happened to silos in a file that only grows: a checkpoint adds what is new, and rewrites nothing.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::exchange::Event;

/// The file of a run, beside its checkpoints: one event a line.
#[derive(Debug, Default)]
pub(crate) struct HistoryFile {
    /// The events that stand in the file; `None` before this process has begun or taken one up.
    written: Option<usize>,
}

const NAME: &str = "history.jsonl";

impl HistoryFile {
    /// Adds the events that are not in the file yet. A run that was not taken up from a file begins one.
    pub(crate) fn append(&mut self, checkpoint: &Path, events: &[Event]) -> Result<()> {
        let path = place(checkpoint);
        let wrong = |error: std::io::Error| Error::file(&path, error);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(wrong)?;
        }
        let mut options = File::options();
        match self.written {
            None => options.create(true).write(true).truncate(true),
            Some(_) => options.create(true).append(true),
        };
        let mut file = options.open(&path).map_err(wrong)?;
        for event in &events[self.written.unwrap_or_default().min(events.len())..] {
            let line = serde_json::to_string(event).map_err(|error| Error::file(&path, error))?;
            file.write_all(format!("{line}\n").as_bytes()).map_err(wrong)?;
        }
        file.sync_data().map_err(wrong)?;
        self.written = Some(events.len());
        Ok(())
    }

    /// The events of the run that is gone on with: those after its checkpoint happened too.
    pub(crate) fn take_up(&mut self, checkpoint: &Path) -> Result<Vec<Event>> {
        let path = place(checkpoint);
        let wrong = |error: std::io::Error| Error::file(&path, error);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(wrong(error)),
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            // What a kill left of a line.
            let file = File::options().write(true).open(&path).map_err(wrong)?;
            file.set_len(whole as u64).map_err(wrong)?;
        }
        let read = |line| serde_json::from_str(line).map_err(|error| Error::file(&path, error));
        let events: Vec<Event> = text[..whole].lines().map(read).collect::<Result<_>>()?;
        self.written = Some(events.len());
        Ok(events)
    }
}

/// The file beside the folder of a checkpoint.
fn place(checkpoint: &Path) -> PathBuf {
    checkpoint.parent().unwrap_or(Path::new(".")).join(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::EventKind;

    fn event(round: u64) -> Event {
        Event { round, silo: "north".into(), kind: EventKind::Missing, what: "gone".into() }
    }

    #[test]
    fn a_checkpoint_adds_what_is_new_and_a_run_that_goes_on_has_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("not-there-yet");
        let [first, second] = ["step-1", "step-2"].map(|name| root.join(name));
        let read = || std::fs::read_to_string(root.join(NAME)).unwrap();
        let (mut file, mut events) = (HistoryFile::default(), vec![event(1)]);
        file.append(&first, &events).unwrap();
        let before = read();
        events.push(event(2));
        file.append(&second, &events).unwrap();
        file.append(&second, &events).unwrap();
        assert!(read().starts_with(&before) && read().lines().count() == 2, "{}", read());

        // A kill in the middle of a line.
        std::fs::write(root.join(NAME), read() + "{\"round\":3,").unwrap();
        let mut resumed = HistoryFile::default();
        let mut events = resumed.take_up(&second).unwrap();
        assert_eq!(events, [event(1), event(2)]);
        events.push(event(4));
        resumed.append(&second, &events).unwrap();
        assert_eq!(read().lines().count(), 3);
        // Another run begins anew.
        HistoryFile::default().append(&first, &[event(9)]).unwrap();
        assert_eq!(read().lines().count(), 1);
    }
}
