//! Answers with masked sums alone: a silo's own are never sent, and each roster and attempt has noise of its own.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use partita_inference::{Error, Message, Refusal, Result, SiloProgram};
use partita_privacy::{Masker, Peers, Place, RunKey, SiloKey, SystemEntropy, hexadecimal};

use super::messages::{KEY, MASKED, MaskedRequest, keyed, masked};
use super::parts::{apart, is_additive};
use crate::private::declined;

/// Whether sums may be over some of the silos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departures {
    /// Every sum is over all. Without noise the difference of two sums over overlapping rosters is the exact number of
    /// the silos by which they differ.
    Refused,
    /// Another attempt may have another roster, since every answer has fresh noise of its own; each is charged.
    FreshNoise,
    /// Every sum is over all, of whose noise each silo has a share: some of them would have less of it together. Another
    /// attempt has fresh noise, and is charged.
    SharedNoise,
}

/// With whom a silo masks its sums.
#[derive(Debug, Clone)]
pub(crate) struct Masking {
    /// Its own lasting key.
    pub(crate) key: SiloKey,
    /// Those of the other silos, and its own.
    pub(crate) peers: Peers,
    /// The fewest silos of a sum.
    pub(crate) fewest: usize,
    /// Whether a silo may leave. Where its sums have no noise none may: every sum is over all of `peers`.
    pub(crate) departures: Departures,
}

/// A private silo whose sums leave it behind masks.
pub(crate) struct MaskedSilo {
    own: Box<dyn SiloProgram>,
    pub(super) masking: Masking,
    session: Session,
    last: Option<Last>,
}

/// The latest request for a sum and its answer, which is never sent: asked the same behind masks of another session, as after
/// another silo lost its keys, a silo takes no second step.
struct Last {
    /// With its fields in order.
    asked: Message,
    answer: Message,
}

/// The keys of the present session; they are on no disk.
enum Session {
    None,
    /// The silo's key was told, those of the others are not known yet.
    Told(RunKey),
    Shared {
        name: String,
        masker: Masker,
    },
}

impl MaskedSilo {
    pub(crate) fn new(own: Box<dyn SiloProgram>, masking: Masking) -> Self {
        Self { own, masking, session: Session::None, last: None }
    }

    fn key(&mut self, request: &Message) -> Result<Message> {
        let Masking { key, .. } = &self.masking;
        let mut bits = SystemEntropy::default();
        let own = RunKey::new(request.get_setting("session")?, self.own.name(), key, &mut bits).map_err(declined)?;
        let told = keyed(&own.signed())?;
        self.session = Session::Told(own);
        Ok(told)
    }

    fn round(&mut self, message: &Message) -> Result<Message> {
        let MaskedRequest { session, round, attempt, roster, keys, plain } = MaskedRequest::read(message)?;
        if !is_additive(&plain.kind) {
            let problem = format!("it asks for `{}` behind masks, expected a request for a sum", plain.kind);
            return Err(Error::Message { kind: message.kind.clone(), problem });
        }
        self.whole(&roster)?;
        self.share(&session, &keys)?;
        let Self { own, masking, session: Session::Shared { masker, .. }, last } = self else {
            return Err(unknown(&session));
        };
        let place = Place { round, attempt };
        // Before anything is spent: the roster is one that this silo accepts.
        masker.check(place, &roster).map_err(declined)?;
        // Masks cancel among silos that were asked the same alone: whoever asks one of them something else reads nothing.
        let asked = plain.ordered().encode();
        let request = match masking.departures {
            Departures::Refused => plain.clone(),
            // Sums over other silos have other noise, whoever asks for them: the ledger knows each by what it was asked with.
            Departures::FreshNoise | Departures::SharedNoise => {
                plain.clone().setting("roster", &roster.join("\n")).word("attempt", attempt)
            }
        };
        let answer = answered_once(&mut **own, last, &request)?;
        let (frame, numbers) = apart(&answer, &plain)?;
        let hidden = masker.mask(place, &roster, &asked, &numbers).map_err(declined)?;
        masked(&frame, &hidden)
    }

    /// Writes what was answered last beside the silo's state, or reads it from there.
    fn keep(&mut self, request: &Message) -> Result<()> {
        let is_saved = match request.kind.as_str() {
            "silo.save" => true,
            "silo.restore" => false,
            _ => return Ok(()),
        };
        let [asked, answer] = self.files(request.get_setting("folder")?);
        match &self.last {
            Some(last) if is_saved => {
                last.asked.write_to(&asked)?;
                last.answer.write_to(&answer)
            }
            // What a save that was cut off has left is of another state.
            None if is_saved => [asked, answer].iter().try_for_each(|path| remove(path)),
            _ => {
                // A state without them is of before the first sum.
                self.last = match (read(&asked)?, read(&answer)?) {
                    (Some(asked), Some(answer)) => Some(Last { asked, answer }),
                    _ => None,
                };
                Ok(())
            }
        }
    }

    fn files(&self, folder: &str) -> [PathBuf; 2] {
        let name = hexadecimal::write(self.own.name().as_bytes());
        ["asked", "answered"].map(|what| Path::new(folder).join(format!("{what}-{name}.partita")))
    }

    /// Refuses a sum over some of the silos where it has no noise, since the difference to that over all is exact, and where
    /// silos have shares of the noise.
    fn whole(&self, roster: &[String]) -> Result<()> {
        let Masking { peers, departures, .. } = &self.masking;
        if *departures == Departures::FreshNoise || peers.keys().all(|name| roster.contains(name)) {
            return Ok(());
        }
        let all: Vec<&str> = peers.keys().map(String::as_str).collect();
        let kind = match departures {
            Departures::SharedNoise => "of which silos divide the noise",
            _ => "without noise",
        };
        let problem = format!(
            "the roster is {}, expected {}: sums {kind} are over all silos whose keys this one has, or over none",
            roster.join(", "),
            all.join(", ")
        );
        Err(Error::Declined { problem })
    }

    /// Shares secrets with the other silos of a session, once.
    fn share(&mut self, session: &str, keys: &[partita_privacy::SignedKey]) -> Result<()> {
        match std::mem::replace(&mut self.session, Session::None) {
            Session::Told(own) if own.signed().run == session => {
                let Masking { peers, fewest, .. } = &self.masking;
                let masker = Masker::new(own, peers, keys, *fewest).map_err(declined)?;
                self.session = Session::Shared { name: session.to_owned(), masker };
                Ok(())
            }
            Session::Shared { name, masker } if name == session => {
                self.session = Session::Shared { name, masker };
                Ok(())
            }
            other => {
                self.session = other;
                Err(unknown(session))
            }
        }
    }
}

/// The answer of the silo behind the masks: the known one, where it was asked just that before.
fn answered_once(own: &mut dyn SiloProgram, last: &mut Option<Last>, request: &Message) -> Result<Message> {
    let asked = request.ordered();
    // By bytes: a number that is none is itself.
    if let Some(last) = last.as_ref().filter(|last| last.asked.encode() == asked.encode()) {
        return Ok(last.answer.clone());
    }
    let answer = own.answer(request)?;
    *last = Some(Last { asked, answer: answer.clone() });
    Ok(answer)
}

/// The message of a file, if it is there.
fn read(path: &Path) -> Result<Option<Message>> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Message::read_from(path, REMEDY).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file("reading", path, &error)),
    }
}

/// What to do about a file that is damaged. It is not to be removed: the silo would take the step of this sum a second time.
const REMEDY: &str = "Put this silo's folder back from a copy, or move it away and start the run anew";

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(file("removing", path, &error)),
        _ => Ok(()),
    }
}

fn file(operation: &'static str, path: &Path, error: &std::io::Error) -> Error {
    Error::File { operation, path: path.to_owned(), reason: error.to_string() }
}

fn unknown(session: &str) -> Error {
    let problem = format!("this silo has no key of session `{session}`. {}.", Refusal::Keys.remedy());
    Error::Refused { reason: Refusal::Keys, problem }
}

impl SiloProgram for MaskedSilo {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn within(&self) -> Option<&dyn SiloProgram> {
        Some(&*self.own)
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            KEY => self.key(request),
            MASKED => self.round(request),
            // What the keeper of its state asks.
            kind if kind.starts_with("silo.") => {
                let answer = self.own.answer(request)?;
                self.keep(request)?;
                Ok(answer)
            }
            kind if is_additive(kind) || self.masking.departures == Departures::Refused => {
                let problem = format!(
                    "found `{kind}`, a request for this silo's own numbers, expected one for masked sums alone: its file has `[secure]`. Ask for masks by `secure_sums = true`"
                );
                Err(Error::Declined { problem })
            }
            _ => self.own.answer(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A silo whose own state is nothing.
    struct Stateless;

    impl SiloProgram for Stateless {
        fn name(&self) -> &str {
            "south"
        }

        fn answer(&mut self, _: &Message) -> Result<Message> {
            Ok(Message::new("silo.done"))
        }
    }

    fn masked(last: Option<Last>) -> MaskedSilo {
        let (key, departures) = (SiloKey::from_bytes(&[1; 32]), Departures::Refused);
        let masking = Masking { key, peers: Peers::new(), fewest: 2, departures };
        MaskedSilo { last, ..MaskedSilo::new(Box::new(Stateless), masking) }
    }

    #[test]
    fn a_state_of_before_the_first_sum_has_no_answer_that_an_earlier_save_left() {
        let folder = tempfile::tempdir().unwrap();
        let told = |kind| Message::new(kind).setting("folder", &folder.path().to_string_lossy());
        let restored = || {
            let mut silo = masked(None);
            silo.answer(&told("silo.restore")).map(|_| silo.last.map(|last| last.asked))
        };
        let asked = Message::new("sfvi.step").word("step", 7);
        let answered = || Some(Last { asked: asked.clone(), answer: Message::new("sum").number("elbo", -1.5) });
        masked(answered()).answer(&told("silo.save")).unwrap();
        assert_eq!(restored().unwrap(), Some(asked.clone()));
        // A bit that a disk has flipped, wherever it is, and though what is left is a message.
        for path in masked(None).files(&folder.path().to_string_lossy()) {
            let whole = std::fs::read(&path).unwrap();
            for place in [whole.len() / 2, whole.len() - 33, whole.len() - 1] {
                let mut flipped = whole.clone();
                flipped[place] ^= 1;
                std::fs::write(&path, flipped).unwrap();
                let refused = restored().unwrap_err();
                assert!(matches!(&refused, Error::Checkpoint { path: named, .. } if *named == path), "{refused}");
                let said = refused.to_string();
                let words = ["it is damaged", "SHA-256", "Put this silo's folder back from a copy"];
                assert!(words.iter().all(|word| said.contains(word)), "{said}");
            }
            std::fs::write(&path, whole).unwrap();
        }
        assert_eq!(restored().unwrap(), Some(asked.clone()));
        masked(None).answer(&told("silo.save")).unwrap();
        assert_eq!(restored().unwrap(), None);
        // An answer that is there and cannot be read is none that was never given.
        std::fs::create_dir(&masked(None).files(&folder.path().to_string_lossy())[0]).unwrap();
        assert!(matches!(restored(), Err(Error::Checkpoint { .. })));
        // Other requests of the keeper name no folder.
        masked(None).answer(&Message::new("silo.other")).unwrap();
    }
}
