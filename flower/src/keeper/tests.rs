//! Holds a silo to the rows with which it began a run, to states without remains of others, and to words for clocks.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use super::*;

/// Says that it was asked.
struct Listener;

impl SiloProgram for Listener {
    fn name(&self) -> &str {
        "listener"
    }

    fn answer(&mut self, _: &Message) -> partita_inference::Result<Message> {
        Ok(Message::new("heard"))
    }
}

/// A silo that has so many rows, if somebody said.
fn open(folder: &Path, rows: Option<u64>) -> Keeper {
    let mut keeper = Keeper::open(folder, Box::new(|| Ok(Box::new(Listener)))).unwrap();
    if let Some(rows) = rows {
        keeper.set_rows(rows);
    }
    keeper
}

/// The answer to the request of a round that follows the one before it.
fn ask(keeper: &mut Keeper, (run, began): (&str, u64), round: u64) -> Result<Message> {
    let (run, accepted) = (run.to_owned(), round - 1);
    let envelope = Envelope { run, began, round, attempt: 1, accepted, kept: accepted, ..Envelope::default() };
    keeper.answer(&envelope, &Message::new("listen"))
}

#[test]
fn a_silo_that_returns_with_other_rows_refuses_to_go_on_and_begins_another_run() {
    let folder = tempfile::tempdir().unwrap();
    ask(&mut open(folder.path(), Some(5)), ("a", 1), 1).unwrap();
    let record = || std::fs::read_to_string(folder.path().join("silo.json")).unwrap();
    let before = record();
    let found = ask(&mut open(folder.path(), Some(6)), ("a", 1), 2).unwrap_err();
    assert!(matches!(found, Error::Unwelcome { what: refused::ROWS, .. }), "{found}");
    let said = found.to_string();
    for words in ["6 rows now", "5 rows, with which this silo began the run", "Restore the file", "`--restart`"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(record(), before);
    // What it answered with its rows is repeated.
    ask(&mut open(folder.path(), Some(6)), ("a", 1), 1).unwrap();
    ask(&mut open(folder.path(), Some(5)), ("a", 1), 2).unwrap();
    ask(&mut open(folder.path(), Some(6)), ("b", 2), 1).unwrap();
    assert!(ask(&mut open(folder.path(), Some(5)), ("b", 2), 2).is_err());
}

#[test]
fn a_run_whose_record_says_no_rows_is_gone_on_with_and_held_to_those_of_its_next_answer() {
    let folder = tempfile::tempdir().unwrap();
    ask(&mut open(folder.path(), None), ("a", 1), 1).unwrap();
    // As an earlier version wrote it.
    let path = folder.path().join("silo.json");
    let record = std::fs::read_to_string(&path).unwrap();
    let earlier = record.replace("  \"rows\": null,\n", "");
    assert!(earlier != record, "{record}");
    std::fs::write(&path, earlier).unwrap();
    ask(&mut open(folder.path(), Some(5)), ("a", 1), 2).unwrap();
    assert!(ask(&mut open(folder.path(), Some(6)), ("a", 1), 3).is_err());
    ask(&mut open(folder.path(), Some(5)), ("a", 1), 3).unwrap();
}

#[test]
fn a_run_that_seems_older_is_told_of_the_clock_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path(), None);
    ask(&mut keeper, ("a", 5_000), 1).unwrap();
    let said = ask(&mut keeper, ("b", 2_000), 1).unwrap_err().to_string();
    for words in ["made 3000 ms earlier", "or the clock of the coordinator's machine was set back"] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn what_a_kill_left_of_a_state_is_no_part_of_the_one_that_is_saved_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path(), None);
    ask(&mut keeper, ("a", 1), 1).unwrap();
    let place = folder.path().join("round-00000002");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("answered"), "by a process that was killed").unwrap();
    ask(&mut keeper, ("a", 1), 2).unwrap();
    assert!(place.join("reply.partita").exists() && !place.join("answered").exists());
}

#[test]
fn a_run_that_cannot_be_archived_ends_the_silo_as_any_state_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path(), None);
    ask(&mut keeper, ("a", 1), 1).unwrap();
    // A folder stands where the record of the run is to be written.
    let hash = ObjectId::of(b"a").to_string();
    let record = folder.path().join(format!("archive/{:020}-{}/silo.json", 1, &hash[..12]));
    std::fs::create_dir_all(record.join("in the way")).unwrap();
    let found = ask(&mut keeper, ("b", 2), 1).unwrap_err();
    assert!(matches!(&found, Error::File { path, .. } if *path == record), "{found:?}");
    // Nothing of the run before is lost.
    assert!(ask(&mut keeper, ("a", 1), 2).is_ok());
}

#[test]
fn a_saved_answer_of_which_a_bit_was_flipped_is_not_given_again() {
    let folder = tempfile::tempdir().unwrap();
    ask(&mut open(folder.path(), None), ("a", 1), 1).unwrap();
    let path = folder.path().join("round-00000001/reply.partita");
    let whole = std::fs::read(&path).unwrap();
    for place in [whole.len() / 2, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[place] ^= 1;
        std::fs::write(&path, flipped).unwrap();
        let said = ask(&mut open(folder.path(), None), ("a", 1), 1).unwrap_err().to_string();
        for words in ["reply.partita", "SHA-256", "Put this silo's folder back from a copy"] {
            assert!(said.contains(words), "{said}");
        }
    }
    std::fs::write(&path, whole).unwrap();
    assert_eq!(ask(&mut open(folder.path(), None), ("a", 1), 1).unwrap().kind, "heard");
}
